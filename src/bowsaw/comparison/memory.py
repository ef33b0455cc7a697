"""Peak resident memory of a piece of work, and how much memory a state may take."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
USUAL_LIMIT = 2 * 2**30


class PeakMemory:
    """Measures the most memory that the process held meanwhile.

    Linux alone can forget an earlier peak; elsewhere ``peak`` is None.

    Examples
    --------
    >>> with PeakMemory() as memory:
    ...     _ = bytearray(10)
    >>> memory.peak is None or memory.peak > 1_000_000
    True
    """

    def __init__(self) -> None:
        self.peak: int | None = None
        self._can = False

    def __enter__(self) -> PeakMemory:
        with suppress(OSError):
            _CLEAR.write_text("5")
            self._can = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._can:
            self.peak = _peak()


def _peak() -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


def memory_bytes() -> int | None:
    """Return the machine's memory, or the limit of the container where that is less.

    Examples
    --------
    >>> found = memory_bytes()
    >>> found is None or found > 0
    True
    """
    found: list[int] = []
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            found.append(int(Path(path).read_text()))
    return min(found) if found else None


def state_limit() -> int:
    """Return the most bytes that a state of soft codes may hold before it goes to disk.

    Examples
    --------
    >>> state_limit() >= USUAL_LIMIT
    True
    """
    memory = memory_bytes()
    return USUAL_LIMIT if memory is None else max(USUAL_LIMIT, 3 * memory // 5)
