"""A coverage-guided search for inputs that a reader should not be able to stand.

Input number ``i`` is drawn from a generator that is seeded by ``(seed, i)`` and from the *corpus*:
the seed files, and every earlier input that went where none before it had gone. So a run is a
function of its seed, the readers and the code, and one that was interrupted goes on as if it had
not been.

*Where it went*: pairs of lines of bowsaw's own files that were executed one after the other,
watched by ``sys.settrace``; and, because native parsers below cannot be watched, the text of the
refusal without its numbers.

Why not atheris, which does the same on libFuzzer: it has wheels for Linux and some Pythons only,
and its loop never returns (no resuming, no counts of one's own, nothing to call from a test). It
would save most of the cost of watching, which is a third to two thirds of the time here; but ours
runs wherever the tests run. Of readers that take long, not every input is watched.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

from tests.fuzz.mutations import LONGEST, Mutation, splice

import bowsaw
from bowsaw.errors import BowsawError

SOURCES = str(Path(bowsaw.__file__).parent)
MOST_REFUSALS = 60
"""Refusals that are told apart; a message that quotes the file would never be the same twice."""


MOST_CALLS = 100
"""Calls of one function that are watched in one input; the next would go the same ways."""


class Hang(BaseException):
    """One input has taken too long; no reader may catch it."""


@dataclass(frozen=True)
class Reader:
    """Something that reads what others wrote.

    Parameters
    ----------
    name : str
        What it is called in figures and files.
    seeds : callable
        Returns files that are right, and ones that are wrong in an interesting way.
    read : callable
        Takes an input and a folder to write in; returns what was read, or None where the reader's
        way to refuse is to go on without.
    mutate : Mutation
        Makes another input of one.
    refusals : tuple of exception classes
        What the reader may raise.
    check : callable
        Takes the input, what was read and the folder; raises AssertionError where what was read
        cannot be what the file says.
    spliced : bool
        Whether two inputs joined may make a third.
    watched : int
        Every how manieth input is watched: more than 1 where an input takes long, since a watched
        one takes three times as long.
    """

    name: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[bytes, Path], Any]
    mutate: Mutation
    refusals: tuple[type[BaseException], ...] = (BowsawError,)
    check: Callable[[bytes, Any, Path], None] | None = None
    spliced: bool = True
    watched: int = 1


@dataclass(frozen=True)
class Finding:
    """An input that a reader could not stand."""

    reader: str
    kind: str
    detail: str
    data: bytes
    index: int = -1


@dataclass
class Tally:
    """What a run has come to."""

    done: int = 0
    accepted: int = 0
    refused: int = 0
    findings: list[Finding] = field(default_factory=list)


class Watch:
    """Which pairs of lines of bowsaw were executed since it was last asked."""

    def __init__(self) -> None:
        self._ours: dict[str, bool] = {}
        self._numbers: dict[int, int] = {}
        self._codes: list[CodeType] = []
        self.pairs: set[tuple[int, int, int]] = set()
        self._calls: list[int] = []

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        # Called for every function of every library. A code object is known by its address, for
        # its hash is computed from all that it holds, each time.
        code = frame.f_code
        file = code.co_filename
        ours = self._ours.get(file)
        if ours is None:
            ours = self._ours[file] = file.startswith(SOURCES)
        if not ours:
            return None
        number = self._numbers.get(id(code))
        if number is None:
            number = self._numbers[id(code)] = len(self._codes)
            # Held, so that its address stays its own.
            self._codes.append(code)
            self._calls.append(0)
        if self._calls[number] >= MOST_CALLS:
            return None
        self._calls[number] += 1
        add, before = self.pairs.add, 0

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal before
            if event == "line":
                add((number, before, frame.f_lineno))
                before = frame.f_lineno
            return line

        return line

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch this thread."""
        earlier = sys.gettrace()
        self._calls = [0] * len(self._codes)
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(earlier)


def attempt(reader: Reader, data: bytes, folder: Path, index: int = -1) -> str | Finding:
    """Let a reader have an input; return ``accepted``, what it refused with, or a finding."""
    try:
        value = reader.read(data, folder)
        if value is None:
            return "refused"
        # Only reading is watched.
        sys.settrace(None)
        if reader.check is not None:
            reader.check(data, value, folder)
    except reader.refusals as error:
        if _out_of_memory(error):
            return Finding(reader.name, "memory", _told(error), data, index)
        if not str(error).strip() or "\n" in str(error).strip():
            return Finding(reader.name, "message of no or several lines", _told(error), data, index)
        return str(error)
    except Hang as error:
        return Finding(reader.name, "hang", _told(error), data, index)
    except AssertionError as error:
        return Finding(reader.name, "wrong read", _told(error), data, index)
    except Exception as error:
        return Finding(reader.name, "exception", _told(error), data, index)
    return "accepted"


