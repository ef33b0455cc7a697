"""``kill -9`` at any moment costs a shard of work at most and never a byte of the result."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("n_moments", "n_killed"), [(2, 5), pytest.param(25, 100, marks=pytest.mark.slow)]
)
def test_a_killed_extraction_ends_in_the_same_store(tmp_path, n_moments, n_killed):
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.killing", str(tmp_path), str(n_moments)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {name: found["different"] for name, found in report.items() if found["different"]} == {}
    assert sum(found["killed"] for found in report.values()) >= n_killed
