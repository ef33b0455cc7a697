"""Compilers and emulators of other processors, and how ``make compilers`` installs them.

Run as a program, this installs them with apt, or prints what is missing. It imports only the
standard library and its neighbour for browsers.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.browser.chromium import apt_commands

PROCESSORS = {
    "aarch64": ("aarch64-linux-gnu-gcc", "qemu-aarch64"),
    "arm": ("arm-linux-gnueabihf-gcc", "qemu-arm"),
}
"""The compiler and the emulator of each processor."""
PACKAGES = (
    *("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"),
    *("gcc-arm-linux-gnueabihf", "libc6-dev-armhf-cross", "qemu-user"),
)


def missing(environment: Mapping[str, str] = os.environ) -> list[str]:
    """List the programs that are not there."""
    path = environment.get("PATH", os.defpath)
    return [
        name for pair in PROCESSORS.values() for name in pair if not shutil.which(name, path=path)
    ]


def is_required(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether missing compilers fail the tests instead of leaving them out."""
    return environment.get("BOWSAW_COMPILERS") == "require"


def main() -> int:
    """Find or install the compilers; the exit code is 0 if they are there now."""
    report = sys.stdout.write
    if missing():
        commands = apt_commands(packages=PACKAGES)
        if not commands:
            report(f"Missing: {' '.join(missing())}, and no apt that this user may install with.\n")
            return 1
        for command in commands:
            report(f"{' '.join(command)}\n")
            sys.stdout.flush()
            quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            if code := subprocess.run(command, env=quiet, check=False).returncode:
                report(f"The command above ended with {code}.\n")
                return 1
    if missing():
        report(f"Still missing: {' '.join(missing())}\n")
        return 1
    report(f"Compilers: {' '.join(pair[0] for pair in PROCESSORS.values())}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