def _out_of_memory(error: BaseException | None) -> bool:
    """Say whether a refusal began as an allocation that was too large."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _told(error: BaseException) -> str:
    trace, places = error.__traceback__, []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(SOURCES):
            name = Path(trace.tb_frame.f_code.co_filename).relative_to(SOURCES).as_posix()
            places.append(f"{name}:{trace.tb_lineno}")
        trace = trace.tb_next
    where = f" at {places[-1]}" if places else ""
    return f"{type(error).__name__}: {str(error)[:300]}{where}"


class Search:
    """The loop over inputs.

    Parameters
    ----------
    reader : Reader
        Whom to try.
    seed : int
        Decides everything.
    folder : Path
        A place for the reader to write in.
    """

    def __init__(self, reader: Reader, seed: int, folder: Path) -> None:
        self.reader = reader
        self.seed = seed
        self.tally = Tally()
        self.corpus: list[bytes] = []
        self.accepted: list[int] = []
        self.seen: set[Any] = set()
        self._folder = folder
        self._watch = Watch()
        self._refusals: set[str] = set()
        self.begin(reader.seeds())

    def begin(self, inputs: list[bytes]) -> None:
        """Take these into the corpus; twice, since what a first call imports is no news."""
        for _ in range(2):
            self.seen.clear()
            self.corpus.clear()
            self.accepted.clear()
            for data in inputs:
                found = self._try(data, -1)
                if found == "accepted":
                    self.accepted.append(len(self.corpus))
                if isinstance(found, Finding):
                    self.tally.findings.append(found)
                self._news(found)
                self.corpus.append(data)
        self.n_begun = len(self.seen)

    def draw(self, index: int) -> bytes:
        """Return input number ``index``."""
        rng = Random(self.seed << 40 | index)
        size = len(self.corpus)
        what = rng.random()
        if what < 0.5 and self.accepted:
            # What was accepted, so that the change to come is the only thing wrong.
            data = self.corpus[rng.choice(self.accepted)]
        else:
            # Or one of the youngest quarter: what was reached last is least explored.
            data = self.corpus[rng.randrange(size - size // 4 - 1 if what < 0.8 else 0, size)]
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
            data = self.reader.mutate(data, rng)[: 8 * LONGEST]
        if self.reader.spliced and rng.random() < 0.03:
            data = splice(data, rng.choice(self.corpus), rng)
        return data[:LONGEST] if self.reader.spliced else data

    def step(self, data: bytes, index: int) -> None:
        """Try one input."""
        found = self._try(data, index)
        tally = self.tally
        tally.done += 1
        if isinstance(found, Finding):
            tally.findings.append(found)
        elif found == "accepted":
            tally.accepted += 1
        else:
            tally.refused += 1
        if self._news(found) and not isinstance(found, Finding):
            if found == "accepted":
                self.accepted.append(len(self.corpus))
            self.corpus.append(data)

    def _try(self, data: bytes, index: int) -> str | Finding:
        self._watch.pairs.clear()
        if index >= 0 and index % self.reader.watched:
            return attempt(self.reader, data, self._folder, index)
        with self._watch.watching():
            return attempt(self.reader, data, self._folder, index)

    def _news(self, found: str | Finding) -> bool:
        """Remember where the last input went, and say whether some of it was new."""
        new = self.pairs - self.seen
        self.seen |= new
        said = re.sub(r"'.*?'|\d+|\(.*\)", "#", found)[-80:] if isinstance(found, str) else ""
        if said in self._refusals or len(self._refusals) >= MOST_REFUSALS:
            return bool(new)
        self._refusals.add(said)
        return True

    @property
    def pairs(self) -> set[tuple[int, int, int]]:
        """Pairs of lines that the last input went, if it was watched."""
        return self._watch.pairs

    @property
    def n_edges(self) -> int:
        """Pairs of lines that inputs reached and the seed files had not."""
        return len(self.seen) - self.n_begun
