"""Where the tests of the page find a browser, and how ``make browser`` installs one.

Playwright drives any Chromium or Chrome of the machine; it downloads none. Run as a program, this
installs Chromium with apt, or prints what to do. It imports only the standard library, because
``make browser`` may run first of all.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
APPLICATIONS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "~/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Google/Chrome/Application/chrome.exe",
)
LEFT_OUT = "browser tests were left out: no Chromium found; `make browser` installs one"
REQUIRED = "BOWSAW_BROWSER=require, but no Chromium was found; `make browser` installs one"
BY_HAND = (
    "Install Chromium or Chrome by hand; if it is in an unusual place, set BOWSAW_CHROMIUM to the "
    "program's path."
)


def find_chromium(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Find what BOWSAW_CHROMIUM names, and nothing else, or the first in the usual places."""
    if named := environment.get("BOWSAW_CHROMIUM"):
        found = shutil.which(named, path=environment.get("PATH"))
        return Path(found) if found else None
    for command in COMMANDS:
        if found := shutil.which(command, path=environment.get("PATH", os.defpath)):
            return Path(found)
    places = (Path(place).expanduser() for place in APPLICATIONS)
    return next((place for place in places if place.is_file()), None)


def is_required(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a missing browser fails the tests instead of leaving them out."""
    return environment.get("BOWSAW_BROWSER") == "require"


# The tests measure what overflows, so they need a typeface of the usual width.
PACKAGES = ("chromium", "fonts-liberation")


def apt_commands(
    environment: Mapping[str, str] = os.environ, packages: Sequence[str] = PACKAGES
) -> list[list[str]] | None:
    """List the commands that install packages; None where this user cannot install with apt."""
    path = environment.get("PATH", os.defpath)
    if not (apt := shutil.which("apt-get", path=path)):
        return None
    prefix = []
    if os.geteuid() != 0:
        if not (sudo := shutil.which("sudo", path=path)):
            return None
        prefix = [sudo]
    patient = [*prefix, apt, "-q", "-o", "Acquire::Retries=3"]
    return [[*patient, "update"], [*patient, "install", "-y", "--no-install-recommends", *packages]]


def main() -> int:
    """Find or install a browser; the exit code is 0 if there is one now."""
    report = sys.stdout.write
    if not (found := find_chromium()):
        if named := os.environ.get("BOWSAW_CHROMIUM"):
            report(f"BOWSAW_CHROMIUM is {named!r}, which is no program; correct it or unset it\n")
            return 1
        if not (commands := apt_commands()):
            report(f"No Chromium found, and no apt that this user may install with. {BY_HAND}\n")
            return 1
        for command in commands:
            report(f"{' '.join(command)}\n")
            sys.stdout.flush()
            quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            if code := subprocess.run(command, env=quiet, check=False).returncode:
                report(f"The command above ended with {code}. {BY_HAND}\n")
                return 1
        if not (found := find_chromium()):
            report(f"apt installed chromium, but there is no such command. {BY_HAND}\n")
            return 1
    report(f"Chromium: {found}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
