"""Programs with their tests, as in MBPP and HumanEval: read, run, changed and made.

Solutions may come from anywhere, so they are run in the sandbox only. How much two of them may
resemble each other is as published (soft contamination, appendix A.3.4).
"""

import ast
import builtins
import inspect
import io
import re
import symtable
import textwrap
import tokenize
import tomllib
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from itertools import accumulate, chain, combinations, count, pairwise, product
from keyword import kwlist
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayescontam._text import join_list, printable
from bayescontam.duplicates.items import DuplicateError
from bayescontam.duplicates.sandbox import Status, run_program

MOST_SIMILAR = 0.85
"""Ratio from which on two solutions are too similar, as published."""
_MOST_NAMES = 2_000_000
"""Names that a comparison of two programs may look at, which takes some two seconds."""
TASK_FIELDS = ("text", "code", "test_list")
"""Fields of a new task, as MBPP names them."""
_REASONS: dict[Status, str] = {
    "failed": "its code fails its tests",
    "time": "its code ran past the time limit",
    "memory": "its code used more memory than allowed",
    "process": "its code started a process",
}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NAMES_AS_TEXT = {
    "dir", "eval", "exec", "globals", "locals", "vars",
    ".__annotations__", ".__code__", ".__name__", ".__qualname__",
}  # fmt: skip
"""Builtins and attributes by which a program gets names as text."""
_CALLED_AT_IMPORT = {
    "NewType", "TypeVar", "abstractmethod", "cache", "cached_property", "classmethod", "dataclass",
    "contextmanager", "field", "lru_cache", "overload", "override", "property", "setter",
    "staticmethod", "total_ordering", "unique", "wraps",
}  # fmt: skip
"""What definitions may call when they are imported, and still be moved."""


@dataclass(frozen=True)
class Program:
    """A solution with its tests."""

    code: str  # the solution, as the text of a module
    tests: str  # run after the code; they raise an error unless it is right
    function: str  # name of the function under test

    @property
    def names(self) -> frozenset[str]:
        """Names that the tests use, which have to stay as they are."""
        nodes = [*ast.walk(_parse(self.tests))]
        found = (getattr(node, key, None) for node in nodes for key in ("id", "attr", "arg"))
        return frozenset({self.function, *filter(None, found)})


def read_program(
    code: str,
    tests: str | Sequence[str],
    *,
    prompt: str = "",
    function: str = "",
    setup: str = "",
) -> Program:
    """Read a solution with its tests from the fields of a benchmark.

    Parameters
    ----------
    code : str
        The solution: ``code`` of MBPP, ``canonical_solution`` of HumanEval.
    tests : str or sequence of str
        Assertions, as in MBPP, or a text that may define ``check(candidate)``, as in HumanEval.
    prompt : str, default ""
        What stands before the code and belongs to it, as in HumanEval.
    function : str, default ""
        Function under test; by default the one of the code that the tests call most often.
    setup : str, default ""
        What runs between the code and the tests: imports, or ``test_setup_code`` of MBPP.

    Raises
    ------
    DuplicateError
        Where code or tests are no Python, there are no tests, or no function is found.

    Examples
    --------
    >>> read_program("def twice(n):\\n    return 2 * n", ["assert twice(2) == 4"]).function
    'twice'
    """
    code = _tidy(prompt + code)
    tests = _tidy("\n".join([setup, *([tests] if isinstance(tests, str) else tests)]))
    _parse(code)
    top = symtable.symtable(code, "program", "exec").get_symbols()
    defined = {each.get_name() for each in top if each.is_assigned()}
    nodes = [*ast.walk(_parse(tests, "its tests are no Python"))]
    if not any(isinstance(each, ast.Assert | ast.Call | ast.Raise) for each in nodes):
        raise DuplicateError("it has no tests")
    calls = (each.func for each in nodes if isinstance(each, ast.Call))
    counts = Counter(each.id for each in calls if isinstance(each, ast.Name))
    if not function:
        function = next((name for name, _ in counts.most_common() if name in defined), "")
    if function not in defined:
        raise DuplicateError("its code does not define the function under test", function)
    checks = any(isinstance(each, ast.FunctionDef) and each.name == "check" for each in nodes)
    if checks and not counts["check"]:
        tests += f"check({function})\n"
    return Program(code, tests, function)


