from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from scipy import stats

from bowsaw.comparison import Run
from bowsaw.formatting import format_signed
from reproduction.claims import JUDGES, PANELS, Accuracies, Verdict, verdicts

SIZES = (10, 50, 200)
ORDER = [
    "better-than-presence",
    "comparable-to-fulkerson",
    "smaller-and-better",
    "merging-better-than-full",
    "larger-gain",
    "neither-coding",
    "few-iterations",
    "error-falls",
    "coding-dominates",
    "brute-force",
]
USUAL = {"paper": 0.6, "refinement": 0.7, "presence": 0.5, "bottleneck": 0.61, "full": 0.65}


def cell(panel, method, size, split, accuracy, maps=("sqrt",)):
    name, coding, full_words = panel
    return {
        "set": name,
        "split": split,
        "coding": coding,
        "full_words": full_words,
        "method": method,
        "size": size,
        "n_train": 100,
        "n_test": 100,
        "results": {mapping: {"accuracy": accuracy} for mapping in maps},
    }


def cells_of(accuracy, panels=PANELS, sizes=SIZES, splits=range(5), maps=("sqrt",)):
    """Cells of five methods; ``accuracy(panel, method, size, split)``, None for no cell."""
    found = []
    for panel in panels:
        for method in USUAL:
            for size in [panel[2]] if method == "full" else sizes:
                for split in splits:
                    value = accuracy(panel, method, size, split)
                    if value is not None:
                        found.append(cell(panel, method, size, split, value, maps))
    return found


def usual(panel, method, size, split):
    """Splits differ by an amount of their own, methods by ``USUAL``."""
    return USUAL[method] + 0.01 * split


def judged(name, cells=(), probes=()):
    return JUDGES[ORDER.index(name)](Run({}, list(cells), list(probes)))


def answer_of(name, accuracy, **more):
    return judged(name, cells_of(accuracy, **more)).answer


def given(changes):
    """Return accuracies with some methods' changed: a number, or a function of panel and size."""

    def accuracy(panel, method, size, split):
        value = changes.get(method, USUAL[method])
        return (value(panel, size) if callable(value) else value) + 0.01 * split

    return accuracy


# -- every verdict -------------------------------------------------------------------------------


def test_verdicts_come_in_the_order_of_the_claims_and_nothing_is_guessed():
    found = verdicts(Run({}))
    assert [verdict.id for verdict in found] == ORDER
    assert {verdict.answer for verdict in found} == {"not measured"}
    assert all(not verdict.rows for verdict in found)


def whole_run():
    cells = cells_of(usual, maps=("sqrt", "raw"))
    lines = [iterations(), transfer_error(), cost_shares(), brute_force()]
    return Run({}, cells, lines)


def test_tables_have_a_cell_under_each_heading_and_the_rule_is_told():
    for verdict in verdicts(whole_run()):
        assert verdict.answer != "not measured", verdict.id
        assert verdict.rows, verdict.id
        for row in verdict.rows:
            assert len(row) == len(verdict.header), verdict.id
            assert all(isinstance(text, str) for text in row), verdict.id
        assert "Rule: " in verdict.summary
        assert verdict.claim
        assert verdict.where.startswith("Section")


def test_records_that_went_through_json_give_the_same_verdicts():
    run = whole_run()
    again = Run({}, json.loads(json.dumps(run.cells)), json.loads(json.dumps(run.probes)))
    assert verdicts(again) == verdicts(run)


def test_the_order_of_the_lines_does_not_matter():
    run = whole_run()
    shuffled = copy.deepcopy(run)
    np.random.default_rng(0).shuffle(shuffled.cells)
    for ours, theirs in zip(verdicts(run), verdicts(shuffled), strict=True):
        assert ours.answer == theirs.answer
        assert ours.rows == theirs.rows


def test_a_verdict_is_a_value():
    assert isinstance(judged("larger-gain"), Verdict)
    assert judged("larger-gain") == judged("larger-gain")


# -- paired comparisons --------------------------------------------------------------------------


