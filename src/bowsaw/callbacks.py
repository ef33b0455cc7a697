"""What scikit-learn's callbacks hear of a fit, where the installed version has callbacks.

From version 1.9 on, ``estimator.set_callbacks(ProgressBar())`` follows a fit: callbacks are told
when its *tasks* begin and end, and a task may have parts. This module is the one place that knows
whether the installed version can do that. Where it cannot, ``CallbackSupport`` is empty, a ``Task``
tells nobody, and fits are the same.

Two rules. Our own bars keep quiet while callbacks listen (``Task.heard``), so that nothing is drawn
twice. And a callback that asks to stop (``Task.stopped``) is obeyed after a whole step.

**Cost**: some microseconds a step while nobody listens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks
except ImportError:

    class CallbackSupport:  # type: ignore[no-redef]
        """Nothing: the installed scikit-learn has no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is: the installed scikit-learn has no callbacks."""
        return method


__all__ = ["CallbackSupport", "Task", "fit_task", "with_callbacks"]


class Task:
    """A task of a fit; without arguments, one that tells nobody.

    Parameters
    ----------
    estimator : estimator, optional
        Whose fit it is.
    context : sklearn.callback.CallbackContext, optional
        Where the task stands in the tree of all tasks.
    **data
        ``X`` and ``y``, for the callbacks that ask for them.

    Attributes
    ----------
    stopped : bool
        Whether a callback has asked, at the end of a part, that no other begin.

    Examples
    --------
    >>> task = Task()
    >>> with task.part("step"):
    ...     pass
    >>> task.heard, task.stopped
    (False, False)
    """

    def __init__(self, estimator: Any = None, context: Any = None, **data: Any) -> None:
        self._estimator = estimator
        self._context = context
        self._data = data
        self.stopped = False

    @property
    def heard(self) -> bool:
        """Whether callbacks listen, so that bars of our own should keep quiet."""
        return self._context is not None and bool(getattr(self._estimator, "_skl_callbacks", ()))

    @contextmanager
    def part(
        self, name: str, n_parts: int = 0, fitted: Callable[[], dict[str, Any]] | None = None
    ) -> Iterator[Task]:
        """Tell that a part begins, and at the end of the block that it is done.

        Parameters
        ----------
        name : str
            What it is: ``"round"``.
        n_parts : int, default=0
            How many parts it has itself, at most.
        fitted : callable, optional
            Returns the fitted attributes that the estimator would have if it ended here; called
            only for callbacks that ask.
        """
        if not self.heard:
            yield _NOBODY
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
    def handed(self, name: str, estimator: Any) -> Iterator[None]:
        """Let callbacks follow the fit of another estimator in the block, as a part of this one."""
        if self._context is None:
            yield
            return
        context = self._context.subcontext(task_name=name)
        with context.propagate_callback_context(estimator):
            context.call_on_fit_task_begin(estimator=self._estimator, **self._data)
            yield
            context.call_on_fit_task_end(estimator=self._estimator, **self._data)


_NOBODY = Task()


@contextmanager
def fit_task(estimator: Any, n_parts: int = 0, **data: Any) -> Iterator[Task]:
    """Make the task of a whole fit, of at most ``n_parts`` parts; for a method ``with_callbacks``.

    Parameters
    ----------
    estimator : estimator
        Whose fit it is.
    n_parts : int, default=0
        How many parts it has, at most.
    **data
        ``X`` and ``y``.
    """
    if not hasattr(estimator, "_init_callback_context"):
        yield Task()
        return
    context = estimator._init_callback_context(max_subtasks=n_parts)
    context.call_on_fit_task_begin(estimator=estimator, **data)
    yield Task(estimator, context, **data)
    context.call_on_fit_task_end(estimator=estimator, reconstruction_attributes=dict, **data)
