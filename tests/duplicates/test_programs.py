"""Programs: read, run with their tests, renamed, reordered, compared and made."""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from bayescontam.duplicates.items import DuplicateError
from bayescontam.duplicates.programs import (
    MOST_SIMILAR,
    TASK_FIELDS,
    Program,
    check_beginning,
    check_commented,
    check_different,
    check_same_program,
    check_tests,
    last_docstring,
    new_task,
    read_program,
    rename,
    reorder,
    similarity,
)
from bayescontam.duplicates.sandbox import run_program
from tests.support.human_eval import human_eval
from tests.support.sandboxed import sandbox  # noqa: F401

held = pytest.mark.usefixtures("sandbox")


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


FORGET = "for _ in [_ for _ in globals() if not _.startswith('__')]: del globals()[_]"


def check_all(pairs: list[tuple[str, str]]) -> None:
    """Run many solutions, each with its tests after it, in few sandboxes."""
    for at in range(0, len(pairs), 100):
        batch = pairs[at : at + 100]
        # No program sees the names of another one.
        outcome = run_program(*(part for pair in batch for part in (FORGET, *pair)), seconds=30)
        part = re.match(r"part (\d+)", outcome.detail)
        shown = "\n\n".join(batch[(int(part[1]) - 1) // 3]) if part else ""
        assert outcome.status == "passed", f"{outcome.detail}\n{shown}"


# Reading


def test_fields_of_mbpp_are_read() -> None:
    program = read_program(
        "import math\r\ndef helper(x):\r\n return x\r\ndef area(r):\r\n return math.pi * helper(r)",
        ["assert isclose(area(1), 3.14159, rel_tol=0.001)", "assert set([area(0)]) == {helper(0)}"],
        setup="from math import isclose",
    )
    assert program.function == "area"
    assert "\r" not in program.code
    assert program.tests == (
        "from math import isclose\nassert isclose(area(1), 3.14159, rel_tol=0.001)\n"
        "assert set([area(0)]) == {helper(0)}\n"
    )
    assert {"area", "helper", "isclose", "rel_tol"} <= program.names


def test_fields_of_humaneval_are_read() -> None:
    program = read_program(
        "    return n + 1\n",
        "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    assert candidate(1) == 2\n\n",
        prompt='def more(n: int) -> int:\n    """ One more.\n    """\n',
        function="more",
    )
    assert program.function == "more"
    assert program.code.endswith('    """\n    return n + 1\n')
    assert program.tests.endswith("== 2\ncheck(more)\n")
    again = read_program(program.code, program.tests, function="more")
    assert again.tests == program.tests


@pytest.mark.parametrize(
    ("code", "tests", "more", "reason"),
    [
        ("def f(:", ["assert f()"], {}, "its code is no Python: invalid syntax"),
        ("def f():\n  return 1\n return 2", ["assert f()"], {}, "its code is no Python"),
        ("nonlocal x\ndef f(): pass", ["assert f()"], {}, "its code is no Python: nonlocal"),
        ("def f(): pass\0", ["assert f()"], {}, "its code is no Python"),
        ("x = " + "(" * 10_000, ["assert f()"], {}, "its code is no Python"),
        ("def f(): pass", ["assert f("], {}, "its tests are no Python"),
        ("def f(): pass", [], {}, "it has no tests"),
        ("def f(): pass", "import math", {}, "it has no tests"),
        ("def f(): pass", ["assert g() is None"], {}, "does not define the function under test"),
        ("def f(): pass", ["assert f()"], {"function": "g"}, "the function under test: g"),
        ("from math import gcd", ["assert gcd(1, 2)"], {}, "does not define the function"),
    ],
)
def test_what_is_no_program_is_refused(code: str, tests: Any, more: Any, reason: str) -> None:
    with pytest.raises(DuplicateError, match=reason):
        read_program(code, tests, **more)


# Running


@held
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def half(n): return n / 3", "fails its tests: part 2, line 1: assert half(4) == 2: Ass"),
        ("def half(m: return m", r"fails its tests: File .part 1., line 1.*SyntaxError"),
        ("def third(n): return n // 2", "fails its tests: .*NameError: name 'half' is not defined"),
        ("import sys\ndef half(n): sys.exit(0)", "fails its tests: part 1, line 2: .*SystemExit"),
        ("import os\ndef half(n): os._exit(0)", "fails its tests: it ended before its last line"),
        ("def half(n):\n    while True: pass", "its code ran past the time limit: 1 s"),
        ("def half(n): return [0] * 10**9", "its code used more memory than allowed"),
        ("import os\ndef half(n): os.fork()", "its code started a process"),
    ],
)
def test_what_fails_is_counted_by_reason(code: str, reason: str) -> None:
    program = read_program("def half(n):\n    return n // 2\n", ["assert half(4) == 2"])
    check_tests(program)
    with pytest.raises(DuplicateError, match=re.sub(r"([()])", r"\\\1", reason)):
        check_tests(program, code, seconds=1, megabytes=256)


