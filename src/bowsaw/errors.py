"""The exceptions of bowsaw and their exit codes.

Every message names the value, the limit and the remedy, in one line: "n_words must be between 1
and 812 (the codebook has 812 words); got 5000. Ask for fewer words." The command line prints that
line and exits with the ``exit_code`` of the class; a traceback is shown only with ``--debug``.

======================  =========  ==========================================================
class                   exit code  raised when
======================  =========  ==========================================================
``ParameterError``      2          a parameter is out of range or of the wrong type
``DataError``           3          data cannot be used: NaN, wrong shape, too few images
``ImageError``          3          one image file cannot be used; carries ``path``, ``reason``
``MismatchError``       4          two things do not belong together: codebook and descriptors
``StoreError``          5          a store is missing or damaged; an output cannot be written
``BusyError``           6          another process is writing the same output
``FormatError``         7          a file is not what its name says
``LeakError``           8          a codebook was made from images that it is tested on
``SpaceError``          9          the disk is full; finished work is kept
``ClusterError``        10         a Dask cluster cannot do the work: no scheduler, no workers
======================  =========  ==========================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from os import PathLike, fspath
from typing import Any, ClassVar


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a fit that had found something: ``so_far`` is what it would have returned."""

    def __init__(self, so_far: Any = None) -> None:
        super().__init__()
        self.so_far = so_far


class BowsawError(Exception):
    """Base class of all exceptions of bowsaw."""

    exit_code: ClassVar[int] = 1


class ParameterError(BowsawError, ValueError):
    """A parameter is out of range or of the wrong type."""

    exit_code: ClassVar[int] = 2


class DataError(BowsawError, ValueError):
    """Data cannot be used: NaN, a wrong shape, too few images."""

    exit_code: ClassVar[int] = 3


class ImageError(DataError):
    """One image file cannot be used.

    Parameters
    ----------
    path : path-like
        The file.
    reason : str
        Why, in a few words, without the path: ``"truncated"``, ``"empty file"``.
    remedy : str, optional
        What to do about it.
    """

    def __init__(self, path: str | PathLike[str], reason: str, remedy: str = "") -> None:
        self.path = fspath(path)
        self.reason = reason
        self.remedy = remedy
        super().__init__(f"{self.path}: {reason}." + (f" {remedy}" if remedy else ""))

    def __reduce__(self) -> tuple[type[ImageError], tuple[str, str, str]]:
        return (type(self), (self.path, self.reason, self.remedy))


class MismatchError(BowsawError, ValueError):
    """Two things do not belong together, such as a codebook and another descriptor's bags."""

    exit_code: ClassVar[int] = 4


class StoreError(BowsawError):
    """A store is missing, damaged or of another version, or an output cannot be written."""

    exit_code: ClassVar[int] = 5


class BusyError(StoreError):
    """Another process is writing the same output."""

    exit_code: ClassVar[int] = 6


class FormatError(BowsawError, ValueError):
    """A file is not what its name says, or is damaged."""

    exit_code: ClassVar[int] = 7


class LeakError(BowsawError, ValueError):
    """A codebook was made from images that it is tested on."""

    exit_code: ClassVar[int] = 8


class SpaceError(BowsawError, OSError):
    """The disk is full; finished work is kept and can be continued."""

    exit_code: ClassVar[int] = 9


class ClusterError(BowsawError):
    """A Dask cluster cannot do the work: no scheduler, no workers or other versions."""

    exit_code: ClassVar[int] = 10


def did_you_mean(text: object, known: Iterable[object]) -> str:
    """Return a question with the known name nearest to a text, or nothing.

    Examples
    --------
    >>> did_you_mean("refinment", ["annealing", "refinement"]), did_you_mean("x", ["hard", "soft"])
    ('. Did you mean refinement?', '')
    """
    near = get_close_matches(str(text), list(map(str, known)), 1)
    return f". Did you mean {near[0]}?" if near else ""
