from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from bowsaw.comparison import Run
from bowsaw.formatting import format_signed
from reproduction.claims import PANELS, Accuracies, verdicts

SIZES = (10, 50, 200)
ORDER = ["better-than-presence", "comparable-to-fulkerson", "smaller-and-better"]
ORDER += ["merging-better-than-full", "larger-gain", "neither-coding", "few-iterations"]
ORDER += ["error-falls", "coding-dominates", "brute-force"]
USUAL = {"paper": 0.6, "refinement": 0.7, "presence": 0.5, "bottleneck": 0.61, "full": 0.65}


def cell(panel, method, size, split, accuracy, maps=("sqrt",)):
    return {
        **dict(zip(("set", "coding", "full_words"), panel, strict=True)),
        "split": split,
        "method": method,
        "size": size,
        "n_codebook": 50,
        "n_train": 50,
        "n_test": 100,
        "results": {mapping: {"accuracy": accuracy} for mapping in maps},
    }


def cells_of(changes=None, panels=PANELS, sizes=SIZES, splits=range(5), maps=("sqrt",)):
    """Cells of five methods, some changed: to a number, or a function of panel and size.

    Splits differ by an amount of their own, methods by ``USUAL``.
    """
    found = []
    for panel in panels:
        for method, usual in USUAL.items():
            value = (changes or {}).get(method, usual)
            for size in [panel[2]] if method == "full" else sizes:
                accuracy = value(panel, size) if callable(value) else value
                found += [cell(panel, method, size, i, accuracy + 0.01 * i, maps) for i in splits]
    return found


def two_maps(rooted=None, raw=None):
    cells = cells_of(rooted)
    for one, other in zip(cells, cells_of(raw, maps=("raw",)), strict=True):
        one["results"] |= other["results"]
    return cells


def judged(name, cells=(), probes=()):
    found = verdicts(Run({}, list(cells), list(probes)))
    return next(verdict for verdict in found if verdict.id == name)


def answer_of(name, changes=None, **more):
    return judged(name, cells_of(changes, **more)).answer


# -- every verdict -------------------------------------------------------------------------------


def test_verdicts_come_in_the_order_of_the_claims_and_nothing_is_guessed():
    found = verdicts(Run({}))
    assert [verdict.id for verdict in found] == ORDER
    assert {verdict.answer for verdict in found} == {"not measured"}
    assert all(not verdict.rows for verdict in found)


def test_tables_have_a_cell_under_each_heading_and_the_rule_is_stated():
    lines = [iterations(), transfer_error(), cost_shares(), brute_force()]
    run = Run({}, cells_of(maps=("sqrt", "raw")), lines)
    found = verdicts(run)
    for verdict in found:
        assert verdict.answer != "not measured", verdict.id
        assert verdict.rows, verdict.id
        for row in verdict.rows:
            assert len(row) == len(verdict.header), verdict.id
            assert all(isinstance(text, str) for text in row), verdict.id
        assert "Rule: " in verdict.summary
        assert verdict.claim
        assert verdict.where.startswith("Section")
    # Records that went through JSON, in another order, give the same verdicts.
    cells = json.loads(json.dumps(run.cells))
    np.random.default_rng(0).shuffle(cells)
    again = verdicts(Run({}, cells, json.loads(json.dumps(lines))))
    assert [(v.answer, v.rows) for v in again] == [(v.answer, v.rows) for v in found]


# -- paired comparisons --------------------------------------------------------------------------


