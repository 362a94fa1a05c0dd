"""Prompt: what a language model is instructed before it judges, and how it is shown a pair."""

import os
from dataclasses import dataclass
from pathlib import Path
from string import Template

from bayescontam.errors import UsageError
from bayescontam.judged import KINDS
from bayescontam.names import visible
from bayescontam.storage import sha256

_HERE = Path(__file__).parent
CUT = 20_000
"""Characters of an item or a chunk that a model is shown, unless requested otherwise."""


@dataclass(frozen=True)
class Question:
    """A pair as a language model is asked about it."""

    prompt: str  # what a duplicate is
    # item, chunk: texts to compare
    item: str
    chunk: str
    cut: int = CUT  # longer texts are cut after this many characters, with a note

    @property
    def is_cut(self) -> bool:
        """Whether a model sees less than the whole of both texts."""
        return max(len(self.item), len(self.chunk)) > self.cut

    def messages(self) -> list[dict[str, str]]:
        """Return the messages of the call: the instruction, then the pair."""
        # Neither text can hold a mark that depends on both: it cannot close its own frame.
        mark = sha256("\0".join((self.item, self.chunk)).encode())[:16]
        rules = Template((_HERE / "rules.md").read_text(encoding="utf-8"))
        kinds = "\n".join(f"- `{kind}`: {meaning}." for kind, meaning in KINDS.items())
        instructions = rules.substitute(mark=mark, kinds=kinds)
        shown = [self._framed(name, mark) for name in ("item", "chunk")]
        return [
            {"role": "system", "content": f"{self.prompt.strip()}\n\n{instructions}"},
            {"role": "user", "content": "\n\n".join(shown)},
        ]

    def _framed(self, name: str, mark: str) -> str:
        text: str = getattr(self, name)
        over = len(text) - self.cut
        note = f"\n[cut here; {over:,} more characters are not shown]" if over > 0 else ""
        return f"<{name} {mark}>\n{text[: self.cut]}{note}\n</{name} {mark}>"


def shipped_prompts() -> list[str]:
    """Return the names of the prompts that ship with the package.

    >>> shipped_prompts()
    ['general', 'programming', 'puzzle', 'question_answering']
    """
    return sorted(path.stem for path in (_HERE / "prompts").glob("*.md"))


def load_prompt(prompt: str | os.PathLike[str]) -> str:
    """Return the text of a prompt."""
    name = os.fspath(prompt)
    path = _HERE / "prompts" / f"{name}.md" if name in shipped_prompts() else Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"prompt '{visible(name)}': cannot be read ({reason}); give one of "
            f"{', '.join(shipped_prompts())}, or the path of a text file in UTF-8"
        ) from error
    if not text.strip():
        raise UsageError(f"prompt '{visible(name)}': is blank; say in it what a duplicate is")
    return text
