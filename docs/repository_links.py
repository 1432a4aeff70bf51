"""Links of the repository in the site: where pages are read as text, they link to files.

A link to a page becomes a link in the site, one to another file a download. A link or a picture
that is no file of the repository is a warning.
"""

from __future__ import annotations

import os
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
INCLUDED = {  # files of other folders that are a page of the site
    ROOT / "README.rst": "index",
    ROOT / "CONTRIBUTING.rst": "contributing",
    ROOT / "CHANGELOG.rst": "changelog",
    ROOT / "pipepool" / "README.rst": "pool",
}
LOG = logging.getLogger(__name__)


class RepositoryLinks(SphinxTransform):
    """Resolve links and pictures relative to the file in which they are written."""

    default_priority = 200  # before Sphinx collects pictures and downloads

    def apply(self, **kwargs: object) -> None:
        for picture in self.document.findall(nodes.image):
            if "://" not in picture["uri"] and (path := self._path(picture, picture["uri"])):
                picture["uri"] = self._from_docs(path)
        for link in [*self.document.findall(nodes.reference)]:
            uri = link.get("refuri", "")
            if uri and ":" not in uri and not uri.startswith("#"):
                self._resolve(link, *uri.partition("#")[::2])

    def _resolve(self, link: nodes.reference, uri: str, anchor: str) -> None:
        path = self._path(link, uri)
        if path is None:
            return
        if page := _page(path):
            link["page"], link["anchor"] = page, anchor
            return
        download = addnodes.download_reference("", "", reftarget=self._from_docs(path))
        download += link.children
        link.replace_self(download)

    def _path(self, node: nodes.Node, uri: str) -> Path | None:
        """Return the file that a link names, by the folder of the file that has the link."""
        written = node
        while written.parent is not None and not written.source:
            written = written.parent
        folders = [Path(written.source or "").parent, DOCS / Path(self.env.docname).parent]
        for folder in folders:
            path = Path(os.path.abspath(folder / uri))  # noqa: PTH100 - resolve() follows links
            if path.exists():
                return path
        LOG.warning("%s is no file of the repository", uri, location=node)
        return None

    def _from_docs(self, path: Path) -> str:
        return f"/{os.path.relpath(path, DOCS)}"


def _page(path: Path) -> str | None:
    if path in INCLUDED:
        return INCLUDED[path]
    if path.suffix == ".rst" and path.is_relative_to(DOCS):
        return str(path.relative_to(DOCS).with_suffix(""))
    return None


def _set_addresses(app: Sphinx, document: nodes.document, name: str) -> None:
    for link in document.findall(nodes.reference):
        if "page" in link:
            address = app.builder.get_relative_uri(name, link["page"])
            link["refuri"] = f"{address}#{link['anchor']}" if link["anchor"] else address


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform, and the step that sets addresses, which depend on the page."""
    app.add_transform(RepositoryLinks)
    app.connect("doctree-resolved", _set_addresses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