def test_p_is_two_sided_and_corrected_over_the_sizes_of_a_panel():
    panel = PANELS[0]
    ours = {10: [0.70, 0.74, 0.71, 0.75, 0.73], 50: [0.60, 0.66, 0.58, 0.61, 0.65]}
    theirs = {10: [0.60, 0.61, 0.62, 0.60, 0.63], 50: [0.62, 0.65, 0.63, 0.60, 0.66]}
    cells = [
        cell(panel, method, size, split, value)
        for method, side in (("paper", ours), ("presence", theirs))
        for size, values in side.items()
        for split, value in enumerate(values)
    ]
    raw = []
    for size in (10, 50):
        d = np.subtract(ours[size], theirs[size])
        # Nadeau and Bengio: 1/J + n_test/n_train with 100 images in each.
        t = d.mean() / np.sqrt((1 / 5 + 1) * d.var(ddof=1))
        raw.append(2 * stats.t.sf(abs(t), 4))
    # Holm: the smaller of two p values counts twice, the larger no less than that.
    expected = [min(1, 2 * raw[0]), min(1, max(2 * raw[0], raw[1]))]
    pairs = Accuracies(cells, "sqrt").pairs("paper", "presence")
    assert raw[0] < raw[1]
    assert [pair.p for pair in pairs] == pytest.approx(expected)
    assert [pair.difference for pair in pairs] == pytest.approx([0.114, -0.012])


def test_only_splits_that_both_methods_have_are_compared():
    panel = PANELS[0]
    cells = [cell(panel, "paper", 10, i, value) for i, value in enumerate([0.5, 0.6, 0.9])]
    cells += [cell(panel, "presence", 10, i, 0.5) for i in (0, 1, 7)]
    (pair,) = Accuracies(cells, "sqrt").pairs("paper", "presence")
    assert (pair.n_splits, pair.first) == (2, pytest.approx(0.55))


def test_one_split_has_an_answer_without_a_significance():
    found = judged("better-than-presence", cells_of(usual, splits=[0]))
    assert found.answer == "partly"
    assert {row[7] for row in found.rows} == {"—"}
    assert "1 split" in found.summary
    assert "significance is unknown" in found.summary


def test_the_whole_codebook_is_no_pruned_size():
    panel = PANELS[0]
    cells = [cell(panel, m, 1000, 0, 0.7) for m in ("paper", "presence", "full")]
    assert judged("better-than-presence", cells).answer == "not measured"


def two_maps(rooted, raw):
    cells = cells_of(rooted)
    for one, other in zip(cells, cells_of(raw, maps=("raw",)), strict=True):
        one["results"] |= other["results"]
    return cells


def test_a_claim_that_holds_for_one_kind_of_histograms_holds_partly():
    found = judged("comparable-to-fulkerson", two_maps(usual, given({"paper": 0.4})))
    assert found.answer == "partly"
    assert "Square-rooted histograms say yes: −0.010 on average" in found.summary
    assert "Raw histograms say no: −0.210 on average" in found.summary
    both = judged("comparable-to-fulkerson", two_maps(usual, usual))
    assert both.answer == "yes"


def test_one_kind_of_histograms_alone_decides():
    alone = judged("comparable-to-fulkerson", cells_of(given({"paper": 0.4}), maps=("raw",)))
    assert alone.answer == "no"
    assert "Raw histograms say no: −0.210" in alone.summary
    assert "Square-rooted" not in alone.summary


def test_raw_histograms_of_some_methods_are_no_hindrance():
    cells = two_maps(usual, usual)
    for one in cells:
        if one["method"] not in ("paper", "full"):
            del one["results"]["raw"]
    assert judged("comparable-to-fulkerson", cells).answer == "yes"
    found = judged("smaller-and-better", cells)
    assert found.answer == "no"
    assert "Raw histograms say no" in found.summary


@pytest.mark.parametrize("name", ["larger-gain", "neither-coding"])
def test_codebooks_and_codings_are_judged_on_both_kinds(name):
    good = {"larger-gain": gains(0.02, 0.03), "neither-coding": soft_wins(6)}[name]
    bad = {"larger-gain": gains(0.0, 0.0), "neither-coding": soft_wins(0)}[name]
    assert judged(name, two_maps(good, good)).answer == "yes"
    assert judged(name, two_maps(good, bad)).answer == "partly"
    assert judged(name, two_maps(bad, bad)).answer == "no"


