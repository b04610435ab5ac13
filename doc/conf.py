"""Configuration of the documentation, see https://www.sphinx-doc.org."""

import os
import warnings

import sktem

project = "sktem"
author = "The sktem developers"
copyright = "2026, The sktem developers"
version = release = sktem.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc writes the types
# The autosummary templates list the members; numpydoc would list them again.
numpydoc_show_class_members = False

# Links into other projects need the network, and a build without one must not
# fail, so they are made on request only.
if os.environ.get("SKTEM_DOC_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"(__init__|tour)\.py$",
    "download_all_examples": False,
    "show_memory": False,
    "within_subsection_order": "FileNameSortKey",
}

html_theme = "furo"
html_title = f"sktem {release}"

# The Agg backend, which builds the gallery, warns at every plt.show().
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
