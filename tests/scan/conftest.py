"""One small corpus and its scan, which several files of tests share."""

import pytest

from bayescontam.scan.run import Scan
from tests.support.small_corpus import Small, Truth, scan, true_scan, write_small


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return write_small(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def truth(small: Small) -> Truth:
    return true_scan(small)


@pytest.fixture(scope="session")
def scanned(small: Small) -> Scan:
    return scan(small.manifest, small.folder / "scan")