@pytest.mark.parametrize("name", ["better-than-presence", "larger-gain", "neither-coding"])
def test_panels_that_are_not_there_are_named(name):
    missing = "Not there, of the paper's eight panels: Caltech-10 soft 5000. Rule: "
    assert missing in judged(name, cells_of(usual, panels=PANELS[:7])).summary
    assert "Not there" not in judged(name, cells_of(usual)).summary


def test_panels_of_ones_own_are_counted():
    own = judged("better-than-presence", cells_of(usual, panels=[("mine", "hard", 300)]))
    assert "Measured: 1 panel, 5 splits. Rule: " in own.summary


def test_our_method_is_told_beside_and_may_be_missing():
    found = judged("comparable-to-fulkerson", cells_of(usual))
    assert "Of refinement (ours), square-rooted histograms say yes: +0.090 on" in found.summary
    without = [one for one in cells_of(usual) if one["method"] != "refinement"]
    found = judged("comparable-to-fulkerson", without)
    assert "refinement" not in found.summary
    assert found.rows[0][-2:] == ["—", "—"]


# -- better than Yang ----------------------------------------------------------------------------


def yang_from_large(small, large):
    """Yang's accuracy with each full codebook; the published method has .6."""
    return given({"presence": lambda panel, size: large if panel[2] == 5000 else small})


def test_better_than_yang_everywhere_and_most_from_the_larger_codebook_is_yes():
    found = judged("better-than-presence", cells_of(yang_from_large(0.5, 0.4)))
    assert found.answer == "yes"
    assert "From the largest full codebook +0.200, from the smallest +0.100" in found.summary
    assert "higher in 24 of 24" in found.summary


def test_better_than_yang_but_not_most_from_the_larger_codebook_is_partly():
    assert answer_of("better-than-presence", yang_from_large(0.5, 0.5)) == "partly"
    assert answer_of("better-than-presence", yang_from_large(0.4, 0.5)) == "partly"


def test_better_than_yang_with_one_codebook_says_what_cannot_be_told():
    found = judged(
        "better-than-presence", cells_of(usual, panels=[p for p in PANELS if p[2] == 1000])
    )
    assert found.answer == "yes"
    assert "is unknown" in found.summary


@pytest.mark.parametrize(("n_panels", "answer"), [(3, "partly"), (4, "no"), (5, "no"), (8, "no")])
def test_better_than_yang_in_half_of_the_places_or_fewer_is_no(n_panels, answer):
    ahead = PANELS[:n_panels]
    found = given({"presence": lambda panel, size: 0.65 if panel in ahead else 0.5})
    assert answer_of("better-than-presence", found) == answer


def test_as_good_as_yang_is_not_better():
    assert answer_of("better-than-presence", given({"presence": 0.6})) == "no"


# -- comparable to Fulkerson ---------------------------------------------------------------------


def test_comparable_holds_up_to_its_edge():
    assert answer_of("comparable-to-fulkerson", given({"bottleneck": 0.62})) == "yes"
    assert answer_of("comparable-to-fulkerson", given({"bottleneck": 0.6201})) == "no"


@pytest.mark.parametrize(("n_panels", "answer"), [(8, "yes"), (7, "partly"), (4, "partly")])
def test_comparable_in_half_of_the_places_or_more_is_partly(n_panels, answer):
    near = PANELS[:n_panels]
    found = given({"bottleneck": lambda panel, size: 0.6 if panel in near else 0.7})
    assert answer_of("comparable-to-fulkerson", found) == answer


def test_comparable_in_fewer_places_is_no():
    found = given({"bottleneck": lambda panel, size: 0.6 if panel in PANELS[:3] else 0.7})
    assert answer_of("comparable-to-fulkerson", found) == "no"


# -- two orders of magnitude ---------------------------------------------------------------------


def best_at(size, full_words=5000, gain=0.01):
    """The published method beats all words (.65) at one size from one full codebook."""

    def accuracy(panel, at):
        return 0.65 + gain if (panel[2], at) == (full_words, size) else 0.6

    return given({"paper": accuracy})