def test_p_is_two_sided_and_corrected_over_the_sizes_of_a_panel():
    ours = {10: [0.70, 0.74, 0.71, 0.75, 0.73], 50: [0.60, 0.66, 0.58, 0.61, 0.65]}
    theirs = {10: [0.60, 0.61, 0.62, 0.60, 0.63], 50: [0.62, 0.65, 0.63, 0.60, 0.66]}
    cells = [
        cell(PANELS[0], method, size, split, value)
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
    cells = [cell(PANELS[0], "paper", 10, i, value) for i, value in enumerate([0.5, 0.6, 0.9])]
    cells += [cell(PANELS[0], "presence", 10, i, 0.5) for i in (0, 1, 7)]
    (pair,) = Accuracies(cells, "sqrt").pairs("paper", "presence")
    assert (pair.n_splits, pair.first) == (2, pytest.approx(0.55))


def test_one_split_has_an_answer_without_a_significance():
    found = judged("better-than-presence", cells_of(splits=[0]))
    assert found.answer == "partly"
    assert {row[7] for row in found.rows} == {"—"}
    assert "1 split" in found.summary
    assert "significance is unknown" in found.summary


def test_the_whole_codebook_is_no_pruned_size():
    cells = [cell(PANELS[0], m, 1000, 0, 0.7) for m in ("paper", "presence", "full")]
    assert judged("better-than-presence", cells).answer == "not measured"


def test_a_claim_that_holds_for_one_mapping_of_the_histograms_holds_partly():
    found = judged("comparable-to-fulkerson", two_maps(raw={"paper": 0.4}))
    assert found.answer == "partly"
    assert "Square-rooted histograms say yes: −0.010 on average" in found.summary
    assert "Raw histograms say no: −0.210 on average" in found.summary
    assert judged("comparable-to-fulkerson", two_maps()).answer == "yes"
    alone = judged("comparable-to-fulkerson", cells_of({"paper": 0.4}, maps=("raw",)))
    assert alone.answer == "no"
    assert "Square-rooted" not in alone.summary


def test_raw_histograms_of_some_methods_do_not_change_the_other_claims():
    cells = two_maps()
    for one in cells:
        if one["method"] not in ("paper", "full"):
            del one["results"]["raw"]
    assert judged("comparable-to-fulkerson", cells).answer == "yes"
    assert "Raw histograms say no" in judged("smaller-and-better", cells).summary


@pytest.mark.parametrize("name", ["larger-gain", "neither-coding"])
def test_codebooks_and_codings_are_judged_on_both_mappings(name):
    good = {"larger-gain": gains(0.02, 0.03), "neither-coding": soft_wins(6)}[name]
    bad = {"larger-gain": gains(0.0, 0.0), "neither-coding": soft_wins(0)}[name]
    assert judged(name, two_maps(good, good)).answer == "yes"
    assert judged(name, two_maps(good, bad)).answer == "partly"
    assert judged(name, two_maps(bad, bad)).answer == "no"


@pytest.mark.parametrize("name", ["better-than-presence", "larger-gain", "neither-coding"])
def test_panels_that_are_not_there_are_named(name):
    missing = "Not there, of the paper's eight panels: Caltech-10 soft 5000. Rule: "
    assert missing in judged(name, cells_of(panels=PANELS[:7])).summary
    assert "Not there" not in judged(name, cells_of()).summary
    own = cells_of(panels=[("mine", "hard", 300)])
    assert "Measured: 1 panel, 5 splits. Rule: " in judged("better-than-presence", own).summary


def test_our_method_is_shown_beside_and_may_be_missing():
    found = judged("comparable-to-fulkerson", cells_of())
    assert "Of refinement (ours), square-rooted histograms say yes: +0.090 on" in found.summary
    without = [one for one in cells_of() if one["method"] != "refinement"]
    found = judged("comparable-to-fulkerson", without)
    assert "refinement" not in found.summary
    assert found.rows[0][-2:] == ["—", "—"]


# -- claims on one method against another --------------------------------------------------------


def presence_from(small, large):
    return {"presence": lambda panel, size: large if panel[2] == 5000 else small}


def presence_ahead(n_panels):
    return {"presence": lambda panel, size: 0.65 if panel in PANELS[:n_panels] else 0.5}


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        (presence_from(0.5, 0.4), "yes"),
        # Better everywhere, but not most so from the larger codebook.
        (presence_from(0.5, 0.5), "partly"),
        (presence_from(0.4, 0.5), "partly"),
        (presence_ahead(3), "partly"),
        (presence_ahead(4), "no"),
        ({"presence": 0.6}, "no"),
    ],
)
def test_better_than_presence(changes, answer):
    assert answer_of("better-than-presence", changes) == answer


def test_better_than_presence_reports_the_gap_of_each_codebook():
    text = judged("better-than-presence", cells_of(presence_from(0.5, 0.4))).summary
    assert "From the largest full codebook +0.200, from the smallest +0.100" in text
    assert "higher in 24 of 24" in text
    one = judged("better-than-presence", cells_of(panels=[p for p in PANELS if p[2] == 1000]))
    assert one.answer == "yes"
    assert "is unknown" in one.summary


def fulkerson_near(n_panels):
    return {"bottleneck": lambda panel, size: 0.6 if panel in PANELS[:n_panels] else 0.7}


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"bottleneck": 0.62}, "yes"),
        ({"bottleneck": 0.6201}, "no"),
        (fulkerson_near(7), "partly"),
        (fulkerson_near(4), "partly"),
        (fulkerson_near(3), "no"),
    ],
)
def test_comparable_to_fulkerson(changes, answer):
    assert answer_of("comparable-to-fulkerson", changes) == answer


def best_at(size, full_words=5000, gain=0.01):
    """The published method beats all words (0.65) at one size from one full codebook."""
    best = (full_words, size)
    return {"paper": lambda panel, at: 0.65 + gain if (panel[2], at) == best else 0.6}


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        (best_at(50, 5000), "yes"),
        (best_at(10, 1000), "yes"),
        # One order of magnitude, or too small a gain.
        (best_at(50, 1000), "partly"),
        (best_at(200, 5000), "partly"),
        (best_at(50, gain=0.009), "partly"),
        (best_at(50, gain=0.0), "no"),
        (best_at(200, 1000), "no"),
    ],
)
def test_two_orders_of_magnitude_are_a_hundredth_of_the_words(changes, answer):
    assert answer_of("smaller-and-better", changes) == answer