# Comparing


def test_similarity_is_that_of_difflib() -> None:
    # Twice the letters in common, by the letters of both: 2 * 3 / (4 + 4).
    assert similarity("abcd", "bcde") == 0.75
    assert similarity("def f(): pass", "def f(): pass") == 1
    assert similarity("abc", "xyz") == 0
    # 17 of 20 letters in common is too similar, 16 are not.
    assert MOST_SIMILAR == 0.85
    check_different("a" * 16 + "b" * 4, ["a" * 16 + "c" * 4, "x"])
    with pytest.raises(DuplicateError, match=r"^its code is too similar to another: ratio 0\.85$"):
        check_different("a" * 17 + "b" * 3, ["x", "a" * 17 + "c" * 3])
    check_different("anything", [])


COMMENTED = '''\
import math

# Area of a circle
@staticmethod
def area(r):
    """Return the area."""
    # Nothing has no area
    if r < 0:
        # So it is zero
        return 0
    elif r == 0: # a branch
        # Neither has a point
        return 0
    else:
        # "#" in a text
        x = "# no comment"
    # The formula
    return (math.pi *
            r ** 2)
'''


def test_each_statement_has_a_comment_above() -> None:
    check_commented(COMMENTED)
    lines = COMMENTED.splitlines(keepends=True)
    for at, line in enumerate(lines):
        if line.strip().startswith("#"):
            below = re.escape(lines[at + 1].strip())
            with pytest.raises(DuplicateError, match=rf"has no comment above: {below}$"):
                check_commented("".join(lines[:at] + lines[at + 1 :]))
    with pytest.raises(DuplicateError, match="comment above: x = 1"):
        check_commented('"""# no comment\n"""\nx = 1\n')
    with pytest.raises(DuplicateError, match="comment above: x = 1"):
        check_commented("y = f()  # at the end\nx = 1\n".replace("y = f()", "# above\ny = 2"))


# Renaming