@pytest.mark.parametrize(
    ("size", "full_words", "answer"),
    [(50, 5000, "yes"), (10, 1000, "yes"), (50, 1000, "partly"), (200, 5000, "partly")],
)
def test_a_hundredth_of_the_words_is_two_orders_of_magnitude(size, full_words, answer):
    found = judged("smaller-and-better", cells_of(best_at(size, full_words)))
    assert found.answer == answer


@pytest.mark.parametrize(("gain", "answer"), [(0.01, "yes"), (0.009, "partly"), (0.0, "no")])
def test_the_best_case_must_be_better_by_a_clear_amount(gain, answer):
    assert answer_of("smaller-and-better", best_at(50, gain=gain)) == answer


def test_better_at_a_fifth_of_the_words_is_no_order_of_magnitude():
    assert answer_of("smaller-and-better", best_at(200, 1000)) == "no"
    assert answer_of("smaller-and-better", usual) == "no"


def test_two_orders_of_magnitude_name_the_best_case():
    text = judged("smaller-and-better", cells_of(best_at(50))).summary
    assert "better than all words in 4 of 8 panels" in text
    assert "15-Scenes hard 5000 with 50 words: 0.680 against 0.670" in text


def test_without_so_small_a_size_two_orders_are_not_measured():
    found = judged("smaller-and-better", cells_of(usual, sizes=[200]))
    assert found.answer == "not measured"
    assert "No size is 100 times smaller" in found.summary


# -- merging -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_panels", "gain", "answer"),
    [(8, 0.01, "yes"), (5, 0.01, "yes"), (4, 0.01, "partly"), (8, 0.009, "partly"), (8, 0.0, "no")],
)
def test_merging_is_better_where_one_size_is(n_panels, gain, answer):
    def accuracy(panel, size):
        return 0.65 + gain if size == 200 and panel in PANELS[:n_panels] else 0.6

    found = judged("merging-better-than-full", cells_of(given({"bottleneck": accuracy})))
    assert found.answer == answer
    n_better = n_panels if gain > 0 else 0
    assert f"at some size in {n_better} of 8 panels" in found.summary


# -- the larger codebook -------------------------------------------------------------------------


def gains(published, bottleneck):
    """Gains of .01 from 1000 words, and these from 5000."""
    more = {"paper": published, "bottleneck": bottleneck}

    def one(method):
        return lambda panel, size: 0.65 + (more[method] if panel[2] == 5000 else 0.01)

    return given({method: one(method) for method in more})


@pytest.mark.parametrize(
    ("published", "bottleneck", "answer"),
    [(0.02, 0.03, "yes"), (0.02, 0.0, "partly"), (0.01, 0.01, "no"), (0.0, -0.1, "no")],
)
def test_both_methods_must_gain_more_from_the_larger_codebook(published, bottleneck, answer):
    found = judged("larger-gain", cells_of(gains(published, bottleneck)))
    assert found.answer == answer
    more = format_signed(published - 0.01)
    assert found.rows[0][3:6] == [format_signed(published), "+0.010", more]


def test_a_gain_needs_two_full_codebooks():
    assert answer_of("larger-gain", usual, panels=PANELS[:2]) == "not measured"


# -- the codings ---------------------------------------------------------------------------------


def soft_wins(n_places):
    """Soft coding is ahead in so many of twelve places, hard coding in the others."""
    places = [(name, words, size) for name, _, words in PANELS[:4] for size in SIZES]

    def accuracy(panel, size):
        wins = (panel[0], panel[2], size) in places[:n_places]
        return 0.6 if panel[1] == "hard" else 0.61 if wins else 0.59

    return given({"paper": accuracy})


@pytest.mark.parametrize(
    ("n_soft", "answer"), [(0, "no"), (1, "partly"), (2, "yes"), (10, "yes"), (11, "partly")]
)
def test_each_coding_must_win_a_tenth_of_the_places(n_soft, answer):
    # Of twelve places, one is fewer than a tenth and two are more.
    assert answer_of("neither-coding", soft_wins(n_soft)) == answer


