"""``python -m tests.fuzz``: let readers have inputs that nobody should send them.

    python -m tests.fuzz --reader store --inputs 100000 --seed 0
    python -m tests.fuzz --all --inputs 100000 --minutes 30

Each reader's figures are one JSON line on standard output, and in ``figures.jsonl`` of the folder.
The same command goes on where the last one stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.fuzz.readers import NAMES, reader_named
from tests.fuzz.supervisor import search_for


def main() -> int:
    """Run the searches that were asked for; 1 where something was found."""
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__.splitlines()[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--reader", choices=sorted(NAMES), action="append", metavar="NAME")
    which.add_argument("--all", action="store_true", help="every reader")
    which.add_argument("--list", action="store_true", help="name the readers")
    parser.add_argument("--inputs", type=int, default=100_000, metavar="N", help="of each reader")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument(
        "--minutes", type=float, default=1e6, metavar="M", help="for each reader at most"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("fuzz"), help="where runs are kept (default: fuzz)"
    )
    parser.add_argument(
        "--engine",
        choices=("coverage", "hypothesis"),
        default="coverage",
        help="what draws the inputs (default: %(default)s)",
    )
    options = parser.parse_args()
    if options.list:
        sys.stdout.write("\n".join(NAMES) + "\n")
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    found = 0
    for name in NAMES if options.all else options.reader:
        if options.engine == "coverage":
            told = search_for(options.folder, name, options.seed, options.inputs, options.minutes)
        else:
            told = _properties(options.folder, name, options.seed, options.inputs)
        found += told["findings"]
        line = json.dumps(told) + "\n"
        sys.stdout.write(line)
        sys.stdout.flush()
        with (options.folder / "figures.jsonl").open("a") as file:
            file.write(line)
    return int(found > 0)


def _properties(folder: Path, name: str, seed: int, n_inputs: int) -> dict[str, Any]:
    from tests.fuzz.properties import try_properties

    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        tally = try_properties(reader_named(name), Path(scratch), n_inputs, seed)
    for finding in tally.findings:
        (folder / f"{name}-{seed}-smallest.bin").write_bytes(finding.data)
    return {
        "reader": name,
        "engine": "hypothesis",
        "seed": seed,
        "inputs": tally.done,
        "accepted": tally.accepted,
        "refused": tally.refused,
        "findings": len(tally.findings),
        "told": [finding.detail for finding in tally.findings],
        "seconds": round(time.monotonic() - begin),
    }


if __name__ == "__main__":
    raise SystemExit(main())
