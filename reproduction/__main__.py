"""``python -m reproduction``: measure the study, write its page and print the verdicts."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import bowsaw as bs
from reproduction.claims import verdicts
from reproduction.panels import SETS, Study
from reproduction.section import claims_section


def main(arguments: Sequence[str] | None = None, study: Study | None = None) -> int:
    """Run the command; ``study`` replaces the settings of the paper."""
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument("--scene15", metavar="DIR", help="the folder of the 15 scene classes")
    parser.add_argument("--caltech101", metavar="DIR", help="the folder of Caltech-101")
    parser.add_argument("-o", "--output", required=True, type=Path, help="the run's folder")
    parser.add_argument("--splits", type=int, help="random splits (default: 5)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=-1, help="threads (default: all cores)")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    images = {name: getattr(options, name) for name in SETS if getattr(options, name)}
    if not images:
        parser.error("name the folder of a benchmark: --scene15 DIR, --caltech101 DIR, or both.")
    settings = replace(
        study or Study(), seed=options.seed, n_jobs=options.jobs, n_workers=options.workers
    )
    if options.splits is not None:
        settings = replace(settings, n_splits=options.splits)
    command = shlex.join(["python", "-m", "reproduction", *given])

    def show(step: Any) -> None:
        if sys.stderr.isatty():
            print(f"{step.n_done} of {step.n_cells} cells", file=sys.stderr)

    run = settings.run(images, options.output, command, show)
    found = verdicts(run)
    page = bs.write_page(options.output, extra=[claims_section(found)])
    for verdict in found:
        print(f"{verdict.answer}: {verdict.claim}")
    print(f"{len(run.cells)} cells in {options.output}; the page: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
