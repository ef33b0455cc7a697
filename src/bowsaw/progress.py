"""Progress that is shown to a person and silent to a pipe.

``Progress`` is the one way in which long work tells how far it is. On a terminal it draws a bar
with the time left on standard error; elsewhere it says nothing. Whoever sets ``NO_COLOR`` gets
plain text, here and wherever ``colours`` is asked; what a terminal cannot do, ``rich`` leaves out.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Literal, TypeVar

T = TypeVar("T")


def colours() -> Literal["auto"] | None:
    """Return which colours a console of ``rich`` may use: none where ``NO_COLOR`` is set.

    By itself ``rich`` would then still write bold and dim text, which takes the same escape codes.
    """
    return None if os.environ.get("NO_COLOR") else "auto"


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let Ctrl-C and its like wait until what must not be torn is done, which should be soon.

    A bar that is begun or ended by half leaves the terminal without a cursor, and standard error
    in the hands of somebody who has gone.
    """
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        before = {number: handler for number, handler in found.items() if callable(handler)}
    came: list[tuple[int, Any]] = []
    try:
        for number in before:
            signal.signal(number, lambda *what: came.append(what))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number, frame in came:
            before[number](number, frame)


@contextmanager
def drawn(display: Any) -> Iterator[None]:
    """Show a bar or a live table of ``rich`` meanwhile; None shows nothing."""
    if display is None:
        yield
        return
    try:
        with undisturbed():
            display.start()
        yield
    finally:
        with undisturbed():
            display.stop()


class Progress:
    """A bar on standard error; does nothing unless ``show`` and standard error is a terminal.

    Parameters
    ----------
    label : str
        What is being done: ``"coding"``.
    total : int or None
        How many steps there are; None when unknown.
    show : bool
        False keeps quiet even on a terminal.

    Examples
    --------
    >>> with Progress("counting", 3, show=False) as bar:
    ...     for _ in range(3):
    ...         bar.step()
    """

    def __init__(self, label: str, total: int | None = None, show: bool = True) -> None:
        self._bar = None
        self._shown = ExitStack()
        if show and sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )
            from rich.progress import Progress as RichProgress

            self._bar = RichProgress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
                console=Console(stderr=True, color_system=colours()),
                transient=True,
            )
            self._task = self._bar.add_task(label, total=total, note="")

    def __enter__(self) -> Progress:
        self._shown.enter_context(drawn(self._bar))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._shown.close()

    def step(self, n: int = 1, note: str | None = None) -> None:
        """Move ``n`` steps on, and show ``note`` behind the bar."""
        if self._bar is not None:
            if note is None:
                self._bar.update(self._task, advance=n)
            else:
                self._bar.update(self._task, advance=n, note=note)

    def track(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, one step each."""
        for item in items:
            yield item
            self.step()
