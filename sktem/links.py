"""Public addresses of the project and the links made from them.

They are empty as long as the project has no public address. Where
``DOCUMENTATION_URL`` is set, the HTML representation of an estimator links to its
page, and the documentation has a sitemap, previews of links and a version switcher.
Where ``REPOSITORY_URL`` is set, the documentation links to the sources there.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = ["DOCUMENTATION_URL", "REPOSITORY_URL", "DocumentationLinkMixin"]

#: Address of the documentation, without a slash at the end.
DOCUMENTATION_URL = ""

#: Address of the repository, without a slash at the end.
REPOSITORY_URL = ""


def page_template(base_url: str) -> str:
    """Return scikit-learn's template of the address of an estimator's page."""
    return f"{base_url}/api/sktem.{{estimator_name}}.html" if base_url else ""


class DocumentationLinkMixin:
    """Makes the HTML representation of an estimator link to its page."""

    _doc_link_module: ClassVar[str] = "sktem"
    _doc_link_template: ClassVar[str] = page_template(DOCUMENTATION_URL)
