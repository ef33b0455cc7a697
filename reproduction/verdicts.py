"""The claims of the paper, each with what a run's records say of it.

A verdict is made of the records alone: cells (``accuracy``, ``codebooks``)
and probes (``probed``).
Answers go by means over the splits; significance stands beside them (``paired``). What is not in
the records is not guessed: a claim is answered on the panels that are there, and says so, or it is
«not measured».
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from reproduction import accuracy, codebooks, probed
from reproduction.verdict import Verdict

__all__ = ["JUDGES", "Recorded", "Verdict", "verdicts"]


class Recorded(Protocol):
    """What verdicts need of a run: its cells and its probes."""

    @property
    def cells(self) -> Sequence[Mapping[str, Any]]:
        """Lines of ``cells.jsonl``."""

    @property
    def probes(self) -> Sequence[Mapping[str, Any]]:
        """Lines of ``probes.jsonl``."""


def _by_cells(judge: Callable[[accuracy.Cells], Verdict], run: Recorded) -> Verdict:
    return judge(run.cells)


def _by_probes(judge: Callable[[probed.Lines], Verdict], run: Recorded) -> Verdict:
    return judge(run.probes)


JUDGES: tuple[Callable[[Recorded], Verdict], ...] = (
    *(partial(_by_cells, claim.judge) for claim in accuracy.CLAIMS),
    partial(_by_cells, codebooks.larger_gain),
    partial(_by_cells, codebooks.neither_coding),
    partial(_by_probes, probed.few_iterations),
    partial(_by_probes, probed.error_falls),
    partial(_by_probes, probed.coding_dominates),
    partial(_by_probes, probed.brute_force),
)
"""What judges each claim, in the order in which verdicts are told."""


def verdicts(run: Recorded) -> list[Verdict]:
    """Return a verdict for each claim of the paper, in a fixed order.

    Parameters
    ----------
    run : Run
        The records, as ``read_run`` returns them.

    Returns
    -------
    list of Verdict

    Examples
    --------
    >>> from bowsaw.comparison.records import Run
    >>> found = verdicts(Run({}))
    >>> len(found), {verdict.answer for verdict in found}
    (10, {'not measured'})
    """
    return [judge(run) for judge in JUDGES]
