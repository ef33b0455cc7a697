"""Every command that writes, and what it writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SPLIT = ("--split", "4/5/rest")
READERS = {"predict", "whatif", "inspect", "completion"}
"""The commands that write nothing."""
ELSEWHERE = {"split"}
"""Tested in tests/store: a small file of a store."""


class Given(NamedTuple):
    """What commands read."""

    images: Path
    store: Path
    book: Path
    model: Path
    run: Path


@dataclass(frozen=True)
class Command:
    """A command, its output, and options that make it other work.

    ``resumes`` says that an interrupted command leaves its finished part, ``copies`` that the run
    that is given must lie in the folder of the command, because the output is a file of it.
    """

    words: str
    output: str
    other: str = ""
    resumes: bool = True
    copies: bool = False

    @property
    def is_folder(self) -> bool:
        return "." not in self.output or self.output.endswith(".store")


CONVERTED = (".safetensors", ".npy", ".npz", ".yml", ".xml.gz", ".faiss", ".skops", ".mat")
_PRUNE = "prune BOOK STORE -o out.safetensors"
_COMPARE = "--words 6 --sizes 3 --methods coverage,random --splits 2 -o out"
_SOFT, _OTHER = "--coding soft", "--sharpness 20"
COMMANDS = {
    "shrink": Command(
        "shrink IMAGES --keep 3 --words 8 --method random --folds 2 -o out", "out", "--seed 1"
    ),
    "extract": Command("extract IMAGES SPLIT -o out.store", "out.store", "--patch-step 16"),
    "train": Command(
        "train STORE --words 12 --tol 0 --max-iter 8 -o out.safetensors",
        "out.safetensors",
        "--seed 1",
    ),
    "encode": Command("encode BOOK STORE --coding soft -o out.npz", "out.npz", "--sharpness 20"),
    "prune: annealing": Command(
        f"{_PRUNE} --method annealing --keep 4 --steps 300", "out.safetensors", "--score presence"
    ),
    "prune: refinement": Command(
        f"{_PRUNE} --keep 4 --steps 4 --folds 1", "out.safetensors", "--coding soft"
    ),
    "prune: elimination": Command(
        f"{_PRUNE} --method elimination --keep 4", "out.safetensors", "--score presence"
    ),
    "prune: --max-loss": Command(f"{_PRUNE} --max-loss 0.5", "out.safetensors", "--steps 3"),
    "prune: --max-bytes": Command(
        f"{_PRUNE} --method coverage --max-bytes 5k",
        "out.safetensors",
        "--coding soft",
        resumes=False,
    ),
    "fit": Command(
        "fit BOOK STORE -o out.safetensors",
        "out.safetensors",
        "--C 4",
        resumes=False,
    ),
    "evaluate": Command(f"evaluate STORE --words 6 --splits 2 {_SOFT} -o out", "out", _OTHER),
    "compare": Command(f"compare STORE {_COMPARE} {_SOFT}", "out", _OTHER),
    "compare: images": Command(f"compare IMAGES {_COMPARE} SPLIT", "out", "--seed 1"),
    "compare: two workers": Command(f"compare STORE {_COMPARE} {_SOFT} -j 2", "out", _OTHER),
    "report": Command("report RUN -o out.html", "out.html", resumes=False),
    "report: in place": Command("report run", "run/index.html", resumes=False, copies=True),
    **{
        f"convert: {suffix}": Command(f"convert BOOK out{suffix}", f"out{suffix}", resumes=False)
        for suffix in CONVERTED
    },
    **{
        f"export: {suffix}": Command(
            f"export BOOK --classifier MODEL -o out{suffix}", f"out{suffix}", resumes=False
        )
        for suffix in (".onnx", ".h", ".html")
    },
}
"""By name, "COMMAND" or "COMMAND: what is special"."""


def words_of(command: Command, given: Given) -> list[str]:
    """Return the words of a command line."""
    values = {
        "IMAGES": given.images,
        "STORE": given.store,
        "BOOK": given.book,
        "MODEL": given.model,
        "RUN": given.run,
    }
    words: list[str] = []
    for word in command.words.split():
        words += SPLIT if word == "SPLIT" else [str(values.get(word, word))]
    takes_jobs = words[0] not in ("report", "convert", "export") and "-j" not in words
    return [*words, *(["-j", "1"] if takes_jobs else [])]