def test_two_orders_of_magnitude_name_the_best_case():
    text = judged("smaller-and-better", cells_of(best_at(50))).summary
    assert "better than all words in 4 of 8 panels" in text
    assert "15-Scenes hard 5000 with 50 words: 0.680 against 0.670" in text
    found = judged("smaller-and-better", cells_of(sizes=[200]))
    assert found.answer == "not measured"
    assert "No size is 100 times smaller" in found.summary


@pytest.mark.parametrize(
    ("n_panels", "gain", "answer"),
    [(5, 0.01, "yes"), (4, 0.01, "partly"), (8, 0.009, "partly"), (8, 0.0, "no")],
)
def test_merging_is_better_where_one_size_is(n_panels, gain, answer):
    def accuracy(panel, size):
        return 0.65 + gain if size == 200 and panel in PANELS[:n_panels] else 0.6

    found = judged("merging-better-than-full", cells_of({"bottleneck": accuracy}))
    assert found.answer == answer
    assert f"at some size in {n_panels if gain > 0 else 0} of 8 panels" in found.summary


# -- claims on full codebooks and codings --------------------------------------------------------


def gains(published, bottleneck):
    """Gains of 0.01 from 1000 words, and these from 5000."""

    def gain(more):
        return lambda panel, size: 0.65 + (more if panel[2] == 5000 else 0.01)

    return {"paper": gain(published), "bottleneck": gain(bottleneck)}


@pytest.mark.parametrize(
    ("published", "bottleneck", "answer"),
    [(0.02, 0.03, "yes"), (0.02, 0.0, "partly"), (0.01, 0.01, "no"), (0.0, -0.1, "no")],
)
def test_both_methods_must_gain_more_from_the_larger_codebook(published, bottleneck, answer):
    found = judged("larger-gain", cells_of(gains(published, bottleneck)))
    assert found.answer == answer
    more = format_signed(published - 0.01)
    assert found.rows[0][3:6] == [format_signed(published), "+0.010", more]


def soft_wins(n_places):
    """Soft coding is ahead in so many of twelve places, hard coding in the others."""
    places = [(name, words, size) for name, _, words in PANELS[:4] for size in SIZES]

    def accuracy(panel, size):
        wins = (panel[0], panel[2], size) in places[:n_places]
        return 0.6 if panel[1] == "hard" else 0.61 if wins else 0.59

    return {"paper": accuracy}


@pytest.mark.parametrize(
    ("n_soft", "answer"), [(0, "no"), (1, "partly"), (2, "yes"), (10, "yes"), (11, "partly")]
)
def test_each_coding_must_win_a_tenth_of_the_places(n_soft, answer):
    # Of twelve places, one is fewer than a tenth and two are more.
    assert answer_of("neither-coding", soft_wins(n_soft)) == answer


def test_two_codebooks_and_two_codings_are_needed():
    assert answer_of("larger-gain", panels=PANELS[:2]) == "not measured"
    assert answer_of("neither-coding", panels=PANELS[:4]) == "not measured"
    # Codings that tie everywhere win nowhere.
    assert answer_of("neither-coding") == "no"


# -- claims that the probes answer ---------------------------------------------------------------


def iterations(hard=(0.5, 0.6, 0.605), soft=(0.5, 0.6), score=(0.3, 0.39, 0.4)):
    """Accuracy at 0, 100 and 400 steps (hard), and at 0 and 500 (soft); scores alike."""

    def row(coding, n_steps, value, own):
        # Two starts whose mean is the value.
        two = {"score": own, "recoded_score": 0.2, "accuracy": value}
        about = {"coding": coding, "n_steps": n_steps}
        return about | {key: [mid - 0.1, mid + 0.1] for key, mid in two.items()}

    rows = [row("hard", *at) for at in zip((0, 100, 400), hard, score, strict=True)]
    rows += [row("soft", *at) for at in zip((0, 500), soft, score[::2], strict=False) if soft]
    about = {"probe": "iterations", "set": "15-Scenes", "full_words": 1000, "size": 100}
    return {**about, "published_steps": {"hard": 100, "soft": 500}, "rows": rows}