def test_codings_that_tie_everywhere_win_nowhere():
    assert answer_of("neither-coding", usual) == "no"


def test_one_coding_alone_is_not_compared():
    assert answer_of("neither-coding", usual, panels=PANELS[:4]) == "not measured"


# -- probes --------------------------------------------------------------------------------------


def iterations(hard=(0.5, 0.6, 0.605), soft=(0.5, 0.6), score=(0.3, 0.39, 0.4)):
    """Accuracy at 0, 100 and 400 steps (hard), and at 0 and 500 (soft); scores alike."""

    def row(coding, n_steps, value, own):
        # Two starts whose mean is the value.
        return {
            "coding": coding,
            "n_steps": n_steps,
            "score": [own - 0.1, own + 0.1],
            "recoded_score": [0.1, 0.3],
            "accuracy": [value - 0.1, value + 0.1],
        }

    rows = [row("hard", *at) for at in zip((0, 100, 400), hard, score, strict=True)]
    rows += [row("soft", *at) for at in zip((0, 500), soft, score[::2], strict=True)]
    published = {"hard": 100, "soft": 500}
    about = {"probe": "iterations", "set": "15-Scenes", "full_words": 1000, "size": 100}
    return {**about, "published_steps": published, "rows": rows, "seconds": 1.0}


def hard_only(**changes):
    line = iterations(**changes)
    line["rows"] = [row for row in line["rows"] if row["coding"] == "hard"]
    return line


@pytest.mark.parametrize(
    ("hard", "score", "answer"),
    [
        ((0.5, 0.6, 0.61), (0.3, 0.391, 0.4), "yes"),
        # A longer search is better by more than .01, or the start is as good.
        ((0.5, 0.6, 0.611), (0.3, 0.391, 0.4), "partly"),
        ((0.6, 0.6, 0.6), (0.3, 0.391, 0.4), "partly"),
        # Less than nine tenths of the score's rise are done, or there is none.
        ((0.5, 0.6, 0.61), (0.3, 0.389, 0.4), "partly"),
        ((0.5, 0.6, 0.61), (0.4, 0.4, 0.4), "partly"),
        ((0.6, 0.5, 0.6), (0.3, 0.35, 0.4), "no"),
    ],
)
def test_few_steps_suffice_when_score_and_accuracy_have_settled(hard, score, answer):
    assert judged("few-iterations", probes=[hard_only(hard=hard, score=score)]).answer == answer


def test_sets_and_codings_that_disagree_are_partly_right():
    assert judged("few-iterations", probes=[iterations()]).answer == "yes"
    assert judged("few-iterations", probes=[iterations(soft=(0.6, 0.5))]).answer == "partly"


def test_steps_are_told_beside_what_more_would_have_given():
    text = judged("few-iterations", probes=[iterations((0.5, 0.6, 0.7))]).summary
    assert "0.500 at the random start, 0.600 after the published 100 steps, 0.700 at best" in text
    assert "90% of the score's rise done" in text


def test_a_search_without_its_published_steps_is_not_measured():
    line = hard_only()
    del line["rows"][1]
    assert judged("few-iterations", probes=[line]).answer == "not measured"


def transfer_error(errors=(0.8, 0.6, 0.5), limit=0.3, way="uniform, nearest-surviving"):
    rows = [
        {"way": way, "n_kept": 100, "n_descriptors": n, "error": error, "limit": limit}
        | {"moved": 0.9}
        for n, error in zip((100.0, 400.0, 900.0), errors, strict=True)
    ]
    about = {"probe": "transfer-error", "set": "15-Scenes", "full_words": 1000, "n_images": 200}
    return {**about, "rows": rows[::-1], "seconds": 1.0}


@pytest.mark.parametrize(
    ("errors", "limit", "answer"),
    [
        ((0.8, 0.6, 0.5), 0.5, "yes"),
        ((0.8, 0.6, 0.5), 0.49, "partly"),
        ((0.8, 0.8, 0.5), 0.6, "no"),
        ((0.5, 0.6, 0.7), 0.9, "no"),
    ],
)
def test_the_error_must_fall_and_end_where_proposition_1_says(errors, limit, answer):
    assert judged("error-falls", probes=[transfer_error(errors, limit)]).answer == answer


