"""uv installs what the lock has, from the index that pip is configured to use."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pip
import pytest
import trustme

from scripts.install import packages
from tests import ROOT
from tests.small_wheels import write_wheel

pytestmark = [pytest.mark.server, pytest.mark.timeout(120)]
PROJECT = """[project]
name = "NAME"
version = "1.0"
[project.optional-dependencies]
pictures = ["drawing>=1"]
[dependency-groups]
dev = ["locked-sample>=0.9"]
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """import pathlib, shutil
def build_editable(folder, *_):
    [wheel] = pathlib.Path.cwd().glob("*.whl")
    return shutil.copy(wheel, folder).rpartition("/")[2]
"""
FOREIGN = re.compile(r"(pip|uv|ssl)_|.*_(ca_bundle|proxy)$", re.IGNORECASE)


class Index(SimpleHTTPRequestHandler):
    """An index of packages; with `password`, only for who sends it."""

    password: str | None = None

    def do_GET(self) -> None:
        """Serve a folder as a page of links, and files."""
        expected = base64.b64encode(f"user:{self.password}".encode()).decode()
        if self.password and self.headers["Authorization"] != f"Basic {expected}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@dataclass
class Project:
    """A folder like this checkout, with an index that has one package, and a home."""

    root: Path
    python: str
    wheel: Path
    variables: dict[str, str] = field(default_factory=dict)

    def lock(self, digest: str | None = None, *, has_sample: bool = True) -> None:
        """Write the lock: uv's lines, and the package with its hash or another one."""
        digest = digest or hashlib.sha256(self.wheel.read_bytes()).hexdigest()
        [uv] = packages.locked_lines("uv")
        sample = f"locked-sample==1.0 --hash=sha256:{digest}\n" if has_sample else ""
        (self.root / "requirements.lock").write_text(uv + sample)

    def configure(self, text: str) -> None:
        """Write pip's configuration file of the user."""
        file = self.root / "home" / ".config" / "pip" / "pip.conf"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"[global]\n{text}\n")

    def install(self, name: str = "dev") -> subprocess.CompletedProcess[str]:
        """Run the script for a group or a package."""
        script = self.root / "scripts" / "install" / "packages.py"
        own = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
        return subprocess.run(
            [sys.executable, script, "--python", self.python, name],
            env={**own, "HOME": str(self.root / "home"), **self.variables},
            capture_output=True,
            text=True,
            timeout=100,
        )

    def has(self, *names: str) -> bool:
        """Return whether packages can be imported."""
        words = [self.python, "-c", f"import {', '.join(names)}"]
        return subprocess.run(words, capture_output=True, timeout=30).returncode == 0


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = tmp_path / "project"
    (root / "scripts" / "install").mkdir(parents=True)
    (root / "home").mkdir()
    shutil.copy(ROOT / "scripts" / "install" / "packages.py", root / "scripts" / "install")
    for name, folder in (("sample", root), ("pipepool", root / "pipepool")):
        folder.mkdir(exist_ok=True)
        (folder / "pyproject.toml").write_text(PROJECT.replace("NAME", name))
        (folder / "backend.py").write_text(BACKEND)
        write_wheel(folder, name)
    files = tmp_path / "index" / "simple" / "locked-sample"
    files.mkdir(parents=True)
    (tmp_path / "index" / "simple" / "empty").mkdir()
    words = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")]
    subprocess.run(words, check=True, timeout=60)
    made = Project(
        root, str(tmp_path / "venv" / "bin" / "python"), write_wheel(files, "locked_sample")
    )
    made.lock()
    return made


