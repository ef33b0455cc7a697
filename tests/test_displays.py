"""What is drawn: the lines, bars, strokes, tiles and labels, not the pixels."""

import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from tests.report.made_run import made_run

import bowsaw as bs
from bowsaw.errors import ParameterError
from bowsaw.evaluation.path import SizeEstimate

ESTIMATES = (
    SizeEstimate(100, 0.70, 0.02, 0.05, 0.00, 0.000, 400),
    SizeEstimate(50, 0.71, 0.02, 0.06, -0.01, 0.004, 200),
    SizeEstimate(20, 0.66, 0.02, 0.07, 0.04, 0.010, 80),
)
SIFT = {"description": {"name": "dense-sift"}, "scale": 512}


@pytest.fixture(autouse=True)
def _headless():
    with mpl.rc_context({"backend": "Agg"}):
        yield
        plt.close("all")


@pytest.fixture
def run(tmp_path):
    return bs.read_run(made_run(tmp_path))


def test_a_path_is_accuracy_with_its_interval_against_words_on_a_logarithmic_axis():
    shown = bs.PruningPathDisplay(estimates=ESTIMATES).plot()
    line, caps, (bars,) = shown.errorbar_
    assert line.get_xydata().tolist() == [[100, 0.70], [50, 0.71], [20, 0.66]]
    ends = [segment.tolist() for segment in bars.get_segments()]
    expected = [[[100, 0.65], [100, 0.75]], [[50, 0.65], [50, 0.77]], [[20, 0.59], [20, 0.73]]]
    assert np.allclose(ends, expected)
    assert len(caps) == 2
    assert list(shown.full_line_.get_ydata()) == [0.70, 0.70]
    assert shown.full_line_.get_linestyle() == "--"
    axes = shown.ax_
    assert axes.get_xscale() == "log"
    assert [(tick.get_text()) for tick in axes.get_xticklabels()] == ["100", "50", "20"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("words", "accuracy (mean over classes)")
    legend = {text.get_text() for text in axes.get_legend().get_texts()}
    assert legend == {"pruned, with 95 % interval", "all 100 words"}
    assert shown.figure_ is axes.figure


def test_many_sizes_have_few_ticks():
    many = [ESTIMATES[0]._replace(n_words=n) for n in range(100, 70, -1)]
    ticks = bs.PruningPathDisplay(estimates=many).plot().ax_.get_xticks()
    assert len(ticks) <= 8
    assert ticks[0] == 100


def test_displays_draw_into_given_axes_and_again(run):
    _, (first, second, third, fourth) = plt.subplots(1, 4)
    shown = bs.PruningPathDisplay(estimates=ESTIMATES).plot(first)
    assert shown.ax_ is first
    assert shown.plot(second) is shown
    assert shown.ax_ is second
    book = bs.Codebook(np.eye(4))
    assert bs.CodebookDisplay.from_codebook(book, ax=third).ax_ is third
    where = {"coding": "soft", "method": "full"}
    assert run.plot_confusion(ax=fourth, **where).ax_ is fourth
    assert len(plt.get_fignums()) == 1


def test_words_of_sift_are_strokes_in_their_cells():
    words = np.zeros((3, 128), dtype=np.float32)
    words[0, 0] = 255  # the first cell, to the right, as long as strokes are
    words[1, 8 * 6 + 2] = 255 / 16  # 12 / 8 units in the second row, third cell, down
    words[1, 0] = 5  # too short to be drawn
    shown = bs.CodebookDisplay.from_codebook(bs.Codebook(words, **SIFT))
    first, second, blank = (path.vertices for path in shown.words_.get_paths())
    step = 48 + 16
    assert np.allclose(first, [[6, 6], [14, 6]])
    assert np.allclose(second, [[step + 30, 18], [step + 30, 19.5]])
    assert len(blank) == 0
    shown.figure_.canvas.draw()
    assert shown.ax_.yaxis_inverted()
    assert shown.ax_.get_title() == "3 words"
    with mpl.rc_context({"axes.labelcolor": "white"}):
        shown = bs.CodebookDisplay.from_codebook(bs.Codebook(words, **SIFT))
        assert mpl.colors.to_hex(shown.words_.get_edgecolor()[0]) == "#ffffff"


def test_other_words_are_tiles_in_the_order_of_the_codebook():
    words = np.arange(25.0).reshape(5, 5)
    shown = bs.CodebookDisplay.from_codebook(bs.Codebook(words, scale=2), n_words=3)
    sheet = np.ma.filled(shown.words_.get_array(), np.nan)
    blank = np.nan
    first = [[0, 0.5, 1], [1.5, 2, blank], [blank] * 3]
    assert np.array_equal(sheet[:3, :3], first, equal_nan=True)
    assert np.array_equal(sheet[0, 4:7], [2.5, 3, 3.5])
    assert np.array_equal(sheet[4, :3], [5, 5.5, 6])
    assert np.isnan(sheet[4:, 4:]).all()
    assert shown.ax_.get_title() == "3 of 5 words"
    with pytest.raises(ParameterError, match="n_words"):
        bs.CodebookDisplay.from_codebook(bs.Codebook(words), n_words=0)


def test_a_confusion_matrix_is_of_one_method_at_one_size(run):
    where = {"coding": "hard", "method": "refinement", "size": 20}
    shown = run.plot_confusion(**where)
    assert shown.confusion_matrix.tolist() == run.confusion(**where).tolist()
    drawn = [[int(text.get_text()) for text in row] for row in shown.text_]
    assert drawn == run.confusion(**where).tolist()
    classes = ["beach", "city", "forest", "indoor"]
    assert [label.get_text() for label in shown.ax_.get_xticklabels()] == classes
    with pytest.raises(ParameterError, match="one set, coding, full_words, method and size"):
        run.plot_confusion(coding="hard", method="refinement")


def test_a_missing_matplotlib_is_said_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for draw in (
        bs.PruningPathDisplay(estimates=ESTIMATES).plot,
        bs.CodebookDisplay(codebook=bs.Codebook(np.eye(4))).plot,
    ):
        with pytest.raises(ParameterError, match=r"pip install 'bowsaw\[plots\]'"):
            draw()
