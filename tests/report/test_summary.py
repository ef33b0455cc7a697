import numpy as np
import pytest
from tests.report.made_run import made_run

from bowsaw.comparison.records import read_run
from bowsaw.evaluation.significance import accuracy_margin, holm, paired_test
from bowsaw.report.summary import PanelKey, differences, headline_pick, level, panels_of, recommend

OURS = {"ours": True, "codes_with": "pruned"}


def cell(method, size, accuracy, split=0, full_words=100, **changes):
    """A cell of two classes whose map is the square-rooted one."""
    right = round(100 * accuracy)
    outcome = {"accuracy": accuracy, "confusion": [[right, 100 - right], [100 - right, right]]}
    whole = method == "full" or changes.get("codes_with") == "full"
    words = full_words if whole else size
    return {
        "set": "toys",
        "split": split,
        "coding": "hard",
        "full_words": full_words,
        "method": method,
        "size": size,
        "n_columns": size,
        "n_coding_words": words,
        "codes_with": "full" if whole else "pruned",
        "codebook_bytes": words * 512,
        "n_codebook": 10,
        "n_train": 10,
        "n_test": 40,
        "results": {"sqrt": outcome},
        "costs": {"code_ms": words / 10, "select_seconds": 1.0},
        "certificate": None,
        **changes,
    }


def panel(*cells, methods=("full", "saw", "axe")):
    about = {"methods": {m: {} for m in methods}, "sets": {"toys": {"classes": ["a", "b"]}}}
    (found,) = panels_of(about, list(cells))
    return found


def test_level_has_mean_margin_and_the_range_of_the_splits():
    found = level({0: 0.70, 1: 0.72, 2: 0.77}, 0.04)
    assert found.mean == pytest.approx(0.73)
    assert (found.low, found.high) == (0.70, 0.77)
    assert found.text == "0.730 ± 0.040"


def test_folds_test_different_images_and_splits_the_same_ones_again():
    cells = [cell("saw", 10, 0.7, split=split) for split in range(4)]
    about = {"sets": {"toys": {"classes": ["a", "b"]}}}
    (splits,) = panels_of(about, cells)
    (folds,) = panels_of(about, [{**cell, "n_folds": 4} for cell in cells])
    assert (splits.unit, folds.unit) == ("split", "fold")
    assert (splits.n_splits, folds.n_splits) == (4, 4)
    # 100 test images per class in each split; 400 different ones in four folds.
    for found, n in ((splits, 100), (folds, 400)):
        margin = found.entries["saw", 10].levels["sqrt"].margin
        assert margin == pytest.approx(accuracy_margin([0.7] * 4, 2.0, [n, n]))


def test_cells_become_panels_in_the_order_of_the_run(tmp_path):
    run = read_run(made_run(tmp_path, large=True, splits=1, details=False))
    keys = [p.key for p in panels_of(run.about, run.cells)]
    assert keys[0] == PanelKey("15-Scenes", "hard", 1000)
    assert keys[1] == PanelKey("15-Scenes", "hard", 5000)
    assert len(keys) == len(set(keys)) == 8
    assert [key.set for key in keys] == ["15-Scenes"] * 4 + ["Caltech-10"] * 4


def test_confusions_are_summed_and_costs_are_medians_over_splits():
    found = panel(
        cell("saw", 10, 0.6, split=0, costs={"code_ms": 1.0, "codebook_seconds": None}),
        cell("saw", 10, 0.8, split=1, costs={"code_ms": 3.0, "codebook_seconds": 100}),
        cell("saw", 10, 0.7, split=2, costs={"code_ms": 80.0}),
        cell("axe", 10, 0.6, results={}),
        cell("pin", 10, 0.6, costs={"code_ms": 2.0}),
        cell("pin", 20, 0.6, costs={"code_ms": None}),
    )
    assert found.methods == ["saw", "pin"]
    entry = found.entries["saw", 10]
    assert entry.confusions["sqrt"] == [[210, 90], [90, 210]]
    # Of 10 words, whatever the method: 1, 2, 3 and 80 ms.
    assert found.code_ms == {10: 2.5}
    assert entry.costs["codebook_seconds"] == 100
    assert entry.costs["select_seconds"] is None


@pytest.mark.parametrize(
    ("full", "saw", "picked"),
    [
        # 0.73 - 0.02 = 0.71: 20 words are just within, 10 words are not.
        (0.73, {10: 0.70, 20: 0.71, 50: 0.75}, (20, True)),
        # None is within; the best is 0.65, and 0.63 or more is near enough.
        (0.73, {10: 0.62, 20: 0.64, 50: 0.65}, (20, False)),
        (None, {10: 0.5, 20: 0.6}, (20, False)),
    ],
)
def test_the_smallest_size_within_the_limit_is_recommended(full, saw, picked):
    cells = [cell("saw", size, accuracy) for size, accuracy in saw.items()]
    found = panel(*cells, *([cell("full", 100, full)] if full else []))
    pick = recommend(found, "sqrt", "saw")
    assert (pick.entry.size, pick.within) == picked
    assert recommend(found, "raw", "saw") is None
    assert headline_pick(found, "raw", {"saw": OURS}) is None


