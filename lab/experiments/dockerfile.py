"""Run the instructions of the Dockerfile in a folder, where no Docker daemon is available.

Usage, as root: python -m lab dockerfile [FOLDER]

debootstrap installs the Debian of FROM in FOLDER (default: a temporary one). There, chroot runs
RUN and CMD, with the user and the folder of the instructions. COPY copies the files that git
tracks. Each command has namespaces of its own, so its mounts and processes end with it. The
certificates and the settings of pip are those of this machine. The exit code is that of the first
command that fails. It takes about 6 minutes, most of them for the last command.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from offload.errors import MachineError
from scripts.script import ROOT, run

MIRROR = "http://deb.debian.org/debian"
NEEDED = ("debootstrap", "unshare", "chroot", "git")
PASSED = re.compile(r"(PIP|SSL)_|(https?|no)_proxy$", re.IGNORECASE)  # names of variables
MOUNTS = "mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev"


@dataclass
class Image:
    """The folder of the image, and the user and the working folder of the next command."""

    root: Path
    user: str = "root"
    folder: str = "/"
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, command: str) -> int:
        """Run a shell command in the image; return its exit code."""
        print(f"{self.user}: {command}", flush=True)
        _copy_settings(self.root)
        inside = f"cd {shlex.quote(self.folder)} && {command}"
        home = "/root" if self.user == "root" else f"/home/{self.user}"
        variables = {**self.environment, "HOME": home, "PATH": os.defpath + ":/usr/sbin:/sbin"}
        changed = ["chroot", f"--userspec={self.user}", ".", "sh", "-c", inside]
        script = f"{MOUNTS} && exec {shlex.join(changed)}"
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script]
        return subprocess.run(words, cwd=self.root, env=variables, check=False).returncode

    def copy(self, target: str) -> None:
        """Copy the files that git tracks to a folder of the image, owned by its user."""
        found = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
        )
        into = self.root / self.folder.lstrip("/") / target
        for name in filter(None, found.stdout.split("\0")):
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, into / name, follow_symlinks=False)
        as_root = Image(self.root, folder=self.folder)
        as_root.run(f"chown -R {self.user}: {shlex.quote(target)}")


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile: name and arguments."""
    joined = re.sub(r"\\\n\s*", " ", text)
    lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, words) for name, _, words in (line.partition(" ") for line in lines)]


def main(arguments: list[str]) -> int:
    """Run all instructions, and return the exit code."""
    if os.geteuid() != 0:
        raise MachineError("only root can use chroot", "run it by sudo")
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        raise MachineError(f"{missing[0]} is not installed", f"apt-get install {missing[0]}")
    if arguments:
        return build(Path(arguments[0]).absolute())
    with tempfile.TemporaryDirectory() as folder:
        return build(Path(folder, "image"))


def build(root: Path) -> int:
    """Build the image in a folder, and run its command; return the exit code of the last step."""
    passed = {name: value for name, value in os.environ.items() if PASSED.match(name)}
    image, code = Image(root, environment=passed), 0
    for name, words in instructions((ROOT / "Dockerfile").read_text()):
        match name:
            case "FROM":
                suite = words.rpartition(":")[2].removesuffix("-slim")
                command = ["debootstrap", "--variant=minbase", suite, str(root), MIRROR]
                code = subprocess.run(command, check=False).returncode
            case "USER":
                image.user = words
            case "WORKDIR":
                image.folder = words
            case "COPY":
                image.copy(shlex.split(words)[-1])
            case "RUN":
                code = image.run(words)
            case "CMD":
                code = image.run(shlex.join(re.findall(r'"([^"]*)"', words)))
            case _:
                raise MachineError(f"the instruction {name} is unknown here", "extend this check")
        if code != 0:
            print(f"{name} {words}: exit code {code}", file=sys.stderr)
            return code
    return 0


def _copy_settings(root: Path) -> None:
    """Copy the name servers and the certificates of this machine; packages overwrite them."""
    for name in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
        if Path("/", name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path("/", name), root / name)


if __name__ == "__main__":
    run(main)