def test_the_floor_of_the_error_is_that_of_a_line_in_one_over_the_root():
    # error = .2 + 6/√N: .8 at 100, .5 at 400, .4 at 900.
    found = judged("error-falls", probes=[transfer_error((0.8, 0.5, 0.4))])
    assert {row[-1] for row in found.rows} == {"0.200"}


def test_one_number_of_descriptors_shows_no_fall():
    line = transfer_error()
    line["rows"] = line["rows"][:1]
    assert judged("error-falls", probes=[line]).answer == "not measured"


def test_other_transfers_are_told_and_do_not_decide():
    other = transfer_error((0.5, 0.6, 0.7), way="empirical")
    both = [transfer_error(limit=0.5), other]
    found = judged("error-falls", probes=both)
    assert found.answer == "yes"
    assert len(found.rows) == 6
    assert judged("error-falls", probes=[other]).answer == "not measured"


def cost_shares(code=6.0, small=0.3, describe=1.0):
    def row(coding, n_words, value, full):
        times = {"describe_ms": describe, "code_ms": value, "pool_ms": 1.0, "classify_ms": 1.0}
        return {"coding": coding, "n_words": n_words, "full": full, **times}

    rows = [row("hard", 50, small, False), row("hard", 1000, code, True)]
    rows.append(row("soft", 1000, 2 * code, True))
    return {"probe": "cost-shares", "set": "15-Scenes", "n_descriptors": 900, "rows": rows}


@pytest.mark.parametrize(
    ("code", "answer"), [(3.1, "yes"), (3.0, "partly"), (1.6, "partly"), (1.5, "no")]
)
def test_coding_dominates_above_half_of_the_time(code, answer):
    # The other three take 3 ms: half is 3 ms for hard coding; soft coding takes twice as long.
    assert judged("coding-dominates", probes=[cost_shares(code)]).answer == answer


def test_a_pruned_codebook_does_not_decide_whether_coding_dominates():
    found = judged("coding-dominates", probes=[cost_shares(9.0, small=1.0)])
    assert found.answer == "yes"
    assert "25% with 50 words and 75% to 86% with 1000 words" in found.summary


def test_a_time_that_was_not_taken_is_left_out():
    found = judged("coding-dominates", probes=[cost_shares(2.1, describe=None)])
    assert found.answer == "yes"
    assert found.rows[0][3] == "—"


def brute_force(uniform=0.01, soft=0.1, uniform_bytes=500, soft_bytes=500):
    def row(coding, transfer, seconds, n_bytes):
        return {
            "coding": coding,
            "transfer": transfer,
            "n_kept": 500,
            "move_size": 10,
            "move_seconds": seconds,
            "recode_seconds": 1.0,
            "build_seconds": 2.0,
            "n_bytes": n_bytes,
            "words_bytes": 200,
            "error": 0.4,
            "refusal": None,
        }

    rows = [row("hard", "uniform", uniform, uniform_bytes), row("hard", "exact", 2.0, 10**6)]
    rows.append(row("soft", "exact", soft, soft_bytes))
    about = {"probe": "brute-force", "set": "15-Scenes", "full_words": 1000, "corpus_bytes": 800}
    return {**about, "rows": rows, "seconds": 1.0}


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, "yes"),
        # Re-coding holds 800 bytes of descriptors and 200 of words.
        ({"soft_bytes": 1000}, "partly"),
        ({"soft_bytes": 999}, "yes"),
        ({"soft": 1.0}, "partly"),
        ({"soft": 1.0, "uniform": 1.5}, "no"),
    ],
)
def test_brute_force_is_beaten_in_time_and_space(changes, answer):
    assert judged("brute-force", probes=[brute_force(**changes)]).answer == answer


def test_a_way_that_refused_is_told_and_does_not_decide():
    line = brute_force()
    line["rows"][2] |= {"move_seconds": None, "refusal": "too flat"}
    found = judged("brute-force", probes=[line])
    assert found.answer == "yes"
    assert found.rows[2][-1] == "refused"
    assert "hard, uniform: 100 times faster, 0.5 times the bytes" in found.summary
