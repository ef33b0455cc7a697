"""Where a browser is looked for, and what happens without one. These tests need none."""

from __future__ import annotations

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


def test_the_first_known_command_on_the_path_is_taken(tmp_path):
    surroundings = {"PATH": str(tmp_path)}
    assert chromium.find_chromium(surroundings) is None
    chrome = program(tmp_path, "google-chrome")
    assert chromium.find_chromium(surroundings) == chrome
    first = program(tmp_path, "chromium")
    assert chromium.find_chromium(surroundings) == first


def test_applications_are_looked_for_after_commands(tmp_path, monkeypatch):
    application = program(tmp_path / "Google Chrome.app", "Google Chrome")
    monkeypatch.setattr(chromium, "APPLICATIONS", ("/no/such/place", str(application)))
    surroundings = {"PATH": str(tmp_path / "bin")}
    assert chromium.find_chromium(surroundings) == application
    command = program(tmp_path / "bin", "chromium-browser")
    assert chromium.find_chromium(surroundings) == command


def test_a_browser_that_is_named_is_the_only_one(tmp_path):
    program(tmp_path / "bin", "chromium")
    named = program(tmp_path, "mine")
    surroundings = {"PATH": str(tmp_path / "bin"), "BOWSAW_CHROMIUM": str(named)}
    assert chromium.find_chromium(surroundings) == named
    surroundings["BOWSAW_CHROMIUM"] = str(tmp_path / "missing")
    assert chromium.find_chromium(surroundings) is None


def test_apt_is_asked_with_sudo_only_where_it_must_be(tmp_path, monkeypatch):
    surroundings = {"PATH": str(tmp_path)}
    assert chromium.apt_commands(surroundings) is None
    apt = str(program(tmp_path, "apt-get"))
    assert chromium.apt_commands(surroundings) is None
    sudo = str(program(tmp_path, "sudo"))
    update, install = chromium.apt_commands(surroundings)
    assert update[:2] == install[:2] == [sudo, apt]
    assert update[-1] == "update"
    assert "chromium" in install[install.index("install") :]
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    assert [command[0] for command in chromium.apt_commands(surroundings)] == [apt, apt]


@pytest.mark.parametrize(
    ("surroundings", "code", "said"),
    [
        ({"BOWSAW_CHROMIUM": sys.executable}, 0, f"Chromium: {sys.executable}"),
        ({"BOWSAW_CHROMIUM": "/no/browser"}, 1, "BOWSAW_CHROMIUM is '/no/browser'"),
        ({"PATH": ""}, 1, "Install Chromium or Chrome by hand"),
    ],
)
def test_make_browser_says_what_it_found(surroundings, code, said, monkeypatch, capsys):
    for name, value in surroundings.items():
        monkeypatch.setenv(name, value)
    assert chromium.main() == code
    assert said in capsys.readouterr().out


def test_make_browser_installs_and_says_when_it_cannot(tmp_path, monkeypatch, capsys):
    program(tmp_path, "apt-get")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    asked = []

    def run(command, *, env, check):
        assert env["DEBIAN_FRONTEND"] == "noninteractive"
        asked.append(command[-1])
        if "install" in command and outcome == 0:
            program(tmp_path, "chromium")
        return subprocess.CompletedProcess(command, outcome)

    monkeypatch.setattr(subprocess, "run", run)
    outcome = 100
    assert chromium.main() == 1
    assert "ended with 100. Install Chromium or Chrome by hand" in capsys.readouterr().out
    assert asked == ["update"]
    outcome = 0
    assert chromium.main() == 0
    assert capsys.readouterr().out.endswith(f"Chromium: {tmp_path / 'chromium'}\n")


def test_only_the_word_require_requires_a_browser():
    assert chromium.is_required({"BOWSAW_BROWSER": "require"})
    assert not chromium.is_required({"BOWSAW_BROWSER": "if there"})
    assert not chromium.is_required({})


@pytest.mark.parametrize(
    ("select", "required", "code", "message"),
    [
        # With a worker, as make test runs it: the process that reports collects nothing itself.
        (("-k", "require_requires", "-n", "1"), "", 0, chromium.LEFT_OUT),
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