TRICKY = r"""
=== closures
def f(n):
    total = 0
    def add(k):
        nonlocal total
        total += k
        def again(total): return total + k
        return again(k)
    return [add(i) for i in range(n)], total
---
assert f(3) == ([0, 2, 4], 3)
=== globals
COUNT = 0
def g():
    global COUNT, LATER
    COUNT += 1
    LATER = COUNT * 2
def f():
    g()
    g()
    return COUNT, LATER
---
assert f() == (2, 4)
assert COUNT == 2
=== shadows
def f(list, str='a', max=0):
    sum = 0
    for len in list: sum += len
    return sum + max, str
def g(n): return list(str(n)), len(str(n)), sum([n])
---
assert f([1, 2]) == (3, 'a')
assert g(12) == (['1', '2'], 2, 12)
=== builtins
max, old = min, max
def sum(numbers, sum=sum): return sum(numbers) + 1
def f(a): return max(a), old(a), sum(a)
---
assert f([1, 2, 3]) == (1, 3, 7)
=== keywords
def area(width, height=2, *rest, scale=1, **more):
    return width * height * scale + len(rest) + sum(more.values())
def f(width, n):
    return area(width=width, height=3, scale=n), sorted([1, 2], key=lambda key: -key)
def total(first, second): return first - second
---
assert f(2, 5) == (30, [2, 1])
assert f(n=1, width=1) == (3, [2, 1])
assert total(3, 1) == 2
=== unpacked
def g(a, b): return a - b
def f(**k): return g(**k)
---
assert f(a=3, b=1) == 2
=== classes
class Node:
    size = 1
    size = size + 1
    def __init__(self, left, value=0):
        self.left, self.value, self.__own = left, value, 1
    @property
    def total(self): return self.value + (self.left.total if self.left else 0)
    def own(self): return self.__own
    @staticmethod
    def make(value): return Node(None, value)
total = 7
class Leaf(Node):
    value: int = total
    items = [i for i in range(total)]
    def own(self):
        __x = super().own()
        return __x + 1
def f(value):
    node = Node(Node.make(value), value=2)
    return node.total, node.size, Leaf(None).own()
---
assert f(3) == (5, 2, 2)
assert Leaf.items == [0, 1, 2, 3, 4, 5, 6]
=== class bodies
x = 1
def f(n):
    x = 2
    class C:
        y = x
        z = n
    class D:
        n = n
    return C.y, C.z, D.n
n = 5
---
assert f(3) == (2, 3, 5)
=== f-strings
def f(name, width):
    pad, text = '*', f'{name!r:{width}}|{name:>{width}}|{ {name: 1}[name] }'
    both = f"{text} {'nested ' + f'{name}'} {{name}} {(lambda name: name)(width)}"
    return both + f'''
{pad}name'''
---
assert f('ab', 5) == "'ab' |   ab|1 nested ab {name} 5\n*name"
=== comprehensions
def f(rows):
    flat = [x for row in rows for x in row if (last := x) > 0]
    pairs = {x: y for x, y in zip(flat, flat[1:])}
    found = {(x, y) for x in flat for y in [x]}
    return flat, last, pairs, sum(x for x in flat), len(found)
---
assert f([[1, -1], [2, 3]]) == ([1, 2, 3], 3, {1: 2, 2: 3}, 6, 3)
=== patterns
def f(value):
    match value:
        case {'a': found, **rest}: return found, rest
        case [first, *others, ] if others: return first, others
        case (int() | str()) as one: return one, one
        case other: return other, None
---
assert f({'a': 1, 'b': 2}) == (1, {'b': 2})
assert f([1, 2]) == (1, [2])
assert f('x') == ('x', 'x')
assert f(None) == (None, None)
=== errors
class Wrong(ValueError): pass
def f(n):
    try:
        if n: raise Wrong('no')
        e = 1
    except (Wrong,  # as e
            KeyError) as e:
        return str(e)
    except ValueError: pass
    else: return e
---
assert f(1) == 'no' and f(0) == 1
=== imports
import os.path
import math as m
from itertools import chain as joined
joined = joined
def f(a):
    import json as text
    return list(joined(a, [m.floor(1.5)])), text.dumps(a), os.path.sep
---
assert f([1]) == ([1, 1], '[1]', '/')
=== decorators
import functools
def twice(fn):
    @functools.wraps(fn)
    def inner(*args, **more):
        return fn(*args, **more) * 2
    return inner
@twice
def f(n, by=1): return n + by
---
assert f(2) == 6
assert f(2, by=3) == 10
=== defaults
def f(n, base=[1], fns=None):
    k = 10
    fns = [lambda x, k=k, n=n: x + k + n for k in base]
    return [fn(1) for fn in fns], k
---
assert f(5) == ([7], 10)
=== generators
def walk(tree):
    if tree:
        left, *rest = tree
        yield left
        yield from walk(rest)
async def slow(x): return x
def f(tree):
    import asyncio
    async def both():
        return [await slow(t) for t in walk(tree)]
    return asyncio.run(both())
---
assert f([1, 2, 3]) == [1, 2, 3]
=== deleted
import contextlib, io
def f(data):
    copy = dict(data)
    del copy['a']; size = len(copy); del copy
    with io.StringIO('x') as source, \
            contextlib.suppress(KeyError):
        return size, source.read()
---
assert f({'a': 1, 'b': 2}) == (1, 'x')
=== typed
from typing import List, TypeVar
T = TypeVar('T')
def first[U](a: list[U]) -> U: return a[0]
def f(a: 'List[T]', n: int = 0) -> List[T]:
    x: int = n
    y: List[T]
    return a[x:] + [first(a)]
---
assert f([1, 2], 1) == [2, 1]
=== text
def f(größe, x):
    # größe and x stay in comments
    s = 'ä x'; t = x + größe; return s, t  # x
---
assert f(1, 2) == ('ä x', 3)
=== lines
def f(alpha,
      beta):
    gamma = alpha + \
  beta; delta = (gamma,
alpha)
    return delta
---
assert f(1, 2) == (3, 1)
=== lambdas
square = lambda x: x * x
f = lambda values: list(map(square, values))
if __name__ == '__main__':
    print(f([1]))
---
assert f([2]) == [4]
"""
"""Code with its tests, in which scopes or syntax are easily got wrong."""


def tricky() -> dict[str, Program]:
    """Return the tricky programs by their names."""
    found = {}
    for each in TRICKY.split("=== ")[1:]:
        name, _, text = each.partition("\n")
        code, tests = text.split("---\n")
        found[name] = read_program(code, tests, function="f")
    return found


