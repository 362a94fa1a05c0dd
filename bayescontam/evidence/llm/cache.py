"""Cache: answers of language models on disk, one small file for each."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from bayescontam.evidence.llm.answer import Answer
from bayescontam.evidence.llm.prompt import Question
from bayescontam.names import visible
from bayescontam.storage import made_folder, sha256, write_text

_FORMAT = 2
"""Version of answers: 1 where ``subset`` and ``superset`` each had the meaning of the other.
To be raised when an answer given before must not stand for one given now."""
_FOLDER = f"v{_FORMAT}"
"""Folder of answers of this version; those of version 1 stand beside it."""


def cache_key(question: Question, model: str, run: int, temperature: float | None) -> str:
    """Return the key of an answer: a hash of all that it depends on but the endpoint."""
    parts = [_FORMAT, question.messages(), model, run, temperature]
    return sha256(json.dumps(parts).encode())


@dataclass(frozen=True)
class Cache:
    """A folder of answers; each is written whole or not at all."""

    folder: Path  # made where there is none
    note: str = ""  # why answers that the folder holds are not used

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "Cache":
        """Make the folder if need be."""
        path = made_folder(folder)
        note = (
            f"{visible(str(path))}: answers of an earlier version of bayescontam are not used:"
            " 'subset' and 'superset' each had the meaning of the other; remove them, or name"
            " another folder"
        )
        return cls(path, note if any(path.glob("??/*.json")) else "")

    def get(self, key: str) -> Answer | None:
        """Return an answer, or None where there is none that can be read."""
        try:
            return Answer.model_validate_json(self._path(key).read_bytes())
        except (OSError, ValidationError):
            return None

    def put(self, key: str, answer: Answer) -> None:
        """Keep an answer."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, answer.model_dump_json() + "\n")

    def _path(self, key: str) -> Path:
        # Folders of a few hundred files each stay quick everywhere.
        return self.folder / _FOLDER / key[:2] / f"{key[2:]}.json"
