"""``python -m tests.golden --write``: write the expected values from the code as it is."""

import argparse
import tempfile
from pathlib import Path

from tests.golden.frozen import write

parser = argparse.ArgumentParser("python -m tests.golden", description=__doc__)
parser.add_argument("--write", action="store_true", required=True)
parser.parse_args()
with tempfile.TemporaryDirectory() as folder:
    write(Path(folder))