@pytest.mark.parametrize(
    ("hard", "score", "answer"),
    [
        ((0.5, 0.6, 0.61), (0.3, 0.391, 0.4), "yes"),
        # A longer search is better by more than 0.01, or the start is as good.
        ((0.5, 0.6, 0.611), (0.3, 0.391, 0.4), "partly"),
        ((0.6, 0.6, 0.6), (0.3, 0.391, 0.4), "partly"),
        # Less than nine tenths of the score's rise are done, or there is none.
        ((0.5, 0.6, 0.61), (0.3, 0.389, 0.4), "partly"),
        ((0.5, 0.6, 0.61), (0.4, 0.4, 0.4), "partly"),
        ((0.6, 0.5, 0.6), (0.3, 0.35, 0.4), "no"),
    ],
)
def test_few_steps_suffice_when_score_and_accuracy_have_settled(hard, score, answer):
    assert judged("few-iterations", probes=[iterations(hard, (), score)]).answer == answer


def test_few_steps_of_both_codings():
    assert judged("few-iterations", probes=[iterations()]).answer == "yes"
    assert judged("few-iterations", probes=[iterations(soft=(0.6, 0.5))]).answer == "partly"
    text = judged("few-iterations", probes=[iterations((0.5, 0.6, 0.7))]).summary
    assert "0.500 at the random start, 0.600 after the published 100 steps, 0.700 at best" in text
    assert "90% of the score's rise done" in text
    line = iterations(soft=())
    del line["rows"][1]
    assert judged("few-iterations", probes=[line]).answer == "not measured"


def transfer_error(errors=(0.8, 0.6, 0.5), limit=0.3, way="uniform, nearest-surviving"):
    about = {"way": way, "n_kept": 100, "limit": limit, "moved": 0.9}
    counts = (100.0, 400.0, 900.0)
    rows = [{**about, "n_descriptors": n, "error": e} for n, e in zip(counts, errors, strict=True)]
    about = {"probe": "transfer-error", "set": "15-Scenes", "full_words": 1000, "n_images": 200}
    return {**about, "rows": rows[::-1]}


@pytest.mark.parametrize(
    ("errors", "limit", "answer"),
    [
        ((0.8, 0.6, 0.5), 0.5, "yes"),
        ((0.8, 0.6, 0.5), 0.49, "partly"),
        ((0.8, 0.8, 0.5), 0.6, "no"),
    ],
)
def test_the_error_must_fall_and_end_where_proposition_1_says(errors, limit, answer):
    assert judged("error-falls", probes=[transfer_error(errors, limit)]).answer == answer


def test_the_floor_of_the_error_is_that_of_a_line_in_one_over_the_root():
    # error = 0.2 + 6/√N: 0.8 at 100, 0.5 at 400, 0.4 at 900.
    found = judged("error-falls", probes=[transfer_error((0.8, 0.5, 0.4))])
    assert {row[-1] for row in found.rows} == {"0.200"}


def test_other_transfers_and_single_counts_do_not_decide():
    other = transfer_error((0.5, 0.6, 0.7), way="empirical")
    found = judged("error-falls", probes=[transfer_error(limit=0.5), other])
    assert found.answer == "yes"
    assert len(found.rows) == 6
    one = transfer_error()
    one["rows"] = one["rows"][:1]
    for line in (other, one):
        assert judged("error-falls", probes=[line]).answer == "not measured"


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
    unmeasured = judged("coding-dominates", probes=[cost_shares(2.1, describe=None)])
    assert unmeasured.answer == "yes"
    assert unmeasured.rows[0][3] == "—"


def brute_force(uniform=0.01, soft=0.1, soft_bytes=500):
    def row(coding, transfer, seconds, n_bytes):
        times = {"move_seconds": seconds, "recode_seconds": 1.0, "build_seconds": 2.0}
        about = {"coding": coding, "transfer": transfer, "n_kept": 500, "move_size": 10}
        held = {"n_bytes": n_bytes, "words_bytes": 200, "error": 0.4, "refusal": None}
        return about | times | held

    rows = [row("hard", "uniform", uniform, 500), row("hard", "exact", 2.0, 10**6)]
    rows.append(row("soft", "exact", soft, soft_bytes))
    about = {"probe": "brute-force", "set": "15-Scenes", "full_words": 1000, "corpus_bytes": 800}
    return {**about, "rows": rows}


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        # Re-encoding holds 800 bytes of descriptors and 200 of words.
        ({"soft_bytes": 999}, "yes"),
        ({"soft_bytes": 1000}, "partly"),
        ({"soft": 1.0}, "partly"),
        ({"soft": 1.0, "uniform": 1.5}, "no"),
    ],
)
def test_brute_force_is_beaten_in_time_and_space(changes, answer):
    assert judged("brute-force", probes=[brute_force(**changes)]).answer == answer


def test_a_transfer_that_refused_is_shown_and_does_not_decide():
    line = brute_force()
    line["rows"][2] |= {"move_seconds": None, "refusal": "too flat"}
    found = judged("brute-force", probes=[line])
    assert found.answer == "yes"
    assert found.rows[2][-1] == "refused"
    assert "hard, uniform: 100 times faster, 0.5 times the bytes" in found.summary
