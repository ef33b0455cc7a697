"""Progress of long work: bars on a terminal, and scikit-learn's callbacks.

``Progress`` draws a bar with the remaining time on standard error when that is a terminal, and
nothing elsewhere. ``NO_COLOR`` gives plain text.

Callbacks. From scikit-learn 1.9 on, ``estimator.set_callbacks(ProgressBar())`` follows a fit and is
notified when its tasks begin and end. This module is the only one that depends on whether the
installed version has callbacks; without them a ``Task`` does nothing. Our own bars stay hidden
while callbacks are set (``Task.observed``), and a callback that asks to stop (``Task.stopped``) is
obeyed after a complete step.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar

__all__ = [
    "CallbackSupport",
    "Progress",
    "Task",
    "color_system",
    "defer_signals",
    "fit_task",
    "live_display",
    "with_callbacks",
]

T = TypeVar("T")

if TYPE_CHECKING:

    class CallbackSupport:
        """scikit-learn's mixin of estimators with callbacks; empty where it has none."""

    def with_callbacks(method: Any) -> Any:
        """Decorate a ``fit`` that notifies callbacks; unchanged where there are none."""


def __getattr__(name: str) -> Any:
    # Importing scikit-learn takes half a second, and the command line imports this module.
    if name not in ("CallbackSupport", "with_callbacks"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        callback = import_module("sklearn.callback")
    except ImportError:
        return type(name, (), {}) if name == "CallbackSupport" else lambda method: method
    return callback.CallbackSupportMixin if name == "CallbackSupport" else callback.with_callbacks


def color_system() -> Literal["auto"] | None:
    """Return the colours that a ``rich`` console may use: none where ``NO_COLOR`` is set.

    By itself ``rich`` would still write bold and dim text, which needs the same escape codes.
    """
    return None if os.environ.get("NO_COLOR") else "auto"


@contextmanager
def defer_signals() -> Iterator[None]:
    """Deliver SIGINT and SIGTERM after the block instead of inside it; keep the block short.

    A bar that is interrupted while it starts or stops leaves the terminal without a cursor.
    """
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        before = {number: handler for number, handler in found.items() if callable(handler)}
    received: list[tuple[int, Any]] = []
    try:
        for number in before:
            signal.signal(number, lambda *what: received.append(what))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number, frame in received:
            before[number](number, frame)


@contextmanager
def live_display(display: Any) -> Iterator[None]:
    """Show a bar or live table of ``rich`` inside the block; None shows nothing."""
    if display is None:
        yield
        return
    try:
        with defer_signals():
            display.start()
        yield
    finally:
        with defer_signals():
            display.stop()


class Progress:
    """A bar on standard error; does nothing unless ``show`` and standard error is a terminal."""

    def __init__(self, label: str, total: int | None = None, show: bool = True) -> None:
        self._bar = None
        self._shown = ExitStack()
        if show and sys.stderr is not None and sys.stderr.isatty():
            from rich import progress as bars
            from rich.console import Console

            self._bar = bars.Progress(
                bars.TextColumn("{task.description}"),
                bars.BarColumn(),
                bars.MofNCompleteColumn(),
                bars.TimeElapsedColumn(),
                bars.TimeRemainingColumn(),
                bars.TextColumn("{task.fields[note]}"),
                console=Console(stderr=True, color_system=color_system()),
                transient=True,
            )
            self._task = self._bar.add_task(label, total=total, note="")

    def __enter__(self) -> Progress:
        self._shown.enter_context(live_display(self._bar))
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.close()

    def step(self, n: int = 1, note: str | None = None) -> None:
        """Advance by ``n`` steps, and show ``note`` after the bar."""
        if self._bar is not None:
            fields: dict[str, Any] = {} if note is None else {"note": note}
            self._bar.update(self._task, advance=n, **fields)

    def track(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, one step each."""
        for item in items:
            yield item
            self.step()


class Task:
    """A task of a fit; without arguments, one that notifies no callback."""

    def __init__(self, estimator: Any = None, context: Any = None, **data: Any) -> None:
        self._estimator = estimator
        self._context = context
        self._data = data
        self.stopped = False

    @property
    def observed(self) -> bool:
        """Whether callbacks are set, so that our own bars should stay hidden."""
        return self._context is not None and bool(getattr(self._estimator, "_skl_callbacks", ()))

    @contextmanager
    def part(
        self, name: str, n_parts: int = 0, fitted: Callable[[], dict[str, Any]] | None = None
    ) -> Iterator[Task]:
        """Notify callbacks that a part of the task begins and, after the block, ends."""
        if not self.observed:
            yield _SILENT
            return
        context = self._context.subcontext(task_name=name, max_subtasks=n_parts)
        context.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        yield Task(self._estimator, context, **self._data)
        self.stopped |= bool(
            context.call_on_fit_task_end(
                estimator=self._estimator, reconstruction_attributes=fitted, **self._data
            )
        )

    @contextmanager
    def delegate(self, name: str, estimator: Any) -> Iterator[None]:
        """Let callbacks follow the fit of another estimator in the block, as a part of this."""
        if self._context is None:
            yield
            return
        context = self._context.subcontext(task_name=name)
        with context.propagate_callback_context(estimator):
            context.call_on_fit_task_begin(estimator=self._estimator, **self._data)
            yield
            context.call_on_fit_task_end(estimator=self._estimator, **self._data)


_SILENT = Task()


@contextmanager
def fit_task(estimator: Any, n_parts: int = 0, **data: Any) -> Iterator[Task]:
    """Make the task of a fit of at most ``n_parts`` parts; for a method ``with_callbacks``."""
    if not hasattr(estimator, "_init_callback_context"):
        yield Task()
        return
    context = estimator._init_callback_context(max_subtasks=n_parts)
    context.call_on_fit_task_begin(estimator=estimator, **data)
    yield Task(estimator, context, **data)
    context.call_on_fit_task_end(estimator=estimator, reconstruction_attributes=dict, **data)
