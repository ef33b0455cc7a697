"""Progress of long work: bars on a terminal, and scikit-learn's callbacks.

``Progress`` draws a bar with the remaining time on standard error when that is a terminal, and
nothing elsewhere. ``NO_COLOR`` gives plain text. What is printed meanwhile goes to
``shown_console``, above the bar.

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
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from bowsaw.formatting import format_seconds

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


_displays: list[Any] = []
"""The bar or live table of ``rich`` that is shown at the moment, if any."""


@contextmanager
def live_display(display: Any) -> Iterator[None]:
    """Show a bar or live table of ``rich`` inside the block; None shows nothing."""
    if display is None:
        yield
        return
    try:
        with defer_signals():
            display.start()
            _displays.append(display)
        yield
    finally:
        with defer_signals():
            _displays[:] = [other for other in _displays if other is not display]
            display.stop()


def shown_console() -> Any:
    """Return the console of what is shown, which prints above it; None where nothing is."""
    return _displays[-1].console if _displays else None


class Progress:
    """A bar on standard error; does nothing unless ``show`` and standard error is a terminal.

    A bar inside another is drawn below it. Without ``total`` it is a stage: a label that moves,
    with the time that it takes; a stage inside another bar is not drawn.
    """

    def __init__(self, label: str, total: int | None = None, show: bool = True) -> None:
        self._label, self._total = label, total
        self._drawn = show and sys.stderr is not None and sys.stderr.isatty()
        self._bars: Any = None
        self._shown = ExitStack()
        self._begin, self._before, self._done = time.monotonic(), 0, 0

    def __enter__(self) -> Progress:
        if not self._drawn or (_displays and self._total is None):
            return self
        is_inside = bool(_displays)
        if not is_inside:
            self._shown.enter_context(live_display(_new_bars()))
        if hasattr(_displays[-1], "add_task"):
            self._bars = bars = _displays[-1]
            fields = {"note": "", "left": self.seconds_left}
            self._task = bars.add_task(self._label, total=self._total, **fields)
            if is_inside:
                self._shown.callback(bars.remove_task, self._task)
        self._begin = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars = None
        self._shown.close()

    def begin_at(self, n_done: int) -> None:
        """Begin after steps that an earlier run has done."""
        self._before = n_done
        self.step(n_done)

    def step(self, n: int = 1, note: str | None = None) -> None:
        """Advance by ``n`` steps, and show ``note`` after the bar."""
        self._done += n
        self._last = time.monotonic()
        if self._bars is not None:
            fields: dict[str, Any] = {} if note is None else {"note": note}
            self._bars.update(self._task, advance=n, **fields)

    def seconds_left(self) -> float | None:
        """Estimate by the mean pace of this run; None in its first twentieth and at the end."""
        n_new, rest = self._done - self._before, (self._total or 0) - self._done
        if n_new <= 0 or rest <= 0 or 20 * n_new < n_new + rest:
            return None
        each = (self._last - self._begin) / n_new
        return max(each * rest - (time.monotonic() - self._last), 0.0)

    def track(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, one step each."""
        for item in items:
            yield item
            self.step()


def _new_bars() -> Any:
    """Return the columns that all bars share, so that they are aligned."""
    from rich import progress as bars
    from rich.console import Console
    from rich.text import Text

    class Count(bars.ProgressColumn):
        def render(self, task: Any) -> Text:
            total = "?" if task.total is None else f"{int(task.total):,}"
            known = task.total is not None or task.completed
            return Text(f"{int(task.completed):,}/{total}" if known else "", justify="right")

    class Left(bars.ProgressColumn):
        def render(self, task: Any) -> Text:
            seconds = task.fields["left"]()
            text = "" if seconds is None else f"{format_seconds(seconds)} left"
            return Text(text, justify="right")

    return bars.Progress(
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        Count(),
        bars.TimeElapsedColumn(),
        Left(),
        bars.TextColumn("{task.fields[note]}"),
        console=Console(stderr=True, color_system=color_system()),
        transient=True,
    )


_announcers: list[Callable[[], None]] = []


@contextmanager
def watch_compiling(announce: Callable[[], None]) -> Iterator[None]:
    """Call ``announce`` once in the block, when numba compiles a kernel that its cache lacks."""
    if "numba" not in sys.modules:
        yield
        return
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            announce_compiling()

        def on_end(self, event: Any) -> None:
            pass

    _announcers[:] = [announce]
    try:
        with event.install_listener("numba:compile", Listener()):
            yield
    finally:
        _announcers.clear()


def announce_compiling() -> None:
    """Announce that kernels are compiled here, or in a process that this one has started."""
    while _announcers:
        _announcers.pop()()


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
