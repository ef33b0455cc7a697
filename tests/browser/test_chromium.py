"""Where a browser is looked for, and what happens without one. These tests need none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.browser import chromium

TOP = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("nothing_but_posix")


@pytest.fixture
def nothing_but_posix(tmp_path, monkeypatch):
    monkeypatch.setattr(chromium, "APPLICATIONS", ())
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)


def program(folder: Path, name: str) -> Path:
    path = folder / (f"{name}.exe" if os.name == "nt" else name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_commands_come_before_applications_and_a_named_browser_is_the_only_one(
    tmp_path, monkeypatch
):
    environment = {"PATH": str(tmp_path / "bin")}
    assert chromium.find_chromium(environment) is None
    application = program(tmp_path / "Google Chrome.app", "Google Chrome")
    monkeypatch.setattr(chromium, "APPLICATIONS", ("/no/such/place", str(application)))
    assert chromium.find_chromium(environment) == application
    command = program(tmp_path / "bin", "chromium-browser")
    assert chromium.find_chromium(environment) == command
    named = program(tmp_path, "mine")
    assert chromium.find_chromium({**environment, "BOWSAW_CHROMIUM": str(named)}) == named
    missing = {**environment, "BOWSAW_CHROMIUM": str(tmp_path / "missing")}
    assert chromium.find_chromium(missing) is None


def test_apt_runs_with_sudo_only_if_needed(tmp_path, monkeypatch):
    environment = {"PATH": str(tmp_path)}
    assert chromium.apt_commands(environment) is None
    apt = str(program(tmp_path, "apt-get"))
    assert chromium.apt_commands(environment) is None
    sudo = str(program(tmp_path, "sudo"))
    assert [command[:2] for command in chromium.apt_commands(environment)] == [[sudo, apt]] * 2
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    assert [command[0] for command in chromium.apt_commands(environment)] == [apt, apt]


@pytest.mark.parametrize(
    ("environment", "code", "message"),
    [
        ({"BOWSAW_CHROMIUM": sys.executable}, 0, f"Chromium: {sys.executable}"),
        ({"BOWSAW_CHROMIUM": "/no/browser"}, 1, "BOWSAW_CHROMIUM is '/no/browser'"),
        ({"PATH": ""}, 1, "Install Chromium or Chrome by hand"),
    ],
)
def test_make_browser_reports_what_it_found(environment, code, message, monkeypatch, capsys):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert chromium.main() == code
    assert message in capsys.readouterr().out


def test_make_browser_installs_with_apt(tmp_path, monkeypatch, capsys):
    program(tmp_path, "apt-get")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)

    def run(command, **_):
        program(tmp_path, "chromium")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert chromium.main() == 0
    assert f"Chromium: {tmp_path / 'chromium'}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("select", "required", "code", "message"),
    [
        # With a worker, as make test runs it: the process that reports collects nothing itself.
        (("-k", "only_if_needed", "-n", "1"), "", 0, chromium.LEFT_OUT),
        (("-k", "sound_page"), "require", 1, chromium.REQUIRED),
    ],
)
def test_a_run_without_a_browser_says_so(select, required, code, message):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/browser"]
    nowhere = {"BOWSAW_CHROMIUM": "no-such-browser", "BOWSAW_BROWSER": required}
    env = os.environ | nowhere
    done = subprocess.run(
        [*command, *select], cwd=TOP, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert message in done.stdout
    assert done.stdout.count(chromium.LEFT_OUT) == (code == 0)
