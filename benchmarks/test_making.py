"""Steps a minute that make duplicates of logic grids, checks included, and the solver's peer.

The goal is 10,000 shuffles or substitutions a minute on one core.
"""

import time

import numpy as np
import pytest

from bayescontam.duplicates import grid_texts, grids

COUNT, REPEATS = 200, 3
GOAL = 10_000


def by_constraint(grid: grids.Grid) -> int:
    """Count solutions, up to two, by python-constraint2."""
    constraint = pytest.importorskip("constraint")
    problem, size = constraint.Problem(), grid.houses
    for c in range(len(grid.categories)):
        names = [(c, v) for v in range(size)]
        problem.addVariables(names, range(size))
        problem.addConstraint(constraint.AllDifferentConstraint(), names)
    for clue in grid.clues:
        n = clue.number
        if clue.b is None:
            wanted = clue.relation == "in"
            problem.addConstraint(lambda a, n=n, w=wanted: (a == n) == w, [clue.a])
            continue
        holds = {
            "same": lambda a, b: a == b,
            "next left": lambda a, b: b == a + 1,
            "left": lambda a, b: a < b,
            "beside": lambda a, b: abs(a - b) == 1,
            "apart": lambda a, b, n=n: abs(a - b) == n + 1,
        }[clue.relation]
        problem.addConstraint(holds, [clue.a, clue.b])
    found = problem.getSolutionIter()
    return sum(1 for _ in zip(found, range(2), strict=False))


@pytest.mark.slow
def test_steps_a_minute_and_the_solver_against_its_peer() -> None:
    rng = np.random.default_rng(1)
    parents = [grids.new_grid(4, 4, rng) for _ in range(COUNT)]
    print()
    for step in (grids.shuffle, grids.substitute, grids.reword):
        rates = []
        for _ in range(REPEATS):
            started = time.process_time()
            for parent in parents:
                made = step(parent, rng)
                grid_texts.check_duplicate(
                    parent,
                    made.text,
                    made.solution,
                    substituted=step is grids.substitute,
                    reworded=step is grids.reword,
                )
            rates.append(60 * COUNT / (time.process_time() - started))
        print(f"{step.__name__}: {max(rates):,.0f} steps a minute of one core (goal {GOAL:,})")
        assert max(rates) >= GOAL
    for houses, categories in ((4, 4), (6, 5)):
        some = [grids.new_grid(houses, categories, rng) for _ in range(5)]
        seconds = []
        for solve in (
            lambda g: len(grids.solutions(g.houses, len(g.categories), g.clues)), by_constraint
        ):  # fmt: skip
            started = time.process_time()
            assert [solve(grid) for grid in some] == [1] * len(some)
            seconds.append(time.process_time() - started)
        print(
            f"{houses} x {categories}: CP-SAT {seconds[0] / 5:.4f} s a grid, python-constraint2"
            f" {seconds[1] / 5:.4f} s: {seconds[1] / seconds[0]:.1f} times"
        )
