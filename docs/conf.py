"""Settings of the documentation. Nothing is fetched from the network."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

sys.path.insert(0, str(Path(__file__).parent))  # figures.py and gallery_style.py stand here
from figures import write_figures

from bayescontam.report.model_page import write_spec_pages
from bayescontam.specs.lab import lab_keys_page
from bayescontam.specs.study import study_keys_page

project = "bayescontam"
author = "the bayescontam contributors"
copyright = author
version = release = installed_version("bayescontam")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["figures.css", "gallery.css"]
exclude_patterns = [
    "_build",
    "_static",
    "_templates",
    "gallery",
]  # pages of gallery/ stand in generated/

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # types stand in the docstrings

numpydoc_show_class_members = False  # the autosummary pages list them
numpydoc_validation_checks = {
    "GL06",  # unknown section
    "GL07",  # sections in the wrong order
    "GL08",  # no docstring
    "PR02",  # described parameters that do not exist
    "PR03",  # parameters in the wrong order
    "SS02",  # summary starts with a capital
    "SS03",  # summary ends with a full stop
}

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"\.py$",  # run every script
    "within_subsection_order": "gallery_style.GalleryOrder",
    "image_scrapers": ("gallery_style.draw_twice",),
    "reset_modules": ("gallery_style.start_clean",),
    "reset_modules_order": "both",
    "capture_repr": (),  # pages show what scripts print
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
}

highlight_language = "text"  # blocks of Python say so
html_math_renderer = "mathml"
html_sidebars = {"*": []}  # pages at the top have nothing below them
html_theme = "pydata_sphinx_theme"
html_title = "bayescontam"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    # Beside all pages but those of the gallery, whose lines of code need the width.
    "secondary_sidebar_items": {
        "*": ["page-toc"],
        "howto/*": ["page-toc"],
        "reference/*": ["page-toc"],
        "explanation/*": ["page-toc"],
        "generated/*": ["page-toc"],
        "generated/models/*": ["page-toc"],
        "generated/gallery/*": [],
    },
}


def _inline(writer: Any, node: Any) -> None:
    writer.body.append(tex2mathml(node.astext()))
    raise SkipNode


def _block(writer: Any, node: Any) -> None:
    formula = tex2mathml(node.astext().strip(), as_block=True)
    style = "overflow: auto hidden; padding: 0.3em; text-align: center; margin: 1em 0"
    writer.body.append(f'<div style="{style}">{formula}</div>\n')
    raise SkipNode


def _write_pages(app: Any) -> None:
    write_spec_pages(Path(app.srcdir, "generated", "models"))
    write_figures(Path(app.srcdir, "generated", "figures"))
    for name, text in {"study-keys": study_keys_page(), "lab-keys": lab_keys_page()}.items():
        page = Path(app.srcdir, "generated", f"{name}.md")
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    """Write pages of specs and keys, and figures; formulas as MathML, which needs no script."""
    app.connect("builder-inited", _write_pages)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
