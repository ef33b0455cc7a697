"""``python -m tests.fuzz``: mutated inputs for every reader.

    python -m tests.fuzz --reader store --inputs 100000 --seed 0
    python -m tests.fuzz --all --inputs 100000 --minutes 30

The figures of each reader are one JSON line on standard output and in ``figures.jsonl`` of the
folder. The same command continues an interrupted run.
"""

import argparse
import json
import sys
from pathlib import Path

from tests.fuzz.readers import READERS
from tests.fuzz.supervisor import search_for


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__.splitlines()[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--reader", choices=sorted(READERS), action="append", metavar="NAME")
    which.add_argument("--all", action="store_true", help="every reader")
    which.add_argument("--list", action="store_true", help="name the readers")
    parser.add_argument("--inputs", type=int, default=100_000, metavar="N", help="per reader")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--minutes", type=float, default=1e6, metavar="M", help="per reader")
    parser.add_argument("--folder", type=Path, default=Path("fuzz"), help="default: fuzz")
    options = parser.parse_args()
    if options.list:
        sys.stdout.write("\n".join(READERS) + "\n")
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    found = 0
    for name in READERS if options.all else options.reader:
        figures = search_for(options.folder, name, options.seed, options.inputs, options.minutes)
        found += figures["findings"]
        line = json.dumps(figures) + "\n"
        sys.stdout.write(line)
        sys.stdout.flush()
        with (options.folder / "figures.jsonl").open("a") as file:
            file.write(line)
    return int(found > 0)


if __name__ == "__main__":
    raise SystemExit(main())