Serve = Callable[..., str]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start an index on the loopback interface; return its address."""
    running = []

    def start(password: str | None = None, authority: trustme.CA | None = None) -> str:
        handler = type("Handler", (Index,), {"password": password})
        server = ThreadingHTTPServer(
            ("127.0.0.1", 0), partial(handler, directory=str(tmp_path / "index"))
        )
        if authority is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            authority.issue_cert("localhost").configure_cert(context)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        scheme, host = ("http", "127.0.0.1") if authority is None else ("https", "localhost")
        return f"{scheme}://{host}:{server.server_port}/simple/"

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def test_what_the_lock_has_is_installed(project: Project, serve: Serve) -> None:
    project.configure(f"index-url = {serve()}")
    done = project.install()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert project.has("locked_sample", "sample", "pipepool")


def test_a_package_of_the_lock_is_installed_alone(project: Project, serve: Serve) -> None:
    project.configure(f"index-url = {serve()}")
    done = project.install("locked-sample")
    assert (done.returncode, done.stderr) == (0, "")
    assert project.has("locked_sample")
    assert not project.has("sample")
    done = project.install("other")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert done.stderr.startswith("other is no extra and no group of pyproject.toml")


def test_a_package_with_another_hash_is_refused(project: Project, serve: Serve) -> None:
    project.configure(f"index-url = {serve()}")
    project.lock("0" * 64)
    done = project.install()
    assert done.returncode == 3
    assert "Hash mismatch for `locked-sample==1.0`" in done.stderr
    assert not project.has("locked_sample")


def test_a_package_that_the_lock_does_not_have_is_refused(project: Project, serve: Serve) -> None:
    project.configure(f"index-url = {serve()}")
    project.lock(has_sample=False)
    done = project.install()
    assert done.returncode == 3
    assert "--require-hashes" in done.stderr or "Hash-checking" in done.stderr
    assert not project.has("locked_sample")


@pytest.mark.parametrize("setting", ["index_url", "extra_index_url", "find_links"])
def test_pips_variables_are_those_of_uv(project: Project, serve: Serve, setting: str) -> None:
    address = serve()
    if setting == "find_links":
        project.variables = {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": f"/no/such/folder {project.wheel.parent}",
        }
    elif setting == "extra_index_url":
        project.configure(f"index-url = {address}empty/")
        project.variables = {"PIP_EXTRA_INDEX_URL": address}
    else:
        project.configure("index-url = http://127.0.0.1:9/simple/")
        project.variables = {"PIP_INDEX_URL": address}
    done = project.install()
    assert (done.returncode, done.stderr) == (0, "")
    assert project.has("locked_sample")


@pytest.mark.parametrize(
    "setting",
    ["user = true", "target = there", "prefix = there", "root = there", "dry-run = true",
     "no-binary = :all:", "quiet = 3"],
)  # fmt: skip
def test_uv_is_installed_by_pip_into_this_environment(
    project: Project, tmp_path: Path, setting: str
) -> None:
    wheel = write_wheel(tmp_path, "uv")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (project.root / "requirements.lock").write_text(f"uv==1.0 --hash=sha256:{digest}\n")
    [site] = tmp_path.glob("venv/lib/python*/site-packages")
    (site / "pip").symlink_to(Path(pip.__file__).parent)
    project.configure(f"no-index = true\nfind-links = {tmp_path}\n{setting}")
    code = "import packages; print(packages.find_uv(packages.pip_settings()))"
    own = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
    found = subprocess.run(
        [project.python, "-c", code],
        env={
            **own,
            "HOME": str(project.root / "home"),
            "PYTHONPATH": f"{project.root}/scripts/install",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert Path(found.stdout.strip()).exists()


@pytest.mark.parametrize("place", ["netrc", "address"])
def test_an_index_with_a_password_gets_it(project: Project, serve: Serve, place: str) -> None:
    address = serve(password="secret")
    project.configure(f"index-url = {address}")
    assert project.install().returncode == 3
    if place == "netrc":
        netrc = project.root / "home" / ".netrc"
        netrc.write_text("machine 127.0.0.1 login user password secret\n")
        netrc.chmod(0o600)
    else:
        project.configure(f"index-url = {address.replace('//', '//user:secret@')}")
    done = project.install()
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("setting", ["cert", "trusted-host"])
def test_an_index_with_an_authority_of_its_own_is_trusted_as_by_pip(
    project: Project, serve: Serve, setting: str, tmp_path: Path
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    address = serve(authority=authority)
    project.configure(f"index-url = {address}")
    assert project.install().returncode == 3
    value = {"cert": tmp_path / "ca.pem", "trusted-host": address.split("/")[2]}[setting]
    project.configure(f"index-url = {address}\n{setting} = {value}")
    done = project.install()
    assert (done.returncode, done.stderr) == (0, "")


def test_an_index_that_is_not_there_is_an_error_with_its_address(project: Project) -> None:
    project.configure("index-url = http://127.0.0.1:9/simple/\nretries = 0")
    done = project.install()
    assert done.returncode == 3
    assert "http://127.0.0.1:9/simple/" in done.stderr


@pytest.mark.parametrize(
    ("settings", "variables", "expected"),
    [
        ({"index-url": "http://a"}, {}, {"UV_DEFAULT_INDEX": "http://a"}),
        ({"index-url": "http://a"}, {"UV_DEFAULT_INDEX": "b"}, {"UV_DEFAULT_INDEX": "b"}),
        ({"extra-index-url": "http://a\nhttp://b"}, {}, {"UV_INDEX": "http://a http://b"}),
        ({"find-links": "http://a/b,c"}, {}, {"UV_FIND_LINKS": "http://a/b%2Cc"}),
        ({"trusted-host": "a:1\nb"}, {}, {"UV_INSECURE_HOST": "a:1 b"}),
        ({"cert": "/a.pem"}, {}, {"SSL_CERT_FILE": "/a.pem"}),
        ({"cert": "/"}, {}, {"SSL_CERT_DIR": "/"}),
        ({}, {"REQUESTS_CA_BUNDLE": "/a.pem"}, {"SSL_CERT_FILE": "/a.pem"}),
        ({"client-cert": "/a.pem"}, {}, {"SSL_CLIENT_CERT": "/a.pem"}),
        ({"proxy": "http://a:1"}, {}, {"ALL_PROXY": "http://a:1"}),
        ({"timeout": "0.5"}, {}, {"UV_HTTP_TIMEOUT": "1"}),
        ({"keyring-provider": "import"}, {}, {"UV_KEYRING_PROVIDER": "subprocess"}),
        ({}, {"HOME": "/proc/none"}, {"UV_NO_CACHE": "1"}),
    ],
)
def test_a_setting_of_pip_is_a_variable_of_uv(
    settings: dict[str, str], variables: dict[str, str], expected: dict[str, str], monkeypatch: Any
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = packages.uv_environment(settings, variables)
    assert {name: found.get(name) for name in expected} == expected
