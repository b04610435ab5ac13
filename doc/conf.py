"""Configuration of the documentation, see https://www.sphinx-doc.org.

The build needs no network, and the built pages load nothing from other hosts: what
they need comes from Python packages of the extra ``doc``. What needs the project's
public address is made only where ``sktem.links`` has one. For previews it can be set
by the environment variables SKTEM_DOC_URL and SKTEM_REPOSITORY_URL.
"""

import importlib.util
import inspect
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import sktem
from sktem.links import DOCUMENTATION_URL, REPOSITORY_URL

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from build_tools import write_inventories  # noqa: E402

project = "sktem"
author = "The sktem developers"
copyright = "2026, The sktem developers"
version = release = sktem.__version__
base_url = os.environ.get("SKTEM_DOC_URL", DOCUMENTATION_URL)
repository_url = os.environ.get("SKTEM_REPOSITORY_URL", REPOSITORY_URL)

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.linkcode" if repository_url else "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [
    "_build",
    "inventories",
    "api/backreferences",
    "**sg_execution_times.rst",  # its page loads scripts from another host
]
templates_path = ["_templates"]

# --- API pages

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc writes the types
# Members are documented on the page of their class; numpydoc would list them again.
numpydoc_show_class_members = False
add_module_names = False
toc_object_entries_show_parents = "hide"
numpydoc_xref_param_type = False


def leave_out(app, what, name, obj, skip, options):
    """Leave out of the pages what classes inherit from outside the package."""
    if type(obj).__name__ == "_tuplegetter":  # a field, described by the class
        return True
    # Requests of metadata are scikit-learn's, though they lie in our classes.
    if name.startswith("set_") and name.endswith("_request"):
        return True
    module = getattr(inspect.unwrap(obj) if callable(obj) else obj, "__module__", None)
    if isinstance(obj, property):
        module = getattr(obj.fget, "__module__", None)
    elif not callable(obj):
        return None
    return None if (module or "").partition(".")[0] in ("sktem", "") else True


def linkcode_resolve(domain, info):
    """Return the address of the source of a name, for ``sphinx.ext.linkcode``."""
    if domain != "py":
        return None
    obj = importlib.import_module(info["module"])
    for part in info["fullname"].split("."):
        obj = getattr(obj, part, None)
    try:
        obj = inspect.unwrap(obj)
        path = Path(inspect.getsourcefile(obj)).resolve()
        lines, start = inspect.getsourcelines(obj)
    except (TypeError, OSError):
        return None
    try:
        path = path.relative_to(Path(sktem.__file__).resolve().parents[1])
    except ValueError:
        return None
    return f"{repository_url}/blob/main/{path}#L{start}-L{start + len(lines) - 1}"


# --- Links into other projects, from the lists in the folder "inventories"

_scratch = Path(tempfile.mkdtemp(prefix="sktem-doc-"))
_addresses = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "scipy": "https://docs.scipy.org/doc/scipy",
    "sklearn": "https://scikit-learn.org/stable",
}
intersphinx_mapping = {
    name: (_addresses[name], str(path))
    for name, path in write_inventories(HERE / "inventories", _scratch).items()
}

# --- Formulas: the files of MathJax come with a package, not from another host

# tex-chtml-full.js has all extensions of TeX in one file, and needs its fonts only.
_mathjax = (
    Path(
        next(
            iter(
                importlib.util.find_spec(
                    "sphinx-mathjax-offline"
                ).submodule_search_locations
            )
        )
    )
    / "static"
    / "mathjax"
)
mathjax_path = "mathjax/tex-chtml-full.js"
mathjax3_config = {
    "chtml": {"matchFontHeight": False, "mtextInheritFont": True},
    "options": {"enableMenu": False},  # the menu would load further files
}


def copy_mathjax(app, exception):
    """Copy the parts of MathJax that the pages load."""
    if exception is not None or app.builder.format != "html":
        return
    target = Path(app.outdir) / "_static" / "mathjax"
    fonts = "output/chtml/fonts/woff-v2"
    (target / fonts).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(_mathjax / "tex-chtml-full.js", target)
    shutil.copytree(_mathjax / fonts, target / fonts, dirs_exist_ok=True)


def setup(app):
    """Connect the functions above."""
    app.connect("autodoc-skip-member", leave_out)
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", lambda app, exception: shutil.rmtree(_scratch, True))


# --- Gallery

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"(__init__|tour)\.py$",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "copyfile_regex": r"index\.rst",  # the groups, and their order
    "minigallery_sort_order": "build_tools.example_order",
    "backreferences_dir": "api/backreferences",
    "doc_module": ("sktem",),
    "reference_url": {"sktem": None},
    "inspect_global_variables": False,
    "parallel": True,  # as many examples at once as -j says
}

# --- Pages

html_theme = "pydata_sphinx_theme"
html_title = f"sktem {release}"
html_static_path = ["_static"]
html_css_files = ["sktem.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "sktem", "alt_text": "sktem"},
    "header_links_before_dropdown": 5,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "changelog": [], "benchmarks": [], "faq": []}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = ">>> "

if repository_url:
    # Pages that are generated have nothing to edit.
    html_theme_options["use_edit_page_button"] = True
    html_context = {
        "edit_page_url_template": repository_url + "/edit/main/doc/{{ file_name }}",
        "edit_page_provider_name": "",
    }
    _written = ["user_guide/*", "coming_from/*"]
    _written += ["benchmarks", "extend", "faq", "installation", "related_projects"]
    html_theme_options["secondary_sidebar_items"] = {
        **dict.fromkeys(["api", "api/*", "auto_examples/*", "changelog"], ["page-toc"]),
        **dict.fromkeys(_written, ["page-toc", "edit-this-page"]),
    }
    html_theme_options["icon_links"] = [
        {"name": "Source", "url": repository_url, "icon": "fa-solid fa-code"}
    ]
if base_url:
    html_baseurl = f"{base_url}/"
    extensions += ["sphinx_sitemap", "sphinxext.opengraph"]
    sitemap_url_scheme = "{link}"
    ogp_site_url = html_baseurl
    ogp_social_cards = {"enable": False}
    html_extra_path = ["switcher.json"]
    html_theme_options["switcher"] = {
        "json_url": f"{base_url}/switcher.json",
        "version_match": release,
    }
    html_theme_options["check_switcher"] = False
    html_theme_options["navbar_end"] = [
        "version-switcher",
        "theme-switcher",
        "navbar-icon-links",
    ]

# The Agg backend, which builds the gallery, warns at every plt.show().
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
