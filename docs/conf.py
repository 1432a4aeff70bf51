"""The settings of the site: `make docs` writes it to docs/_build."""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

project = "offload"
copyright = "2026, the authors of this project"  # noqa: A001 - the setting's name
_source = (DOCS.parent / "src" / "offload" / "__init__.py").read_text()
release = version = re.findall(r'__version__ = "(.+)"', _source)[0]

extensions = ["repository_links"]
exclude_patterns = ["_build"]
nitpicky = True
highlight_language = "none"

html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False
