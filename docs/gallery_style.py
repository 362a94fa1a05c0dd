"""How sphinx-gallery runs the scripts of docs/gallery and draws their figures."""

import warnings
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Any

ORDER = (
    "first_fit.py",
    "by_dates.py",
    "twins.py",
    "corpus_scan.py",
    "new_model.py",
    "planning.py",
    "own_spec_calibrated.py",
    "pymc_and_arviz.py",
)
"""The examples, in the order of their page."""

# Lines and texts are drawn for light pages, and replaced by a paler colour for dark ones.
INK, PALE = "#33373d", "#ced6dd"
COLOURS = ("#2f7ebc", "#d9730d", "#2a9d76", "#c2528b")
"""For data: each has a contrast of 3 or more with the pages' white and with their near-black."""
STYLE = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "font.size": 11,  # readable where a phone shows a figure at two thirds of its size
    "legend.frameon": False,
    "legend.fontsize": 10,
    "savefig.transparent": True,
    "svg.hashsalt": "bayescontam",  # the same file for the same figure
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


class GalleryOrder:
    """Order examples as in `ORDER`; a script that is not there is an error."""

    def __init__(self, src_dir: str) -> None:
        del src_dir

    def __call__(self, filename: str) -> int:
        """Return the place of a script."""
        return ORDER.index(Path(filename).name)


_FILTERS = ExitStack()
"""Filters of warnings that hold while a script runs."""


def start_clean(gallery_conf: dict[str, Any], fname: str, when: str) -> None:
    """Draw in the house style, and make every warning of a script an error."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    del gallery_conf, fname
    plt.close("all")
    mpl.rcdefaults()
    _FILTERS.close()
    if when == "before":
        mpl.rcParams.update(STYLE | {"axes.prop_cycle": mpl.cycler(color=COLOURS)})
        _FILTERS.enter_context(warnings.catch_warnings())
        warnings.simplefilter("error")
        # To link names, sphinx-gallery looks each up at the root of its package, where PyMC warns.
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"sphinx_gallery\.")


def draw_twice(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Store each open figure for light and for dark pages, and return the text that shows both."""
    import matplotlib.pyplot as plt

    del block
    texts = []
    for number, given in zip(plt.get_fignums(), block_vars["image_path_iterator"], strict=False):
        light = PurePosixPath(given).with_suffix(".svg")
        figure = plt.figure(number)
        axes = figure.axes[0]
        shown = f"{axes.get_title() or axes.get_ylabel()}, by {axes.get_xlabel()}"
        words = " ".join(shown.removeprefix(", by ").split())
        figure.savefig(str(light), metadata={"Date": None})
        drawn = Path(light).read_text(encoding="utf-8")
        dark = light.with_name(f"{light.stem}_dark.svg")
        Path(dark).write_text(drawn.replace(INK, PALE), encoding="utf-8")
        for path, page in ((light, "only-light"), (dark, "only-dark")):
            place = path.relative_to(PurePosixPath(gallery_conf["src_dir"]))
            texts.append(
                f".. image:: /{place}\n   :alt: {words}\n   :class: sphx-glr-single-img {page}\n"
            )
    plt.close("all")
    return "\n".join(texts)