def check_tests(
    program: Program, code: str | None = None, *, seconds: float = 5.0, megabytes: int = 512
) -> None:
    """Raise a DuplicateError unless a solution passes the tests of a program.

    Parameters
    ----------
    program : Program
        Whose tests are run.
    code : str, optional
        Another solution; by default the program's own.
    seconds, megabytes : float, default 5 and 512
        Limits of time and memory.

    Raises
    ------
    DuplicateError
        With the way in which it ended, and the error.
    MissingExtraError
        Where there is no sandbox: then nothing is run.
    """
    solution = program.code if code is None else code
    outcome = run_program(solution, program.tests, seconds=seconds, megabytes=megabytes)
    if outcome.status != "passed":
        raise DuplicateError(_REASONS[outcome.status], outcome.detail)


def code_in_reply(reply: str, function: str) -> str:
    """Return the code in a reply: the last fenced block that defines the function, else all."""
    blocks: list[list[str]] = []
    inside = False
    for line in reply.splitlines():
        if re.match(r"\s*(```|~~~)", line):
            inside = not inside
            blocks += [[]] if inside else []
        elif inside:
            blocks[-1].append(line)
    texts = [textwrap.dedent("\n".join(block)) for block in blocks]
    known = [text for text in texts if re.search(rf"\bdef {re.escape(function)}\b", text)]
    return known[-1] if known else texts[-1] if texts else reply


def similarity(one: str, other: str) -> float:
    """Return how similar two solutions are, 0 to 1, by the published measure."""
    return SequenceMatcher(None, one, other).ratio()


def check_different(code: str, others: Iterable[str], most: float = MOST_SIMILAR) -> None:
    """Raise a DuplicateError if a solution is too similar to another one."""
    ratio = max((similarity(code, other) for other in others), default=0.0)
    if ratio >= most:
        raise DuplicateError("its code is too similar to another", f"ratio {ratio:.2f}")


def check_same_program(code: str, other: str, *, renamed: bool, reordered: bool) -> None:
    """Raise a DuplicateError unless code is other code in other names, or in another order."""
    ours, theirs = _statements(code, renamed), _statements(other, renamed)
    shapes = [[each.shape for each in part] for part in (ours, theirs)]
    exact = [
        sorted(each.shape for each in _statements(part, blank=False)) for part in (code, other)
    ]
    if renamed and exact[0] == exact[1]:
        raise DuplicateError("its code has the names of its item")
    if reordered and shapes[0] == shapes[1]:
        raise DuplicateError("its code has the order of its item")
    if not reordered:  # a place is part of a statement that has to stay in it
        ours, theirs = ([each._replace(shape=f"{at} {each.shape}") for at, each in enumerate(part)]
                        for part in (ours, theirs))  # fmt: skip
    alike = Counter(each.shape for each in ours) == Counter(each.shape for each in theirs)
    if not (alike and _matched((ours, theirs))):
        raise DuplicateError("its code is another program than its item's")


class _Statement(NamedTuple):
    """A statement of a module."""

    shape: str  # its syntax tree as text, without the names
    names: tuple[str, ...]  # in the order of the tree


def _statements(code: str, blank: bool) -> list[_Statement]:
    """Return the top-level statements, with the names that the code may change apart if `blank`."""
    tree = _parse(code)
    own = _own_names(code, [*ast.walk(tree)]) if blank else set()
    found = []
    for statement in tree.body:
        places = [each for each in _places(code, ast.walk(statement)) if each[2] in own]
        for node, key, _, _ in places:
            was = getattr(node, key)
            blanked = ["" if name in own else name for name in was] if key == "names" else ""
            setattr(node, key, blanked)
        found.append(_Statement(ast.dump(statement), tuple(name for _, _, name, _ in places)))
    return found


