"""Plots in scikit-learn's display pattern; no other module imports matplotlib.

A class method makes a display and draws it. ``plot(ax=None)`` draws it again, into axes or a new
figure; ``ax_`` and ``figure_`` are where it is. Colours are those of matplotlib's current style.
``Run.plot_confusion`` uses scikit-learn's own display.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from bowsaw.codebook import Codebook
from bowsaw.errors import ParameterError
from bowsaw.evaluation.path import PruningPath, SizeEstimate
from bowsaw.glyphs import SIDE, sift_strokes
from bowsaw.validation import check_int


class PruningPathDisplay:
    """Accuracy against the number of words, with the full codebook as a dashed line.

    Parameters
    ----------
    estimates : sequence of SizeEstimate
        What ``PruningPath.estimate`` returns: the full codebook first.

    Attributes
    ----------
    errorbar_ : matplotlib ErrorbarContainer
        Accuracy and its 95 % interval per size.
    full_line_ : matplotlib Line2D
        Accuracy of the full codebook.

    Examples
    --------
    >>> import numpy as np, bowsaw as bs
    >>> bags, y = [np.eye(4) + i % 2 for i in range(8)], np.arange(8) % 2
    >>> path = bs.PruningPath(np.eye(4), sizes=[3, 2], cv=2, random_state=0).fit(bags, y)
    >>> display = bs.PruningPathDisplay.from_estimator(path)
    >>> display.errorbar_[0].get_xdata().tolist(), display.full_line_.get_label()
    ([4, 3, 2], 'all 4 words')
    """

    def __init__(self, *, estimates: Sequence[SizeEstimate]) -> None:
        self.estimates = estimates

    @classmethod
    def from_estimator(cls, path: PruningPath, *, ax: Any = None) -> Self:
        """Draw the estimates of a fitted path, which makes them at the first call."""
        return cls(estimates=path.estimate()).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw into these axes, or into those of a new figure."""
        self.ax_ = axes = _axes(ax)
        self.figure_ = axes.figure
        n_words, accuracy, _, margin, *_ = zip(*self.estimates, strict=True)
        name = "pruned, with 95 % interval"
        self.errorbar_ = axes.errorbar(n_words, accuracy, margin, fmt="o-", capsize=3, label=name)
        how = {"color": self.errorbar_[0].get_color(), "linestyle": "--"}
        self.full_line_ = axes.axhline(accuracy[0], label=f"all {n_words[0]} words", **how)
        ticks = n_words[:: math.ceil(len(n_words) / 8)]
        axes.set(xscale="log", xlabel="words", ylabel="accuracy (mean over classes)")
        axes.set_xticks(ticks, labels=map(str, ticks))
        axes.minorticks_off()
        axes.legend()
        return self


class CodebookDisplay:
    """The words of a codebook: SIFT as glyphs, other descriptors as grey tiles, row by row.

    Parameters
    ----------
    codebook : Codebook
        The words.

    Attributes
    ----------
    words_ : matplotlib PathCollection or AxesImage
        SIFT: a path per word, with a stroke per direction in four by four cells. Others: an image.

    Examples
    --------
    >>> import numpy as np, bowsaw as bs
    >>> bs.CodebookDisplay.from_codebook(bs.Codebook(np.eye(9)), n_words=4).ax_.get_title()
    '4 of 9 words'
    """

    def __init__(self, *, codebook: Codebook) -> None:
        self.codebook = codebook

    @classmethod
    def from_codebook(cls, codebook: Codebook, *, n_words: int = 100, ax: Any = None) -> Self:
        """Draw the first ``n_words`` words of a codebook."""
        return cls(codebook=codebook).plot(ax, n_words=n_words)

    def plot(self, ax: Any = None, *, n_words: int = 100) -> Self:
        """Draw into these axes, or into those of a new figure."""
        book = self.codebook
        words = book.unprojected_words[: check_int(n_words, "n_words", 1)] / np.float64(book.scale)
        self.ax_ = axes = _axes(ax)
        self.figure_ = axes.figure
        n_columns = math.ceil(math.sqrt(len(words)))
        side = SIDE if book.is_sift else math.ceil(math.sqrt(words.shape[1]))
        step = side + max(1, side // 3)
        width, height = step * n_columns, step * math.ceil(len(words) / n_columns)
        corners = [(step * (i % n_columns), step * (i // n_columns)) for i in range(len(words))]
        if book.is_sift:
            from matplotlib.collections import PathCollection
            from matplotlib.path import Path

            paths = [
                Path((lines + corner).reshape(-1, 2), [Path.MOVETO, Path.LINETO] * len(lines))
                for lines, corner in zip(sift_strokes(words), corners, strict=True)
            ]
            how = {"edgecolors": axes.xaxis.label.get_color(), "facecolors": "none"}
            self.words_ = axes.add_collection(PathCollection(paths, linewidths=0.8, **how))
            axes.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
        else:
            sheet = np.full((height, width), np.nan)
            for (x, y), word in zip(corners, words, strict=True):
                tile = np.append(word, np.full(side * side - len(word), np.nan))
                sheet[y : y + side, x : x + side] = tile.reshape(side, side)
            self.words_ = axes.imshow(sheet, cmap="gray", interpolation="none")
        axes.set_axis_off()
        total = f" of {book.n_words}" if len(words) < book.n_words else ""
        axes.set_title(f"{len(words)}{total} words")
        return self


def _axes(ax: Any) -> Any:
    """Return the axes to draw into; raise where matplotlib is missing."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ParameterError(
            f"plots need the package matplotlib, which cannot be imported ({error}). Install it: "
            "pip install 'bowsaw[plots]'."
        ) from error
    return plt.subplots(layout="constrained")[1] if ax is None else ax
