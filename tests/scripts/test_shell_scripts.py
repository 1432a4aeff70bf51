"""The shell scripts are valid, and report in one line if they cannot do their work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import ROOT

FOLDER = ROOT / "scripts" / "install"
SCRIPTS = sorted(path for path in FOLDER.iterdir() if path.is_file() and not path.suffix)
TOOLS = ("sh", "id", "rm", "uname", "dirname", "env", "dpkg", "mkdir", "cat")
FAILS = "#!/bin/sh\nexit 1\n"
SUCCEEDS = "#!/bin/sh\nexit 0\n"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    """Make the only folder on PATH: it has a few harmless tools, and no package manager."""
    (tmp_path / "bin").mkdir()
    for name in TOOLS:
        if (found := shutil.which(name)) is not None:
            (tmp_path / "bin" / name).symlink_to(found)
    return tmp_path / "bin"


@pytest.fixture
def run(bin_: Path, tmp_path: Path) -> Run:
    """Run a script in an empty folder."""
    (tmp_path / "empty").mkdir()

    def script(name: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(FOLDER / name), *words],
            cwd=tmp_path / "empty",
            env={"PATH": str(bin_), "HOME": str(tmp_path), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )

    return script


def program(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_there_are_scripts_and_those_that_are_run_can_be() -> None:
    names = {path.name for path in SCRIPTS}
    assert names >= {"venv", "siege", "tools", "private_apt"}
    assert names >= {"python_from_debian", "python_free_threaded"}
    for path in SCRIPTS:
        is_sourced = path.name == "private_apt"
        assert os.access(path, os.X_OK) is not is_sourced, path
        assert path.read_text().startswith("#!/bin/sh\n") is not is_sourced, path


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_the_syntax_of_a_script_is_valid(path: Path) -> None:
    said = subprocess.run(["sh", "-n", str(path)], capture_output=True, text=True, timeout=30)
    assert (said.returncode, said.stderr) == (0, "")


@pytest.mark.skipif(
    shutil.which("shellcheck") is None,
    reason="shellcheck is not installed: sudo apt install shellcheck, then make test-all",
)
def test_shellcheck_finds_no_error() -> None:
    words = ["shellcheck", "--shell=sh", "--severity=error", *map(str, SCRIPTS)]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stdout


@pytest.mark.parametrize("python", ["/no/python", "old"])
def test_a_python_that_is_missing_or_too_old_is_one_line(
    python: str, run: Run, tmp_path: Path
) -> None:
    program(tmp_path / "bin" / "old", FAILS)  # as the question for the version does
    said = run("venv", python)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (3, "", 1)
    assert said.stderr.startswith("Python 3.11 or newer is needed: make PYTHON=python3.12 demo")
    assert list((tmp_path / "empty").iterdir()) == []


def test_the_question_for_the_version_is_answered_by_this_python(run: Run, tmp_path: Path) -> None:
    only_asks = f'#!/bin/sh\n[ "$1" = -c ] && exec "{sys.executable}" "$@"\nexit 1\n'
    said = run("venv", program(tmp_path / "bin" / "asked", only_asks))
    assert "Python 3.11" not in said.stderr


def test_where_no_environment_can_be_made_the_package_is_named(run: Run, tmp_path: Path) -> None:
    without = '#!/bin/sh\n[ "$1" = -c ] && exit 0\nmkdir .venv\nexit 1\n'
    said = run("venv", program(tmp_path / "bin" / "without", without))
    line = "no virtual environment can be created: sudo apt install python3-venv\n"
    assert (said.returncode, said.stdout, said.stderr) == (3, "", line)
    assert list((tmp_path / "empty").iterdir()) == []  # the half one is removed


@pytest.mark.slow
def test_an_environment_is_made_with_the_python_named(run: Run, tmp_path: Path) -> None:
    said = run("venv", sys.executable)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    own = tmp_path / "empty" / ".venv" / "bin" / "python"
    done = subprocess.run([str(own), "-m", "pip", "--version"], timeout=30, capture_output=True)
    assert done.returncode == 0


def test_an_environment_that_does_not_work_here_is_one_line(run: Run, tmp_path: Path) -> None:
    """Its programs would run the code of the checkout from which it was copied."""
    made = tmp_path / "empty" / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True, timeout=30)
    said = run("venv", "--check")
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (3, "", 1)
    assert said.stderr.startswith(
        ".venv was moved or copied, its Python was replaced, or it has no"
    )
    [site] = made.glob("lib/python*/site-packages")
    (site / "pip.py").touch()
    program(made / "bin" / "pip", f"#!{made}/bin/python\nimport pip\n")
    said = run("venv", "--check")
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    other = tmp_path / "copy of it"
    shutil.copytree(tmp_path / "empty", other, symlinks=True)
    long = f'#!/bin/sh\n\'\'\'exec\' "{other}/.venv/bin/python3" "$0" "$@"\n'
    gone = f"#!{tmp_path}/gone/bin/python\n"
    for text, code in ((f"#!{made}/bin/python\n", 3), (gone, 3), (long, 0)):
        program(other / ".venv" / "bin" / "pip", text)
        done = subprocess.run(
            [FOLDER / "venv", "--check"], cwd=other, capture_output=True, timeout=30
        )
        assert done.returncode == code


def test_each_installation_checks_the_environment_first() -> None:
    for target in ("setup", "demo", "test", "suites"):
        words = ["make", "-n", target]
        said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=30)
        assert "scripts/install/venv --check" in said.stdout, said.stderr


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_python_without_ensurepip_has_its_pip_by_another_python(
    bin_: Path, tmp_path: Path
) -> None:
    without = f"""#!/bin/sh
