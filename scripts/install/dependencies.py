"""The dependencies of the wheel: the packages in requirements.txt, and pipepool."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Dependencies(MetadataHookInterface):
    """Read the dependencies when a wheel or an editable installation is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the dependencies to the metadata of the project."""
        root = Path(self.root)
        pool = (root / "pipepool" / "src" / "pipepool" / "__init__.py").read_text()
        version = re.search(r'__version__ = "(.+)"', pool)
        assert version is not None, "pipepool has no version"
        sys.path.insert(0, str(root / "src"))
        from offload.registry.requirements import lines

        needed = lines(root / "requirements.txt")
        metadata["dependencies"] = [*needed, f"pipepool>={version[1]}"]
        extras = ("suites", "pictures")
        metadata["optional-dependencies"] = {
            extra: lines(root / f"requirements-{extra}.txt") for extra in extras
        }
