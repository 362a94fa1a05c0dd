"""People of one group differ in ability: what intervals that ignore it are worth."""

import numpy as np
import pytest
from scipy.special import expit

from bayescontam.data.importers.exclusion import accuracy_of_people

pytestmark = pytest.mark.slow

# people, items, items of each, mean log-odds, spread of people, spread of items
STUDIES = [
    (415, 480, 14, 2.0, 1.0, 1.0),  # of the size of the published one
    (60, 40, 15, 1.0, 1.0, 1.0),
    (60, 40, 15, 3.0, 1.5, 1.0),
    (20, 30, 10, 1.0, 1.0, 1.0),
    (300, 30, 1, 3.0, 1.0, 1.0),  # by concept: one item of it each
]
Z = np.linspace(-6, 6, 121)
WEIGHT = np.exp(-(Z**2) / 2) / np.exp(-(Z**2) / 2).sum()


@pytest.mark.parametrize("study", STUDIES, ids=str)
def test_coverage_of_the_jackknife(study: tuple[float, ...]) -> None:
    people, items, each = map(int, study[:3])
    mean, spread, hard = study[3:]
    rng, tables, found = np.random.default_rng(1), 1000, np.zeros(2)
    for _ in range(tables):
        difficulty = rng.normal(0, hard, items)
        person = np.repeat(np.arange(people), each)
        item = np.concatenate([rng.choice(items, each, replace=False) for _ in range(people)])
        eta = mean + difficulty[item] + rng.normal(0, spread, people)[person]
        correct = (rng.random(len(item)) < expit(eta)).astype(int)
        answered, position = np.unique(item, return_inverse=True)
        truth = (expit(mean + difficulty[answered, None] + spread * Z) @ WEIGHT).mean()
        value, low, high = accuracy_of_people(person, position, correct)
        size = np.bincount(position)
        share = np.bincount(position, correct) / size
        se = np.sqrt((share * (1 - share) / np.maximum(size - 1, 1)).sum()) / len(size)
        found += low < truth < high, abs(value - truth) < 1.96 * se
    print(f"{study}: jackknife {found[0] / tables:.3f}, independent {found[1] / tables:.3f}")
    assert abs(found[0] / tables - 0.95) < 0.03
