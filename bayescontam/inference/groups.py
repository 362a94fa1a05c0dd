"""Groups: models that cannot be distinguished, as letters."""

from collections.abc import Iterator
from itertools import count, product
from string import ascii_lowercase

import numpy as np
from numpy.typing import NDArray

Group = tuple[int, ...]


def alike_groups(distinct: NDArray[np.bool_]) -> list[Group]:
    """Return groups of models no two of which can be distinguished.

    Two models share a group if and only if they cannot be distinguished. No group can take
    in another model. One model may be in several groups, or alone in its own.

    The groups are maximal cliques that cover every edge of the graph of pairs that cannot
    be distinguished, grown one by one from the first pair that none has yet. That takes
    polynomial time, where all maximal cliques, or the fewest that are enough, may not.

    Piepho (2004), doi:10.1198/1061860043515. Gramm, Guo, Hüffner, Niedermeier, Piepho &
    Schmid (2007), doi:10.1016/j.csda.2006.09.035.

    >>> distinct = np.array([[0, 0, 1, 1], [0, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 0]], dtype=bool)
    >>> alike_groups(distinct)
    [(0, 1), (1, 2), (3,)]
    """
    alike = ~distinct
    np.fill_diagonal(alike, val=True)
    open_pairs = alike.copy()
    groups: list[Group] = []
    while open_pairs.any():
        first, second = np.unravel_index(int(open_pairs.argmax()), open_pairs.shape)
        members = _grown(alike, open_pairs, {int(first), int(second)})
        open_pairs[np.ix_(members, members)] = False
        groups.append(tuple(members))
    # A model's pair with itself is open until a group has it: one alone gets its own group.
    return sorted(_needed(groups, len(distinct)), key=lambda group: (group[0], group[-1], group))


def _grown(alike: NDArray[np.bool_], open_pairs: NDArray[np.bool_], start: set[int]) -> list[int]:
    """Add models until none is left that cannot be distinguished from all members."""
    members = sorted(start)
    able = alike[members].all(axis=0)
    able[members] = False
    # How many pairs that no group has each model would bring.
    gain = open_pairs[members].sum(axis=0, dtype=np.int64)
    while able.any():
        chosen = int(np.where(able, gain, -1).argmax())  # the most, and of these the first
        members.append(chosen)
        gain += open_pairs[chosen]
        able &= alike[chosen]
        able[chosen] = False
    return sorted(members)


def _needed(groups: list[Group], models: int) -> Iterator[Group]:
    """Yield the groups that hold a pair that no other has, later ones given up first."""
    held = np.zeros((models, models), dtype=np.int32)  # by how many groups each pair is
    pairs = [np.ix_(group, group) for group in groups]
    for each in pairs:
        held[each] += 1
    needed = list(range(len(groups)))
    for i in reversed(range(len(groups))):
        if (held[pairs[i]] > 1).all():
            held[pairs[i]] -= 1
            needed.remove(i)
    return (groups[i] for i in needed)


def letters(size: int) -> list[str]:
    """Return names of groups: a to z, then aa, ab and so on.

    >>> letters(28)[::9]
    ['a', 'j', 's', 'ab']
    """
    names = (
        "".join(name) for length in count(1) for name in product(ascii_lowercase, repeat=length)
    )
    return [name for name, _ in zip(names, range(size), strict=False)]


def letters_of(groups: list[Group], models: int) -> list[str]:
    """Return the letters of each model's groups, a space between them.

    >>> letters_of([(0, 1), (1, 2)], 3)
    ['a', 'a b', 'b']
    """
    named = list(zip(letters(len(groups)), groups, strict=True))
    return [" ".join(name for name, group in named if model in group) for model in range(models)]
