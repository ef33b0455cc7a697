"""A coverage-guided search for inputs that a reader cannot handle.

Input number ``i`` is drawn from a generator seeded by ``(seed, i)`` and from the *corpus*: the seed
files, and every earlier input with new coverage. So a run is a function of its seed, the readers
and the code, and an interrupted one continues as if it had not been interrupted.

Coverage is the set of pairs of lines of bowsaw's own files that were executed one after the other
and, because native parsers cannot be traced, the text of the refusal without its numbers. Not
atheris: it has wheels for few systems, and its loop never returns (no resuming, no counts).
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

from tests.fuzz.mutations import LONGEST, Mutation, splice

import bowsaw
from bowsaw.errors import BowsawError

SOURCES = str(Path(bowsaw.__file__).parent)
MOST_REFUSALS = 60
"""Refusals that count as coverage; a message that quotes the file is never the same twice."""
MOST_CALLS = 100
"""Calls of one function that are traced per input."""


class Hang(BaseException):
    """One input has taken too long; no reader may catch it."""


@dataclass(frozen=True)
class Reader:
    """Something that reads files of others.

    ``seeds`` returns valid files and ones that are wrong in an interesting way. ``read`` takes an
    input and a folder to write in; it returns what was read, or None for a refusal without an
    exception, and may raise ``refusals``. ``check`` raises AssertionError where what was read
    cannot be what the file says. ``spliced`` allows two inputs to be joined to a third.
    """

    name: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[bytes, Path], Any]
    mutate: Mutation
    refusals: tuple[type[BaseException], ...] = (BowsawError,)
    check: Callable[[bytes, Any, Path], None] | None = None
    spliced: bool = True


@dataclass(frozen=True)
class Finding:
    """An input that a reader could not handle."""

    reader: str
    kind: str
    detail: str
    data: bytes
    index: int = -1


class Watch:
    """The pairs of lines of bowsaw that were executed since ``pairs`` was last cleared."""

    def __init__(self) -> None:
        self._ours: dict[str, bool] = {}
        self._numbers: dict[int, int] = {}
        self._codes: list[CodeType] = []
        self.pairs: set[tuple[int, int, int]] = set()
        self._calls: list[int] = []

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        # Called for every function of every library. A code object is known by its address: its
        # hash is computed from all of its content, each time.
        code = frame.f_code
        ours = self._ours.get(code.co_filename)
        if ours is None:
            ours = self._ours[code.co_filename] = code.co_filename.startswith(SOURCES)
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
        earlier = sys.gettrace()
        self._calls = [0] * len(self._codes)
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(earlier)


def attempt(reader: Reader, data: bytes, folder: Path, index: int = -1) -> str | Finding:
    """Give a reader an input; return ``accepted``, the text of the refusal, or a finding."""

    def found(kind: str, error: BaseException) -> Finding:
        return Finding(reader.name, kind, _detail(error), data, index)

    tracer = sys.gettrace()
    try:
        value = reader.read(data, folder)
        if value is None:
            return "refused"
        # Only reading is traced.
        sys.settrace(None)
        if reader.check is not None:
            reader.check(data, value, folder)
    except reader.refusals as error:
        if _out_of_memory(error):
            return found("memory", error)
        if not str(error).strip() or "\n" in str(error).strip():
            return found("message of no or several lines", error)
        return str(error)
    except Hang as error:
        return found("hang", error)
    except AssertionError as error:
        return found("wrong read", error)
    except Exception as error:
        return found("exception", error)
    finally:
        # A tool that measures coverage goes on with the next test.
        sys.settrace(tracer)
    return "accepted"


def _out_of_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _detail(error: BaseException) -> str:
    trace, where = error.__traceback__, ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(SOURCES):
            where = f" at {Path(name).relative_to(SOURCES).as_posix()}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__}: {str(error)[:300]}{where}"


class Search:
    """The loop over the inputs of a reader; ``folder`` is for the reader to write in."""

    def __init__(self, reader: Reader, seed: int, folder: Path) -> None:
        self.reader = reader
        self.seed = seed
        self.counts = Counter[str]()
        self.findings: list[Finding] = []
        self.corpus: list[bytes] = []
        self.accepted: list[int] = []
        self.seen: set[Any] = set()
        self._folder = folder
        self._watch = Watch()
        self._refusals: set[str] = set()
        self.begin(reader.seeds())

    def begin(self, inputs: list[bytes]) -> None:
        """Fill the corpus; twice, because the imports of a first call are not new coverage."""
        for _ in range(2):
            self.seen.clear()
            self.corpus.clear()
            self.accepted.clear()
            for data in inputs:
                found = self._try(data, -1)
                if found == "accepted":
                    self.accepted.append(len(self.corpus))
                if isinstance(found, Finding):
                    self.findings.append(found)
                self._is_new(found)
                self.corpus.append(data)
        self.n_begun = len(self.seen)

    def draw(self, index: int) -> bytes:
        """Return input number ``index``."""
        rng = Random(self.seed << 40 | index)
        size = len(self.corpus)
        what = rng.random()
        if what < 0.5 and self.accepted:
            # An accepted one, so that the next change is the only error in it.
            data = self.corpus[rng.choice(self.accepted)]
        else:
            # Or one of the newest quarter: what was reached last is least explored.
            data = self.corpus[rng.randrange(size - size // 4 - 1 if what < 0.8 else 0, size)]
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
            data = self.reader.mutate(data, rng)[: 8 * LONGEST]
        if self.reader.spliced and rng.random() < 0.03:
            data = splice(data, rng.choice(self.corpus), rng)
        return data[:LONGEST] if self.reader.spliced else data

    def step(self, data: bytes, index: int) -> None:
        found = self._try(data, index)
        is_new = self._is_new(found)
        if isinstance(found, Finding):
            self.findings.append(found)
            return
        self.counts["accepted" if found == "accepted" else "refused"] += 1
        if is_new:
            if found == "accepted":
                self.accepted.append(len(self.corpus))
            self.corpus.append(data)

    def _try(self, data: bytes, index: int) -> str | Finding:
        self._watch.pairs.clear()
        with self._watch.watching():
            return attempt(self.reader, data, self._folder, index)

    def _is_new(self, found: str | Finding) -> bool:
        """Record the coverage of the last input, and return whether some of it was new."""
        new = self._watch.pairs - self.seen
        self.seen |= new
        text = re.sub(r"'.*?'|\d+|\(.*\)", "#", found)[-80:] if isinstance(found, str) else ""
        if text in self._refusals or len(self._refusals) >= MOST_REFUSALS:
            return bool(new)
        self._refusals.add(text)
        return True