def test_headline_is_of_the_fewest_words_then_of_the_most_accurate_whoever_made_it():
    full, methods = cell("full", 100, 0.73), {"saw": OURS, "axe": OURS}
    cells = [full, cell("saw", 10, 0.60), cell("saw", 50, 0.73), cell("axe", 50, 0.72)]
    pick = headline_pick(panel(*cells, cell("axe", 10, 0.72)), "sqrt", methods)
    assert (pick.entry.method, pick.entry.size) == ("axe", 10)
    equal = panel(full, cell("saw", 10, 0.72), cell("axe", 10, 0.725))
    assert headline_pick(equal, "sqrt", methods).entry.method == "axe"
    found = panel(full, cell("saw", 10, 0.72), cell("axe", 10, 0.80))
    theirs = {"ours": False, "codes_with": "pruned"}
    needs_all = {"ours": True, "codes_with": "full"}
    for saw, axe, best in ((OURS, theirs, "axe"), (OURS, needs_all, "saw")):
        assert headline_pick(found, "sqrt", {"saw": saw, "axe": axe}).entry.method == best
    assert headline_pick(found, "sqrt", {}).entry.method == "axe"


def test_the_size_is_chosen_on_the_codebook_images_where_all_have_them():
    def held(method, size, test, validation):
        one = cell(method, size, test)
        one["results"]["sqrt"]["C_scores"] = [0.1, validation]
        return one

    # By the test images 10 words are within the limit, by the others they are not.
    cells = [
        held("full", 100, 0.73, 0.73),
        held("saw", 10, 0.72, 0.60),
        held("saw", 20, 0.70, 0.72),
    ]
    pick = recommend(panel(*cells), "sqrt", "saw")
    assert (pick.entry.size, pick.within, pick.validated) == (20, True, True)
    pick = recommend(panel(*cells, cell("axe", 10, 0.5)), "sqrt", "saw")
    assert (pick.entry.size, pick.validated) == (10, False)
    # Without images of the codebook, C was chosen by folds of the images that chose the words.
    pick = recommend(panel(*({**one, "n_codebook": 0} for one in cells)), "sqrt", "saw")
    assert not pick.validated


def test_differences_are_the_corrected_test_on_the_mean_over_sizes_with_holm_over_peers():
    values = {
        ("full", 100): [0.75, 0.74, 0.76],
        ("saw", 10): [0.72, 0.74, 0.73],
        ("saw", 20): [0.76, 0.73, 0.75],
        ("axe", 10): [0.70, 0.70, 0.71],
        ("axe", 20): [0.71, 0.74, 0.73],
        ("axe", 50): [0.9, 0.9, 0.9],
    }
    cells = [
        cell(*key, value, split=split)
        for key, row in values.items()
        for split, value in enumerate(row)
    ]
    found = differences(panel(*cells), "sqrt", "saw")
    saw, axe = (np.transpose([values[m, n] for n in (10, 20)]) for m in ("saw", "axe"))
    full = np.transpose([values["full", 100]] * 2)
    # 10 images of the codebook, 10 others to train, 40 to test.
    raw = [paired_test(saw, peer, 20, 40) for peer in (full, axe)]
    assert [d.peer for d in found] == ["full", "axe"]
    assert [d.mean.mean for d in found] == pytest.approx([r.mean for r in raw])
    assert [d.significant for d in found] == [d.p < 0.05 for d in found] == [False, False]
    assert [d.p for d in found] == pytest.approx(list(holm([r.p for r in raw])))
    assert found[1].sizes == {10: (pytest.approx(0.08 / 3), 3, 3), 20: (pytest.approx(0.02), 2, 3)}


def test_differences_use_the_splits_that_both_have_and_need_two_for_a_p():
    saw = [cell("saw", 10, 0.7, split=split) for split in (0, 1, 2)]
    axe = [cell("axe", 10, 0.6, split=1), cell("axe", 10, 0.5, split=2)]
    (two,) = differences(panel(*saw, *axe), "sqrt", "saw")
    assert two.mean == two.sizes[10] == (pytest.approx(0.15), 2, 2)
    assert two.p is not None
    (one,) = differences(panel(*saw, axe[0]), "sqrt", "saw")
    assert (one.mean.mean, one.p, one.significant) == (pytest.approx(0.1), None, False)


def test_what_is_asked_for_is_in_the_headline_and_one_size_is_no_choice():
    full, methods = cell("full", 100, 0.73), {"saw": OURS, "axe": OURS}
    found = panel(full, cell("saw", 10, 0.60), cell("axe", 10, 0.72))
    pick = headline_pick(found, "sqrt", methods)
    assert (pick.entry.method, pick.chosen) == ("axe", True)
    pick = headline_pick(found, "sqrt", methods, ("saw", 10))
    assert (pick.entry.method, pick.chosen) == ("saw", False)
    assert headline_pick(found, "sqrt", methods, ("saw", 20)).entry.method == "axe"
    pick = headline_pick(panel(full, cell("saw", 10, 0.60)), "sqrt", methods)
    assert not pick.chosen
