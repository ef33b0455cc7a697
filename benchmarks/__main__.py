"""Run the measurements, each in a process of its own, and write RESULTS.md and results.json.

python -m benchmarks                     everything (minutes)
python -m benchmarks --only kmeans       one of them, the others kept
python -m benchmarks --quick             a little data, to see that all runs
python -m benchmarks --draw              none; what follows from results.json is written again

The numbers and figures of docs/inference.md follow; with --output elsewhere the documents stay as
they are, and the figures go there.
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
from benchmarks.cluster import cluster_block
from benchmarks.device import device_block
from benchmarks.figures import draw_cell, draw_costs
from benchmarks.peers import MEASUREMENTS, QUICK, TOLD_ONLY, WITH_FAISS, best_blas_core
from benchmarks.report import write_measured, write_report
from benchmarks.timing import hardware

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
TOLD = " (told its CPU)"


def main() -> int:
    """Measure what was asked for and rewrite the report."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", choices=sorted(MEASUREMENTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--draw", action="store_true", help="measure nothing, write all else")
    parser.add_argument("--output", type=Path, default=HERE, help="where the two files go")
    parser.add_argument("--one", choices=sorted(MEASUREMENTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        sizes = QUICK[options.one] if options.quick else {}
        print(json.dumps(MEASUREMENTS[options.one](**sizes)))
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    raw = options.output / "results.json"
    results: dict[str, Any] = json.loads(raw.read_text()) if raw.exists() else {}
    measured = results.setdefault("measured", {})
    names = [] if options.draw else options.only or list(MEASUREMENTS)
    if names or "hardware" not in results:
        results["hardware"] = {**hardware(), "images": data.source()}
    core = best_blas_core() if names else None
    for name in names:
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
    _publish(results, options.output)
    return 0 if all(result["same"] for result in measured.values()) else 1


def _publish(results: dict[str, Any], output: Path) -> None:
    """Bring the documents up to date, or draw beside the results if those lie elsewhere."""
    at_home = output.resolve() == HERE.resolve()
    if at_home:
        write_measured(results, DOCS / "inference.md")
        if (DOCS / "device.md").exists():
            write_measured(results, DOCS / "device.md", device_block)
        if (DOCS / "cluster.md").exists():
            write_measured(results, DOCS / "cluster.md", cluster_block)
    figures = (DOCS if at_home else output) / "figures"
    for path in (draw_costs(results, figures), draw_cell(figures)):
        if path is not None:
            print(f"written: {path}")


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
