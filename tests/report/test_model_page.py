"""Picture, table and page of a prior."""

import io
import logging
import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bayescontam.data.responses import Responses
from bayescontam.errors import UsageError
from bayescontam.inference.prior_predictive import Implied, implied
from bayescontam.model.effect_names import effect_words
from bayescontam.report.model_page import check_ending, prior_picture, render_prior, write_prior
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model


@pytest.fixture(scope="module")
def known() -> Implied:
    logging.getLogger("pymc").setLevel(logging.WARNING)
    return implied(load_model("hierarchical"), models=3, items=20, draws=200, seed=1)


def made(values: dict[str, np.ndarray], lost: float = 0.0) -> Implied:
    """Return what a prior implies, its values given."""
    spec = load_model("concepts")
    return Implied(spec, "a table", 1000, 5, values, dict.fromkeys(values, lost), ())


def test_a_table_of_known_values():
    values = np.linspace(0, 1, 1001)
    row = made({"accuracy": values, "unit_accuracy": values}).readable().to_dict("records")
    assert [each["quantity"] for each in row] == ["accuracy", "accuracy by concept"]
    ends = [row[0][name] for name in ("q2.5", "q25", "median", "q75", "q97.5")]
    assert ends == pytest.approx([0.025, 0.25, 0.5, 0.75, 0.975])
    # 20 of 1,001 values lie below 0.02, and 20 above 0.98.
    assert row[0]["below"] == "0.020 (< 0.02)"
    assert row[0]["above"] == "0.020 (> 0.98)"


def test_negative_bounds_have_a_true_minus():
    row = made({"overfitting_direct": np.array([-0.7, -0.6, 0.1, 0.6])}).readable().iloc[0]
    assert (row["below"], row["above"]) == ("0.500 (< −0.5)", "0.250 (> 0.5)")


def test_huge_numbers_are_written_with_an_exponent():
    table = made({"slope": np.full(1000, 3.21e70), "accuracy": np.full(1000, 0.25)}).readable()
    by_name = table.set_index("quantity")["median"]
    assert by_name["slope"] == "3.2e+70"
    assert by_name["accuracy"] == "0.250"


def test_what_is_not_reported_is_left_empty():
    row = made({"slope": np.ones(10)}, lost=0.5).readable().iloc[0]
    assert np.isnan(row["median"])
    assert (row["below"], row["above"]) == ("", "")


@pytest.mark.parametrize("raster", [True, False])
def test_the_picture_has_a_panel_for_every_signed_quantity(known: Implied, raster: bool):
    before = plt.get_fignums()
    picture = prior_picture(known, raster)
    assert plt.get_fignums() == before
    if raster:
        pixels = np.asarray(Image.open(io.BytesIO(picture.image)).convert("L"))
        assert pixels.shape[1] == pytest.approx(picture.width * 1.5, abs=2)
        assert pixels.std() > 5
    else:
        assert picture.image.startswith(b"<?xml")
    for each in known.quantities:
        assert (known.label(each.name) in picture.alt) is (not each.name.endswith("_size"))
    assert "nan" not in picture.alt
    median = known.table().set_index("quantity").loc["accuracy", "median"]
    assert f"accuracy {median:.2f} (" in picture.alt


def bars(picture: bytes, color: str) -> int:
    return len(re.findall(f"fill: {color}".encode(), picture, re.IGNORECASE))


def test_bars_of_extremes_are_orange():
    """Half of the values lie beyond the bounds, half between them."""
    within = np.tile([0.3, 0.7], 500)
    beyond = np.tile([0.005, 0.995], 500)
    orange, blue = "#d55e00", "#0072b2"
    ends = prior_picture(made({"accuracy": np.concatenate([within, beyond])})).image
    # One bar for each of the four values: bins that hold nothing have none.
    assert (bars(ends, orange), bars(ends, blue)) == (2, 2)


def test_constants_can_be_drawn():
    picture = prior_picture(made({"slope": np.zeros(100), "overfitting_direct": np.zeros(100)}))
    assert "slope 0.00 (0.00 to 0.00)" in picture.alt


def test_nothing_to_draw_is_an_error():
    with pytest.raises(UsageError, match=r"model spec 'concepts': its prior is so wide"):
        prior_picture(made({"accuracy": np.ones(10)}, lost=1.0))


class Cells(HTMLParser):
    """Collects the cells of tables, and what a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.sources: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "td"
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.cells.append(data)
            self._inside = False


def test_the_page_holds_table_picture_and_spec(known: Implied):
    page = render_prior(known)
    parser = Cells()
    parser.feed(page)
    assert all(source.startswith(("data:", "#")) for source in parser.sources)
    for row in known.table().to_dict("records"):
        start = parser.cells.index(effect_words(row["quantity"]))
        reported = [cell.replace("−", "-") for cell in parser.cells[start + 1 : start + 6]]
        wanted = [f"{row[name] + 0.0:.3f}" for name in ("q2.5", "q25", "median", "q75", "q97.5")]
        assert [cell.lstrip("-") for cell in reported] == [text.lstrip("-") for text in wanted]
    assert "Normal(0, 1.5)" in page
    assert known.spec.hash in page
    assert "SHA-256" in page
    assert "a made-up table: 3 models, 2 benchmarks, 20 items" in page


def test_hostile_names_are_escaped():
    name = "<script>alert(1)</script>"
    spec = ModelSpec.parse(
        f'summary = "{name}"\ndescription = "{name}"\nability.by = "{name}"', name
    )
    page = render_prior(implied(spec, models=2, items=6, draws=100))
    assert "<script" not in page
    frame = pd.DataFrame(
        {"model": name, "benchmark": name, "item": ["1", "2"], "correct": [0, 1], name: "x"}
    ).assign(contamination=[0.0, 1.0])
    responses = Responses.from_frame(frame, source=f"{name}\x1b[31m")
    page = render_prior(implied(spec, responses=responses, draws=100))
    assert "<script" not in page
    assert "\x1b" not in page


@pytest.mark.parametrize(
    ("ending", "start"), [(".png", b"\x89PNG"), (".SVG", b"<?xml"), (".html", b"<!DOCTYPE html>")]
)
def test_the_ending_chooses_what_is_written(
    known: Implied, tmp_path: Path, ending: str, start: bytes
):
    path = tmp_path / f"prior{ending}"
    write_prior(known, path)
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_table_reads_back(known: Implied, tmp_path: Path):
    write_prior(known, tmp_path / "prior.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "prior.csv"), known.table())


@pytest.mark.parametrize("name", ["prior.pdf", "prior", "prior.png.gz"])
def test_other_endings_are_refused(name: str):
    with pytest.raises(UsageError, match=r"allowed are \.png and \.svg \(picture\), \.html"):
        check_ending(name)