case " $* " in *" -m venv --without-pip "*|*" -c "*) exec {sys.executable} "$@" ;; esac
exit 1
"""
    program(bin_ / "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (bin_ / "mktemp").symlink_to(str(shutil.which("mktemp")))
    done = subprocess.run(
        [str(FOLDER / "venv"), program(bin_ / "without", without)],
        cwd=tmp_path,
        env={**os.environ, "PATH": str(bin_)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    python = str(tmp_path / ".venv" / "bin" / "python")
    assert subprocess.run([python, "-m", "pip", "--version"], timeout=30).returncode == 0


def test_siege_that_is_here_is_not_installed(run: Run, bin_: Path) -> None:
    program(bin_ / "siege", SUCCEEDS)
    program(bin_ / "apt-get", FAILS)
    said = run("siege")
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


def test_siege_that_cannot_be_installed_is_one_line_and_no_error(run: Run) -> None:
    said = run("siege")
    line = "siege is not installed: sudo apt install siege; "
    assert (said.returncode, said.stdout) == (0, "")
    assert said.stderr == f"{line}the builtin load driver is used instead\n"


def test_a_package_manager_that_fails_is_reported(run: Run, bin_: Path) -> None:
    program(bin_ / "apt-get", FAILS)
    program(bin_ / "sudo", SUCCEEDS)  # for who is not root
    said = run("siege")
    assert (said.returncode, said.stderr.count("\n")) == (0, 2)
    assert said.stderr.startswith("installing siege\nsiege is not installed: ")


def test_a_mac_without_brew_prints_the_command_for_brew(run: Run, bin_: Path) -> None:
    (bin_ / "uname").unlink()
    program(bin_ / "uname", "#!/bin/sh\necho Darwin\n")
    said = run("siege")
    assert (said.returncode, said.stderr.count("\n")) == (0, 1)
    assert said.stderr.startswith("siege is not installed: brew install siege; ")


def test_tools_that_cannot_be_installed_are_one_line_and_no_error(run: Run) -> None:
    said = run("tools")
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (0, "", 1)
    packages = " apache2-utils nghttp2-client wrk"
    assert said.stderr.startswith(f"not installed: sudo apt install{packages}")
    assert said.stderr.endswith(
        "; the built-in driver, upstream and slow clients are used instead\n"
    )


def test_tools_that_are_here_are_not_installed(run: Run, bin_: Path) -> None:
    for name in ("ab", "h2load", "wrk", "nginx", "slowhttptest", "stress-ng"):
        program(bin_ / name, SUCCEEDS)
    program(bin_ / "apt-get", FAILS)
    for environment in ({}, {"missing": " vim"}):
        said = run("tools", **environment)
        assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("python_from_debian", "apt-get is not installed: use uv python install 3.14"),
        (
            "python_free_threaded",
            "apt-get is not installed: sudo apt install build-essential dpkg-dev",
        ),
    ],
)
def test_without_apt_get_no_python_is_made_and_one_line_reports_it(
    name: str, words: str, run: Run
) -> None:
    pythons = ROOT / ".pythons"
    before = sorted(pythons.glob("*"))
    said = run(name, "3.14")
    assert (said.returncode, said.stdout, said.stderr) == (3, "", f"error: {words}\n")
    assert sorted(pythons.glob("*")) == before


def test_without_a_version_the_usage_is_printed(run: Run) -> None:
    said = run("python_from_debian")
    assert (said.returncode != 0, said.stderr.count("\n")) == (True, 1)
    assert "which Python? scripts/install/python_from_debian 3.14" in said.stderr


@pytest.mark.skipif(shutil.which("apt-config") is None, reason="only Debian has apt")
def test_the_private_apt_has_nothing_of_the_systems(tmp_path: Path) -> None:
    own = tmp_path / "own"
    words = f'. "{FOLDER}/private_apt"; private_apt "{own}" "deb [a] b c main"; apt-config dump'
    said = subprocess.run(["sh", "-ec", words], capture_output=True, text=True, timeout=30)
    assert said.returncode == 0, said.stderr
    settings = dict(re.findall(r'^(\S+) "(.*)";$', said.stdout, re.MULTILINE))
    places = ("Dir::State", "Dir::State::lists", "Dir::Cache", "Dir::State::status")
    assert all(settings[place].startswith(str(own)) for place in places)
    assert Path(settings["Dir::Etc::sourcelist"]).read_text() == "deb [a] b c main\n"
    assert settings["Dir::Etc::sourceparts"] == "/dev/null"
