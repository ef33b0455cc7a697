"""Run the measurements, each in a process of its own, and write RESULTS.md and results.json.

python -m benchmarks                     everything (minutes)
python -m benchmarks --only kmeans       one of them, the others kept
python -m benchmarks --quick             a little data, to see that all runs
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.peers import MEASUREMENTS, QUICK, TOLD_ONLY, WITH_FAISS, best_blas_core
from benchmarks.report import write_report
from benchmarks.timing import hardware

HERE = Path(__file__).parent
TOLD = " (told its CPU)"


def main() -> int:
    """Measure what was asked for and rewrite the report."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", choices=sorted(MEASUREMENTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, default=HERE, help="where the two files go")
    parser.add_argument("--one", choices=sorted(MEASUREMENTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        sizes = QUICK[options.one] if options.quick else {}
        print(json.dumps(MEASUREMENTS[options.one](**sizes)))
        return 0
    raw = options.output / "results.json"
    results: dict[str, Any] = json.loads(raw.read_text()) if raw.exists() else {}
    results["hardware"] = {**hardware(), "pictures": data.source()}
    measured = results.setdefault("measured", {})
    core = best_blas_core()
    for name in options.only or list(MEASUREMENTS):
        variants: list[tuple[str, dict[str, str]]] = [(name, {})]
        if name in TOLD_ONLY and core:
            variants = [(name, {"OPENBLAS_CORETYPE": core})]
        if name in WITH_FAISS and core:
            variants.append((name + TOLD, {"OPENBLAS_CORETYPE": core}))
        for label, more in variants:
            begin = time.perf_counter()
            print(f"{label} …", end=" ", flush=True)
            measured[label] = _in_a_process(name, options.quick, more)
            print(f"{time.perf_counter() - begin:.0f} s", flush=True)
            raw.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    write_report(results, options.output / "RESULTS.md")
    print(f"written: {options.output / 'RESULTS.md'}")
    return 0 if all(result["same"] for result in measured.values()) else 1


def _in_a_process(name: str, quick: bool, more: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks", "--one", name, *(["--quick"] if quick else [])]
    done = subprocess.run(
        command, env={**os.environ, **more}, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name} failed with exit code {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    sys.exit(main())
