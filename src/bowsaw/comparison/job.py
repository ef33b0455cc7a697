"""The job: everything that measuring needs, and how one group of cells is measured.

A *group* is one split of one panel: its cells share the most, so they are measured together, by one
process. A job can be handed to another process; see :mod:`~bowsaw.comparison.crew`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from bowsaw.comparison.bench import Bench, Chosen
from bowsaw.comparison.collection import Collection, Panel
from bowsaw.comparison.methods import RETRAINED
from bowsaw.comparison.plan import Plan
from bowsaw.comparison.records import Cell, Key


class Paints(Protocol):
    """Keeps what the page draws; ``drawing.painter.Painter`` does."""

    def cell(self, bench: Bench, panel: Panel, cell: Cell, chosen: Chosen) -> None:
        """Keep what is to be drawn of a cell, before the cell itself is written."""

    def panel(self, bench: Bench, panel: Panel, cells: Mapping[Key, Cell]) -> None:
        """Keep what is to be drawn of a panel whose cells of this split are all done."""


@dataclass
class Group:
    """One split of one panel: the cells to measure, and those that are there."""

    name: str
    split: int
    panel: Panel
    keys: list[Key]
    done: dict[Key, Cell] = field(default_factory=dict)


@dataclass
class Job:
    """What is to be measured, of what, and where it is kept."""

    folder: Path
    plan: Plan
    sets: Mapping[str, Collection]
    told: Mapping[str, Any]
    painter: Callable[[Path], Paints] | None = None

    def bench(self, name: str, split: int) -> Bench:
        """Return one split of a set."""
        return Bench(
            self.sets[name],
            split,
            self.plan.seed,
            self.folder / "work" / "codebooks",
            effort=self.plan.effort,
            **self.told,
        )

    def panel(self, coding: str, full_words: int) -> Panel:
        """Return a panel of the plan."""
        return Panel(cast(Literal["hard", "soft"], coding), full_words, self.plan.sharpness)

    def groups(self, cells: Mapping[Key, Cell]) -> Iterator[Group]:
        """Yield the groups that are not done, or may have something left to draw, in order."""
        for (name, split, coding, full_words), found in groupby(
            self.plan.cells(list(self.sets)), lambda key: key[:4]
        ):
            keys = list(found)
            missing = [key for key in keys if key not in cells]
            if missing or self.painter is not None:
                yield Group(name, split, self.panel(coding, full_words), missing)

    def begin(self, group: Group, cells: Mapping[Key, Cell]) -> list[Cell]:
        """Tell a group what is there by now; return the cells that need no measuring.

        K-means at a small size is the same in every panel of a set and coding.
        """
        where = (group.name, group.split, group.panel.coding, group.panel.full_words)
        twins = []
        for key in list(group.keys):
            if key[4] == RETRAINED:
                twin = self._twin(group, key, cells)
                if twin is not None:
                    group.keys.remove(key)
                    group.done[key] = twin
                    twins.append(twin)
        group.done.update({key: cell for key, cell in cells.items() if key[:4] == where})
        return twins

    def _twin(self, group: Group, key: Key, cells: Mapping[Key, Cell]) -> Cell | None:
        name, split, coding, _, method, size = key
        for full_words in self.plan.words:
            other = cells.get((name, split, coding, full_words, method, size))
            if other is not None:
                bench = self.bench(name, split)
                mark = bench.fingerprint_of(group.panel, method, size, self.plan.maps(method))
                return {**other, "full_words": group.panel.full_words, "fingerprint": mark}
        return None

    def measure(
        self, group: Group, painter: Paints | None, write: Callable[[Key, Cell, float], None]
    ) -> None:
        """Measure the cells of a group; each is handed to ``write`` with the seconds it took."""
        if not group.keys and painter is None:
            return
        bench = self.bench(group.name, group.split)
        for key in group.keys:
            begin = time.perf_counter()
            _, _, _, _, method, size = key
            cell, chosen = bench.cell(group.panel, method, size, self.plan.maps(method))
            if painter is not None:
                painter.cell(bench, group.panel, cell, chosen)
            write(key, cell, time.perf_counter() - begin)
            group.done[key] = cell
        if painter is not None:
            painter.panel(bench, group.panel, group.done)

    def made_painter(self) -> Paints | None:
        """Return the painter of the folder, where there is one."""
        return None if self.painter is None else self.painter(self.folder)


def in_order(cells: Mapping[Key, Cell], keys: Iterable[Key]) -> list[Cell]:
    """Return the cells of the plan in its order, and any others behind them."""
    wanted = [key for key in keys if key in cells]
    known = set(wanted)
    return [cells[key] for key in [*wanted, *(key for key in cells if key not in known)]]
