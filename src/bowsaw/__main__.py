"""``python -m bowsaw`` is the command ``bowsaw``."""

from __future__ import annotations

import sys

from bowsaw.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
