"""Optional packages: the install line when absent, nothing hidden when broken."""

import math
from pathlib import Path

import pytest

from bayescontam._optional import check_installed, require
from bayescontam.errors import BayescontamError, MissingExtraError


def test_an_installed_module_is_returned() -> None:
    assert require("math", "jax") is math


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.inner"])
def test_an_absent_module_names_its_extra(module: str) -> None:
    with pytest.raises(MissingExtraError) as caught:
        require(module, "jax")
    assert str(caught.value) == (
        "this needs the package 'no_such_package', which is not installed; "
        "install it with: pip install 'bayescontam[jax]'"
    )
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, BayescontamError)


def test_a_broken_module_is_another_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_one.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_package'") as caught:
        require("broken_one", "jax")
    assert not isinstance(caught.value, MissingExtraError)


def test_what_is_installed_is_reported_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "costly_one.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    check_installed("costly_one", "jax")
    with pytest.raises(MissingExtraError, match=r"'no_such_one'.*pip install 'bayescontam\[jax\]'"):
        check_installed("no_such_one", "jax")