type _Kinds = tuple[dict[str, int], dict[str, int]]  # of names; the same names have the same one


def _matched(parts: Sequence[Sequence[_Statement]]) -> bool:
    """Return whether statements are the same, each name always another one in their place."""
    size = sum(1 + len(each.names) for part in parts for each in part)
    steps = iter(range(_MOST_NAMES // max(size, 1)))
    ours, theirs = (dict.fromkeys((n for each in part for n in each.names), 0) for part in parts)
    left = [iter([(ours, theirs)])]
    while left:
        if (kinds := next(left[-1], None)) is None:
            left.pop()
            continue
        kinds = _refined(parts, kinds, steps)
        counts, others = (Counter(each.values()) for each in kinds)
        if counts == others:
            if max(counts.values(), default=1) == 1:
                return True
            left.append(_choices(kinds, counts))
    return False


def _choices(kinds: _Kinds, counts: Counter[int]) -> Iterator[_Kinds]:
    """Yield kinds in which a name, of those with the fewest choices, has a kind of its own."""
    kind = min((each for each in counts if counts[each] > 1), key=lambda each: counts[each])
    own = max(counts) + 1
    first = next(name for name in kinds[0] if kinds[0][name] == kind)
    for name in kinds[1]:
        if kinds[1][name] == kind:
            yield kinds[0] | {first: own}, kinds[1] | {name: own}


def _refined(parts: Sequence[Sequence[_Statement]], kinds: _Kinds, steps: Iterator[int]) -> _Kinds:
    """Return kinds of names by the statements in which they occur, and the kinds of names there.

    This is colour refinement, as in tests of whether two graphs are isomorphic.
    """
    while next(steps, None) is not None:
        lines: dict[Any, int] = {}
        new: dict[Any, int] = {}
        found = []
        for part, known in zip(parts, kinds, strict=True):
            uses: dict[str, list[tuple[int, int]]] = {name: [] for name in known}
            for shape, names in part:
                line = lines.setdefault((shape, *map(known.get, names)), len(lines))
                for at, name in enumerate(names):
                    uses[name].append((line, at))
            signs = {name: (known[name], *sorted(places)) for name, places in uses.items()}
            found.append({name: new.setdefault(sign, len(new)) for name, sign in signs.items()})
        if len(new) == len({*kinds[0].values(), *kinds[1].values()}):
            return found[0], found[1]
        kinds = found[0], found[1]
    raise DuplicateError("its code could not be compared with its item's: too much of it is alike")


def check_beginning(text: str, before: str) -> None:
    """Raise a DuplicateError unless two beginnings of a program differ in docstrings alone."""
    if _bare(text) != _bare(before):
        raise DuplicateError("its program begins in another way than its item's")


def last_docstring(beginning: str) -> str:
    """Return the text that the last function of a beginning holds; nothing if there is none.

    It need not come first, as in HumanEval/115.
    """
    last = _parse(beginning.rstrip() + "\n    pass\n").body[-1]
    texts = [node for node in getattr(last, "body", ()) if _is_text(node)]
    return inspect.cleandoc(texts[-1].value.value) if texts else ""


def _is_text(node: ast.AST) -> bool:
    """Return whether a statement is a text and nothing else."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _bare(beginning: str) -> str:
    """Return the syntax tree of a program that goes on after its last function's docstring."""
    tree = _parse(beginning.rstrip() + "\n    pass\n")
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS):
            node.body = [each for each in node.body if not _is_text(each)]
    return ast.dump(tree)


def check_commented(code: str) -> None:
    """Raise a DuplicateError unless a comment stands directly above each statement.

    Docstrings, imports and branches (``elif``, ``else``, ``except``, …) may do without.
    """
    nodes = [*ast.walk(_parse(code))]
    lines, comments = code.split("\n"), _comment_lines(code)
    for node in nodes:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        exempt = docstring or isinstance(node, ast.Import | ast.ImportFrom)
        if isinstance(node, ast.stmt) and not exempt:
            line = lines[_first_line(node) - 1].strip()
            if _first_line(node) - 1 not in comments and not line.startswith("elif"):
                raise DuplicateError("a line of its code has no comment above", line)


def rename(code: str, rng: np.random.Generator, keep: Collection[str]) -> str:
    """Return code with other names for what it defines; all else stays, comments as well.

    Names stay that are imported, builtin, attributes, or keywords of a call. One name becomes one
    new name wherever it stands, and two become two: so none can come to mean something else.

    Parameters
    ----------
    code : str
        Source of a module.
    rng : numpy.random.Generator
        Which names it gets.
    keep : collection of str
        Names that stay: ``Program.names``.

    Raises
    ------
    DuplicateError
        Where no name can be changed, or the code uses names as text (``eval``, ``f"{x=}"``, …).

    Examples
    --------
    >>> print(rename("def f(n): return n + 1", np.random.default_rng(1), {"f"}))
    def f(marker): return marker + 1
    """
    nodes = [*ast.walk(tree := _parse(code))]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    used |= {f".{node.attr}" for node in nodes if isinstance(node, ast.Attribute)}
    if found := sorted(used & _NAMES_AS_TEXT):
        raise DuplicateError("its code uses names as text", join_list(found))
    own = _own_names(code, nodes) - {*keep}
    places = [place for place in _places(code, nodes) if place[2] in own]
    if not places:
        raise DuplicateError("its code has no names to change")
    taken = {*keep, *kwlist, *dir(builtins), *re.findall(r"\w+", code)}
    kinds = {node.name: type(node) for node in nodes if isinstance(node, _DEFINITIONS)}
    new: dict[str, str] = {}
    for name in dict.fromkeys(place[2] for place in places):
        nouns, verb = [*map(str, rng.permutation(_words()["nouns"]))], rng.choice(_words()["verbs"])
        numbered = (f"{nouns[0]}_{number}" for number in count(2))
        for noun in chain(nouns, map("_".join, pairwise(nouns)), numbered):
            kind = kinds.get(name)
            new[name] = noun if kind is None else f"{verb}_{noun}"
            if kind is ast.ClassDef:
                new[name] = noun.title().replace("_", "")
            if new[name] not in taken:
                break
        taken.add(new[name])
    source = code.encode()
    for node, key, name, at in sorted(places, key=lambda place: place[-1], reverse=True):
        source = source[:at] + new[name].encode() + source[at + len(name) :]
        was = getattr(node, key)
        setattr(node, key, [new.get(n, n) for n in was] if key == "names" else new[name])
    renamed = source.decode(errors="replace")
    # Where text and tree agree, no name was part of a text either, as those of f"{x=}" are.
    if ast.dump(_parse(renamed, "its code uses names as text")) != ast.dump(tree):
        raise DuplicateError("its code uses names as text")
    return renamed


def reorder(code: str, rng: np.random.Generator) -> str:
    """Return code with its functions and classes in another order, which changes nothing.

    All other statements stay where they are, and so do definitions that run something when they
    are imported. What a definition then uses (decorators, defaults, base classes, annotations)
    stays before it. Comments directly above a definition go with it.

    Parameters
    ----------
    code : str
        Source of a module.
    rng : numpy.random.Generator
        Which order it gets.

    Raises
    ------
    DuplicateError
        Where there is no other order.
    """
    lines, comments, nodes = code.split("\n"), _comment_lines(code), _parse(code).body
    found: list[tuple[int, int, int, set[str]]] = []  # lines; statements before; names used
    defined = {node.name for node in nodes if isinstance(node, _DEFINITIONS)}
    names, before, stays = list[str](), 0, 0
    for node in nodes:
        start, end = _first_line(node) - 1, node.end_lineno or 0
        parts = [*_at_import(node)]
        if isinstance(node, _DEFINITIONS) and not _acts(parts, code, defined):
            while start > before and start in comments:
                start -= 1
            while end + 1 in comments and lines[end][:1].isspace():
                end += 1
            names.append(node.name)
            used = {each.id for each in parts if isinstance(each, ast.Name)}
            found.append((start, end, stays, {node.name, *used}))
        else:
            stays += 1
        before = end
    tied = {
        (a, b)
        for a, b in combinations(range(len(found)), 2)
        if found[a][2] != found[b][2] or names[a] in found[b][3] or names[b] in found[a][3]
    }
    own = order = [*range(len(found))]
    if all(pair in tied for pair in pairwise(own)):
        raise DuplicateError("it has no functions to reorder")
    while order == own:
        left, order = own.copy(), []
        while left:
            ready = [at for at in left if not any((other, at) in tied for other in left)]
            order.append(ready[int(rng.integers(len(ready)))])
            left.remove(order[-1])
    text, after = list[str](), 0
    for (start, end, *_), at in zip(found, order, strict=True):
        text += [*lines[after:start], *lines[slice(*found[at][:2])]]
        after = end
    return "\n".join([*text, *lines[after:]])


def new_task(rng: np.random.Generator) -> dict[str, Any]:
    """Return a new task for programmers, with the fields of MBPP.

    Parameters
    ----------
    rng : numpy.random.Generator
        What it depends on.

    Returns
    -------
    dict
        ``text``, ``code`` (a solution) and ``test_list`` (three assertions or more).
    """
    known = _words()
    while True:
        kind = known["kinds"][takes := str(rng.choice([*known["kinds"]]))]
        keep, change = (_pick(kind[each], rng) for each in ("keeps", "changes"))
        end = _pick(known["kinds"][change[2]]["ends"], rng)
        name = f"{rng.choice(known['verbs'])}_{rng.choice(known['nouns'])}s"
        code = _pick(known["layouts"], rng).lstrip().format(
            name=name, given="numbers" if takes == "numbers" else "words", keep=keep[0],
            change=change[0], end=re.sub(r"\bR\b", "results", end[0]),
        )  # fmt: skip
        text = (
            f"Write a function {name} that takes a list of {kind['takes']}. It selects those"
            f" {keep[1]}, replaces each of them by {change[1]}, and returns {end[1]}."
        )
        space: dict[str, Any] = {}
        exec(code, space)
        tests: dict[str, str] = {}
        for size in rng.integers(4, 9, 12):
            given = [_pick(kind["values"], rng) for _ in range(size)]
            answer = repr(space[name](given))
            tests.setdefault(answer, f"assert {name}({given!r}) == {answer}")
        if len(tests) > 5:  # else its answer hardly depends on what it takes
            most = int(rng.integers(3, 6))
            return {"text": text, "code": code, "test_list": [*tests.values()][:most]}


@cache
def _words() -> dict[str, Any]:
    """Return what names and new tasks are made of."""
    known = tomllib.loads(Path(__file__).with_name("programs.toml").read_text(encoding="utf-8"))
    for kind, key in product(known["kinds"].values(), ("keeps", "changes")):
        filled = [[re.sub(r"\bK\b", str(number), words) for words in each]
                  for each, number in product(kind[key], range(2, 10))]  # fmt: skip
        kind[key] = [*dict.fromkeys(map(tuple, filled))]  # those without K are there once
    return known


def _pick(known: Sequence[Any], rng: np.random.Generator) -> Any:
    """Return one of several at random, as it is."""
    return known[int(rng.integers(len(known)))]


def _tidy(code: str) -> str:
    """Return source with the line ends of Unix, and one at its end."""
    return code.replace("\r\n", "\n").replace("\r", "\n").strip("\n") + "\n"


def _parse(code: str, reason: str = "its code is no Python") -> ast.Module:
    """Return the syntax tree of source, which is not run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as those of escapes in strings
            symtable.symtable(code, "program", "exec")  # it finds errors that the parser leaves
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DuplicateError(reason, printable(str(error))) from error


def _first_line(node: ast.stmt) -> int:
    """Return the line that a statement begins on, with its decorators."""
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])


def _comment_lines(code: str) -> set[int]:
    """Return the lines, from 1 on, that have a comment and nothing else."""
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(code).readline)]
    except (tokenize.TokenError, SyntaxError) as error:
        raise DuplicateError("its code is no Python", printable(str(error))) from error
    comments = (each for each in tokens if each.type == tokenize.COMMENT)
    return {each.start[0] for each in comments if not each.line[: each.start[1]].strip()}


def _own_names(code: str, nodes: Collection[ast.AST]) -> set[str]:
    """Return names that code binds, and that are nowhere in it an import, builtin or attribute."""
    tables = [symtable.symtable(code, "program", "exec")]
    for table in tables:
        tables.extend(table.get_children())
    bound, top = set[str](), set[str]()
    symbols = [(table, each, each.get_name()) for table in tables for each in table.get_symbols()]
    for table, each, name in symbols:
        if each.is_assigned() or each.is_parameter():
            bound.add(name)
            if table is tables[0] or each.is_declared_global():
                top.add(name)
    keywords = {node.arg for node in nodes if isinstance(node, ast.keyword)}  # None for **
    fixed = {"_", "self", "cls", *keywords, *(top & {*dir(builtins)})}
    for table, each, name in symbols:
        attribute = each.is_assigned() and table.get_type() == "class"
        builtin = each.is_global() and name not in top
        passed = each.is_parameter() and None in keywords
        if attribute or builtin or passed or each.is_imported():
            fixed.add(name)
    fixed |= {each.name for node in nodes for each in getattr(node, "type_params", ())}
    return {name for name in bound - fixed if name.isascii() and not name.startswith("__")}


def _places(code: str, nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.AST, str, str, int]]:
    """Yield nodes that have a name, with its field, the name, and the byte of the source."""
    source = code.encode()
    starts = [0, *accumulate(len(line) + 1 for line in source.split(b"\n"))]

    def word(name: str, start: int) -> int:
        found = re.compile(rb"\b%b\b" % name.encode()).search(source, start)
        return found.start() if found else len(source)

    for node in nodes:
        start = starts[getattr(node, "lineno", 1) - 1] + getattr(node, "col_offset", 0)
        end = starts[getattr(node, "end_lineno", 1) - 1] + getattr(node, "end_col_offset", 0)
        match node:
            case ast.Name(id=name):
                yield node, "id", name, start
            case ast.arg(arg=name):
                yield node, "arg", name, start
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node, "name", node.name, word(node.name, start)
            case ast.ExceptHandler(type=ast.expr() as kind, name=str(name)):
                after = starts[(kind.end_lineno or 1) - 1] + (kind.end_col_offset or 0)
                yield node, "name", name, word(name, after)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                yield from ((node, "names", name, word(name, start)) for name in names)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node, "name", name, source.rfind(name.encode(), start, end)
            case ast.MatchMapping(rest=str(name)):
                yield node, "rest", name, source.rfind(name.encode(), start, end)


def _at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs when a statement does: all but the bodies of functions."""
    yield node
    body = node.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []
    for child in ast.iter_child_nodes(node):
        if child not in body:
            yield from _at_import(child)


def _acts(parts: Sequence[ast.AST], code: str, defined: Collection[str]) -> bool:
    """Return whether a definition, of these parts, may do more at import than define."""
    called = [each.func for each in parts if isinstance(each, ast.Call)]
    called += [each for part in parts for each in getattr(part, "decorator_list", [])]
    names = {ast.unparse(getattr(each, "func", each)).rpartition(".")[-1] for each in called}
    places = (each for each in parts if isinstance(each, ast.Attribute | ast.Subscript))
    stores = any(isinstance(each.ctx, ast.Store) for each in places)
    hooks = "__init_subclass__" in code or "metaclass" in code
    return hooks or stores or not names <= _CALLED_AT_IMPORT - {*defined}