def bound(code: str) -> set[str]:
    """Return the names that code has as variables, parameters and definitions."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name | ast.arg):
            found.add(node.id if isinstance(node, ast.Name) else node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
    return found


@held
def test_renamed_programs_do_the_same() -> None:
    pairs = []
    for at, (name, program) in enumerate(tricky().items()):
        pairs.append((program.code, program.tests))
        changed = {rename(program.code, rng(at, seed), program.names) for seed in range(3)}
        assert len(changed | {program.code}) > 2, name
        pairs += [(each, program.tests) for each in sorted(changed)]
    check_all(pairs)


@pytest.mark.parametrize(
    ("name", "gone", "stays"),
    [
        ("closures", {"n", "total", "add", "k", "again", "i"}, {"f", "range"}),
        ("globals", {"g", "LATER"}, {"COUNT", "f"}),
        ("shadows", {"n", "max"}, {"list", "str", "sum", "len", "f", "g"}),
        ("keywords", {"area", "first", "rest"}, {"width", "height", "scale", "key", "n", "total"}),
        ("unpacked", {"g"}, {"a", "b", "f"}),
        ("classes", {"Node", "left", "node"}, {"Leaf", "self", "value", "size", "own", "total"}),
        ("comprehensions", {"x", "row", "flat", "last", "pairs", "y", "found"}, {"f", "zip"}),
        ("patterns", {"value", "found", "rest", "first", "others", "one", "other"}, {"f"}),
        ("errors", {"Wrong", "n", "e"}, {"KeyError", "f"}),
        ("imports", {"a"}, {"m", "joined", "text", "os"}),
        ("text", {"x", "s", "t"}, {"größe", "f"}),
        ("typed", {"a", "n", "T", "x", "y", "first"}, {"List", "U", "int"}),
    ],
)
def test_what_code_defines_gets_another_name(name: str, gone: set[str], stays: set[str]) -> None:
    program = tricky()[name]
    names = bound(rename(program.code, rng(1), program.names))
    known = {node.id for node in ast.walk(ast.parse(program.code)) if isinstance(node, ast.Name)}
    assert not names & gone
    assert stays & (known | bound(program.code)) <= names


def test_nothing_but_names_changes() -> None:
    code = tricky()["text"].code
    changed = rename(code, rng(2), {"f"})
    blank = re.compile(r"\w+")
    assert blank.sub("", changed) == blank.sub("", code)
    assert "# größe and x stay in comments" in changed
    assert "'ä x'" in changed
    assert changed == rename(code, rng(2), {"f"}) != rename(code, rng(3), {"f"})


def test_many_names_get_as_many() -> None:
    code = "def f():\n" + "".join(f"    v{at} = {at}\n" for at in range(3000))
    changed = rename(code, rng(1), {"f"})
    assert len(set(re.findall(r"\w+ =", changed))) == 3000
    assert not re.search(r"v\d", changed)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def f(x): return eval('x')", "uses names as text: 'eval'"),
        ("def f(x):\n    exec('y = x')", "uses names as text: 'exec'"),
        ("def f(x): return '{x}'.format(**locals())", "uses names as text: 'locals'"),
        ("def g(): pass\ndef f(): return globals()['g']", "uses names as text: 'globals'"),
        ("def f(x): return vars()['x']", "uses names as text: 'vars'"),
        ("def f(x): return dir()", "uses names as text: 'dir'"),
        ("def g(): pass\ndef f(): return g.__name__", "uses names as text: '.__name__'"),
        ("def f(x): return f'{x=}'", "uses names as text$"),
        ("def f(x): return f'{x + 1 = !r:>5}'", "uses names as text$"),
        ("def f(): return 1", "has no names to change"),
        ("import f", "has no names to change"),
        ("def f(:", "is no Python"),
    ],
)
def test_what_cannot_be_renamed_is_refused(code: str, reason: str) -> None:
    with pytest.raises(DuplicateError, match=reason):
        rename(code, rng(1), {"f"})


# Reordering

MOVABLE = '''\
"""Shapes."""
import math
from dataclasses import dataclass

# A constant
SCALE = 2

# What has an area
# is a shape
class Shape:
    def area(self):
        return 0
    # the end of Shape

def scaled(x, by=SCALE):
    return x * by  # at the end

# Detached

@dataclass
class Circle(Shape):
    r: float = 1
    def area(self): return area_of(self.r)

# The formula
def area_of(r): return math.pi * r ** 2
# under it

UNIT = Circle()
def f(r, unit=UNIT):
    return scaled(Circle(r).area() / unit.area())
async def g(): return 1
if __name__ == "__main__":
    print(f(2))
'''


@held
def test_reordered_programs_do_the_same() -> None:
    tests = "assert f(3) == 18 and Circle.__mro__[1] is Shape"
    orders = {reorder(MOVABLE, rng(seed)) for seed in range(300)}
    # Circle after Shape: 4 * 3 * 2 / 2 orders; f and g: 2; less the one that it has.
    assert len(orders) == 4 * 3 * 2 // 2 * 2 - 1
    check_all([(each, tests) for each in orders])
    for each in orders:
        assert Counter(each.split("\n")) == Counter(MOVABLE.split("\n"))
        assert each.startswith(MOVABLE[: MOVABLE.index("# What has")])
        assert each.endswith(MOVABLE[MOVABLE.index("if __name__") :])
        assert "# What has an area\n# is a shape\nclass Shape" in each
        assert "return 0\n    # the end of Shape\n" in each
        assert "# The formula\ndef area_of" in each
        assert "@dataclass\nclass Circle" in each


@pytest.mark.parametrize(
    "code",
    [
        "def f(): pass",
        "x = 1\ny = 2",
        "def f(): return 1\nx = f()\ndef g(): return 2",  # parted by a statement
        "def f(): return 1\ndef g(x=f): return x",  # a default
        "def f(): return 1\ndef g(x=f()): return x",
        "def f(g): return g\n@f\ndef g(): return 1",  # a decorator
        "class A: pass\nclass B(A): pass",  # a base class
        "class A: pass\ndef g(x: A): return x",  # an annotation
        "class A: pass\nclass B: a = A",  # the body of a class
        "def f(): return 1\ndef f(): return 2",  # the last one counts
        "def len(x): return 1\ndef g(x=len): return x",
        "def g(x=len): return x\ndef len(x): return 1",  # the builtin, before it is hidden
        "class A:\n    def __init_subclass__(cls): log(cls)\nclass B: pass\n",
        "@app.get('/')\ndef f(): pass\n@app.get('/b')\ndef g(): pass",  # their order may count
        "def f(x=next(ids)): pass\ndef g(x=next(ids)): pass",
        "def cache(f): LOG.append(f)\nLOG = []\n@cache\ndef f(): pass\n@cache\ndef g(): pass",
        "class A:\n    seen['a'] = 1\nclass B:\n    seen['b'] = 2",
    ],
)
def test_where_the_order_counts_it_stays(code: str) -> None:
    with pytest.raises(DuplicateError, match=r"^it has no functions to reorder$"):
        reorder(code, rng(1))


def test_what_is_used_when_called_may_come_later() -> None:
    code = "def f(n): return n and g(n)\ndef g(n): return f(n - 1)"
    assert reorder(code, rng(1)) == "def g(n): return f(n - 1)\ndef f(n): return n and g(n)"
    cached = "@functools.lru_cache(maxsize=None)\ndef f(n): return n"
    code = f"import functools\n{cached}\n\n\ndef g(): 1\n"
    assert reorder(code, rng(1)) == f"import functools\ndef g(): 1\n\n\n{cached}\n"


# New tasks

PREDICATES: dict[str, Callable[[Any, int], bool]] = {
    "that are even": lambda x, k: x & 1 == 0,
    "that are odd": lambda x, k: x & 1 == 1,
    "that are greater than K": lambda x, k: not x <= k,
    "that are less than 4 times K": lambda x, k: x - 4 * k < 0,
    "that are divisible by K": lambda x, k: x in range(-999 * k, 999 * k, k),
    "that are not divisible by K": lambda x, k: x not in range(-999 * k, 999 * k, k),
    "whose absolute value is greater than 2 times K": lambda x, k: x > 2 * k or x < -2 * k,
    "that have more than K letters": lambda x, k: x[k:] != "",
    "that do not have exactly K letters": lambda x, k: len([*x]) != k,
    "with an even number of letters": lambda x, k: len(x) in range(0, 99, 2),
    "with an odd number of letters": lambda x, k: len(x) in range(1, 99, 2),
    "that begin with a vowel (a, e, i, o or u)": lambda x, k: bool(re.match("[aeiou]", x)),
    "that do not begin with a vowel (a, e, i, o or u)": lambda x, k: bool(re.match("[^aeiou]", x)),
    "that contain the letter e": lambda x, k: x.count("e") > 0,
    "that do not contain the letter r": lambda x, k: x.find("r") < 0,
    "in which some letter occurs more than once": lambda x, k: max(Counter(x).values()) > 1,
    "that stand before m in alphabetical order": lambda x, k: x[0] in "abcdefghijkl",
}
CHANGES: dict[str, Callable[[Any, int], Any]] = {
    "its square": lambda x, k: x**2,
    "its absolute value": lambda x, k: -x if x < 0 else x,
    "the sum of it and K": lambda x, k: k + x,
    "the product of it and K": lambda x, k: sum([x] * k),
    "the difference K minus it": lambda x, k: -x + k,
    "the remainder when its absolute value is divided by K": lambda x, k: divmod(max(x, -x), k)[1],
    "the larger one of it and 2 times K": lambda x, k: x if x > 2 * k else 2 * k,
    "the sum of its decimal digits": lambda x, k: sum(divmod(max(x, -x), 10)),  # it has two
    "the string that writes it in decimal digits": lambda x, k: f"{x}",
    "a string of as many asterisks as the remainder when its absolute value is divided by K": (
        lambda x, k: "".join("*" for _ in range(divmod(max(x, -x), k)[1]))
    ),
    "the word spelled backwards": lambda x, k: "".join(reversed(x)),
    "the word in upper case": lambda x, k: "".join(chr(ord(c) - 32) for c in x),
    "its first K letters, or all of it if it is shorter": lambda x, k: "".join([*x][:k]),
    "its last K letters, or all of it if it is shorter": lambda x, k: x[max(0, len(x) - k) :],
    "its letters in alphabetical order": lambda x, k: "".join(
        c * x.count(c) for c in "abcdefghijklmnopqrstuvwxyz"
    ),
    "its first letter followed by its last": lambda x, k: x[:1] + x[::-1][:1],
    "the word with its first letter moved to its end": lambda x, k: (x + x[0])[1:],
    "the word without each letter e": lambda x, k: "".join(x.split("e")),
    "the number of its letters": lambda x, k: sum(1 for _ in x),
    "K times the number of its letters": lambda x, k: len(x * k),
    "the number of different letters in it": lambda x, k: len(Counter(x)),
    "the number of vowels (a, e, i, o or u) in it": lambda x, k: len(re.sub("[^aeiou]", "", x)),
}


def running_sums(found: list[int]) -> list[int]:
    return [int(each) for each in np.cumsum(np.array(found, dtype=int))]


ENDS: dict[str, Callable[[list[Any]], Any]] = {
    "the sum of the results": lambda r: int(np.sum(np.array(r, dtype=int))),
    "the sum of the squares of the results": lambda r: int(
        np.dot(np.array(r, int), np.array(r, int))
    ),
    "the largest result, or 0 if there is none": lambda r: [0, *sorted(r)][-1] if r else 0,
    "the smallest result, or 0 if there is none": lambda r: sorted(r)[0] if r else 0,
    "the difference between the largest and the smallest result, or 0 if there is none": (
        lambda r: sorted(r)[-1] - sorted(r)[0] if r else 0
    ),
    "how many different results there are": lambda r: len(Counter(r)),
    "the list of the results in their order": lambda r: r,
    "the list of the results from last to first": lambda r: [*reversed(r)],
    "the list of the results in ascending order": lambda r: np.sort(np.array(r, int)).tolist(),
    "the list of the results in descending order": lambda r: sorted(r)[::-1],
    "the list of the different results, in the order in which they first occur": (
        lambda r: [x for at, x in enumerate(r) if x not in r[:at]]
    ),
    "a dictionary that has for each result how often it occurs": lambda r: dict(Counter(r)),
    "the list of the sums of each result and the next": (
        lambda r: [r[at] + r[at + 1] for at in range(len(r) - 1)]
    ),
    "the list of the running sums of the results": running_sums,
    "one string, in which spaces separate the results": lambda r: "".join(f" {x}" for x in r)[1:],
    "one string, in which hyphens separate the results": lambda r: "".join(f"-{x}" for x in r)[1:],
    "one string, in which the results follow each other": lambda r: str.join("", r),
    "how many characters the results have together": lambda r: sum(map(len, r)),
    "the list of the results, the shortest first and those of one length in their order": (
        lambda r: [x for size in range(99) for x in r if len(x) == size]
    ),
    "the longest result (the first one of several), or the empty string if there is none": (
        lambda r: next((x for size in range(99, -1, -1) for x in r if len(x) == size), "")
    ),
    "a dictionary that has for each result how many characters it has": (
        lambda r: {x: len(x) for x in r}
    ),
}
"""What the texts of tasks mean, written anew."""

TEXT = re.compile(
    r"Write a function (\w+) that takes a list of (?:integers|words in lower case)\. It selects"
    r" those (.+), replaces each of them by (.+), and returns (.+)\."
)


def meaning(text: str, known: dict[str, Any]) -> tuple[Any, int]:
    """Return what a phrase means, and its number."""
    for phrase, means in known.items():
        pattern = re.escape(phrase).replace("K", r"(\d+)")
        if match := re.fullmatch(pattern, text):
            return means, int(match[1]) if "K" in phrase else 0
    raise AssertionError(f"no meaning is known: {text}")


def test_texts_of_tasks_determine_the_answers() -> None:
    used: set[Any] = set()
    for seed in range(1500):
        task = new_task(rng(seed))
        assert tuple(task) == TASK_FIELDS
        match = TEXT.fullmatch(task["text"])
        assert match is not None, task["text"]
        name, *phrases = match.groups()
        # The phrase of selection may itself have a comma: the first one that has a meaning counts.
        selects, k = meaning(phrases[0], PREDICATES)
        changes, n = meaning(phrases[1], CHANGES)
        ends = ENDS[phrases[2]]
        used |= {selects, changes, ends}
        assert len(task["test_list"]) >= 3
        for test in task["test_list"]:
            [given, answer] = re.fullmatch(rf"assert {name}\((\[.*?\])\) == (.+)", test).groups()  # type: ignore[union-attr]
            results = [changes(x, n) for x in ast.literal_eval(given) if selects(x, k)]
            assert ends(results) == ast.literal_eval(answer), (task["text"], test)
    assert used == {*PREDICATES.values(), *CHANGES.values(), *ENDS.values()}


def test_tasks_differ_and_depend_on_the_seed() -> None:
    assert new_task(rng(1)) == new_task(rng(1))
    texts = [new_task(rng(2, seed))["text"] for seed in range(1000)]
    assert len({re.sub(r"function \w+", "", text) for text in texts}) > 950
    assert len({re.search(r"function (\w+)", text)[1] for text in texts}) > 300  # type: ignore[index]


@held
def test_duplicates_of_new_tasks_pass_their_tests() -> None:
    pairs, moved = [], 0
    for seed in range(300):
        task = new_task(rng(3, seed))
        program = read_program(task["code"], task["test_list"])
        assert f"{program.function}(" in task["test_list"][0]
        pairs.append((program.code, program.tests))
        code = rename(program.code, rng(seed), program.names)
        assert code != program.code
        pairs.append((code, program.tests))
        if code.count("def ") > 1:
            moved += 1
            pairs.append((reorder(code, rng(seed)), program.tests))
    assert moved > 100
    check_all(pairs)


# HumanEval


def humaneval() -> Iterator[tuple[str, Program]]:
    """Yield the tasks of HumanEval, with their names."""
    for task in human_eval():
        yield task["task_id"], read_program(
            task["canonical_solution"], task["test"],
            prompt=task["prompt"], function=task["entry_point"],
        )  # fmt: skip


@held
@pytest.mark.slow
def test_solutions_of_humaneval_pass_and_so_do_duplicates() -> None:
    tasks = dict(humaneval())
    assert len(tasks) == 164
    refused, pairs = Counter[str](), []
    for at, program in enumerate(tasks.values()):
        check_tests(program)
        for step in (rename, reorder):
            try:
                code = step(program.code, rng(at), *[program.names][: step is rename])
            except DuplicateError as error:
                refused[error.reason] += 1
            else:
                pairs.append((code, program.tests))
    check_all(pairs)
    assert refused == {
        "it has no functions to reorder": 160,
        "its code has no names to change": 2,
        "its code uses names as text": 1,
    }


def test_every_beginning_of_human_eval_has_words_that_may_change() -> None:
    """Also where a statement stands before the docstring."""
    for task in human_eval():
        prompt = task["prompt"]
        assert len(last_docstring(prompt).split()) > 3, task["task_id"]
        opening = [hit.end() for hit in re.finditer("\"{3}|'{3}", prompt)][-2]
        check_beginning(f"{prompt[:opening]}Kindly: {prompt[opening:]}", prompt)
        with pytest.raises(DuplicateError, match="begins in another way"):
            check_beginning(f"import os\n{prompt}", prompt)
        with pytest.raises(DuplicateError, match="begins in another way"):
            check_beginning(f"{prompt.rstrip()}\n    return 1\n", prompt)


def test_another_program_under_the_same_tests_is_no_renamed_one() -> None:
    code = "def f(values):\n    total = sum(values)\n    return total\n"
    other = "def f(numbers):\n    result = sum(numbers)\n    return result\n"
    check_same_program(other, code, renamed=True, reordered=False)
    wrongs = (f"{code}\n", code.replace("sum(v", "max(v"), "def f(v):\n    return sum(v)\n")
    for wrong in wrongs:
        with pytest.raises(DuplicateError, match=r"names of its item|another program"):
            check_same_program(wrong, code, renamed=True, reordered=False)
    two = "def g(a):\n    return a\n\n\ndef f(a):\n    return g(a)\n"
    swapped = "def f(a):\n    return g(a)\n\n\ndef g(a):\n    return a\n"
    check_same_program(swapped, two, renamed=False, reordered=True)
    for wrong in (two, swapped.replace("(a)", "(b)")):
        with pytest.raises(DuplicateError, match=r"order of its item|another program"):
            check_same_program(wrong, two, renamed=False, reordered=True)


ORDINARY = {
    "a text with an escape": "def f(d):\n    name = 'a\\'b\\n'\n    return d + name\n",
    "a text that is a name": "def f(row):\n    total = row['total']\n    return total\n",
    "an attribute that is a name": (
        "class Node:\n    def __init__(self, val):\n        self.val = val\n\n\n"
        "def f(n):\n    return Node(n).val\n"
    ),
    "names in lists": (
        "def f(n):\n    a = b = 0\n\n    def g():\n        nonlocal a, b\n        a = b = n\n\n"
        "    g()\n    return a + b\n"
    ),
}


@pytest.mark.parametrize("case", ORDINARY)
def test_ordinary_programs_are_the_same_in_other_names(case: str) -> None:
    code = ORDINARY[case]
    for seed in range(5):
        renamed = rename(code, np.random.default_rng(seed), {"f"})
        check_same_program(renamed, code, renamed=True, reordered=False)


def test_names_that_are_exchanged_are_another_program() -> None:
    code = "def f(x, y):\n    return x - y\n"
    for wrong in (
        "def f(b, a):\n    return a - b\n",
        "def f(a, b):\n    return a - a\n",
        "def f(y, z):\n    return y - y\n",
    ):
        with pytest.raises(DuplicateError, match="another program"):
            check_same_program(wrong, code, renamed=True, reordered=False)
    check_same_program("def f(y, x):\n    return y - x\n", code, renamed=True, reordered=False)
    row = ORDINARY["a text that is a name"]
    wrong = "def f(row):\n    sums = row['row']\n    return sums\n"
    with pytest.raises(DuplicateError, match="another program"):
        check_same_program(wrong, row, renamed=True, reordered=False)


def test_names_are_compared_through_another_order() -> None:
    parts = [f"def g{at}(a):\n    return a\n" for at in range(9)]
    code = "\n\n".join([*parts, "def f(a, b):\n    return g0(a) - g1(b)\n"])
    names = {f"g{at}": f"h{at}" for at in range(9)} | {"a": "x", "b": "y"}
    renamed = re.sub(r"\w+", lambda hit: names.get(hit[0], hit[0]), code)
    *first, last = renamed.split("\n\n\n")
    moved = "\n\n\n".join([last.strip("\n"), *first[::-1]]) + "\n"
    check_same_program(moved, code, renamed=True, reordered=True)
    for wrong in (moved.replace("h0(x) - h1(y)", "h0(y) - h1(x)"),
                  moved.replace("h0(x) - h1(y)", "h0(x) - h0(y)")):  # fmt: skip
        with pytest.raises(DuplicateError, match="another program"):
            check_same_program(wrong, code, renamed=True, reordered=True)


def cycles(sizes: list[int], name: str) -> tuple[list[str], list[str]]:
    """Return functions that are alike, and calls by which they form cycles of some sizes."""
    functions, calls = list[str](), list[str]()
    for size in sizes:
        ring = [f"{name}{len(functions) + at}" for at in range(size)]
        functions += [f"def {each}(x):\n    return x\n" for each in ring]
        calls += [f"{each}({after})\n" for each, after in pairwise([*ring, ring[0]])]
    return functions, calls


def test_functions_that_are_alike_are_compared_in_bounded_time() -> None:
    def check(first: list[str], second: list[str]) -> None:
        check_same_program("".join(first), "".join(second), renamed=True, reordered=True)

    functions, calls = cycles([30], "f")
    ours, own = cycles([30], "g")
    check([*own[::-1], *ours[7:], *ours[:7]], [*functions, *calls])
    check(["b = 1\n", *ours], [*functions, "a = 1\n"])
    ours, own = cycles([15, 15], "g")
    with pytest.raises(DuplicateError, match="another program"):
        check([*own, *ours], [*functions, *calls])
    functions, calls = cycles([6] * 9 + [3, 3], "f")
    ours, own = cycles([6] * 8 + [3] * 4, "g")
    with pytest.raises(DuplicateError, match="could not be compared with its item's: too much"):
        check([*own, *ours], [*functions, *calls])
