import numpy as np
from tests.report.reading import read
from tests.report.test_summary import cell, panel

from bowsaw.report.charts import looks_of
from bowsaw.report.markup import tag
from bowsaw.report.page import clauses, rule
from bowsaw.report.summary import recommend
from bowsaw.report.tables import (
    MOST_CLASSES,
    accuracy_table,
    certificate,
    confusion_tables,
    cost_table,
    difference_table,
    milliseconds,
    provenance,
    seconds,
    times,
)

LOOKS = looks_of({}, ["saw", "axe"])


def plain(text):
    """Without the narrow spaces that keep numbers together."""
    return text.replace("\u202f", " ")


def test_the_headline_says_what_is_kept_and_what_is_saved():
    # 50 of 5000 words: 100 × fewer bytes; 500 ms against 5 ms: 100 × faster; 0.71/0.73 = 97 %.
    large = [cell("full", 5000, 0.73, full_words=5000), cell("saw", 50, 0.71, full_words=5000)]
    unknown = [cell("full", 100, 0.73, costs={"code_ms": None}), cell("saw", 10, 0.72, costs={})]
    better = [cell("full", 100, 0.70), cell("saw", 10, 0.72)]
    alone = [cell("saw", 10, 0.72)]
    texts, rules = [], []
    for cells in (large, better, unknown, alone):
        found = panel(*cells)
        pick = recommend(found, "sqrt", "saw")
        texts.append(plain(f"{', '.join(clauses(found, 'sqrt', pick))}."))
        rules.append(rule("sqrt", pick, "saw"))
    assert texts == [
        "50 words keep 0.710 of 0.730 (97 %), 100 × smaller, 100 × faster to code.",
        "10 words reach 0.720, no less than all 100 (0.700), 10 × smaller, 10 × faster to code.",
        "10 words keep 0.720 of 0.730 (99 %), 10 × smaller.",
        "10 words reach an accuracy of 0.720.",
    ]
    assert "at most 0.02 below" in rules[0]
    assert "1 split" in rules[0]
    assert "No measured size" in rules[3]
    assert all(text.endswith("Chosen on the test images: optimistic.") for text in rules)


def test_accuracies_have_a_row_per_size():
    found = panel(
        cell("full", 100, 0.8, split=0),
        cell("full", 100, 0.8, split=1),
        cell("saw", 10, 0.6, split=0),
        cell("saw", 10, 0.7, split=1),
        cell("axe", 20, 0.5, split=0),
    )
    table = read(accuracy_table(found, "sqrt", LOOKS))
    # The standard deviation of 0.6 and 0.7 is 0.1 / √2.
    assert table.rows() == [
        ["Words kept", "saw", "axe"],
        ["10", "0.650 ± 0.071", "—"],
        ["20", "—", "0.500"],
        ["all 100", "0.800 ± 0.000", "0.800 ± 0.000"],
    ]


def test_differences_name_their_peers_and_p():
    found = panel(
        *(cell("saw", 10, value, split=i) for i, value in enumerate([0.72, 0.74, 0.73])),
        *(cell("axe", 10, 0.70, split=i, n_train=100, n_test=100) for i in range(3)),
    )
    # As in the example of bowsaw.evaluation.significance, but for 20 and 40 images: the error is
    # √((1/3 + 2) × 0.0001) = 0.01528, t = 1.964, and P(|t₂| > t) = 1 − t/√(2 + t²) = 0.188.
    rows = read(difference_table(found, "sqrt", "saw", LOOKS)).rows()
    assert rows == [
        ["Words kept", "minus axe"],
        ["10", "+0.030, ahead in 3 of 3 splits"],
        ["mean over sizes", "+0.030 (p = 0.188)"],
    ]
    assert difference_table(panel(cell("saw", 10, 0.7)), "sqrt", "saw", LOOKS) is None


def test_costs_are_shown_before_and_after():
    found = panel(
        cell("full", 100, 0.8),
        cell("saw", 10, 0.7, costs={"code_ms": 2.0, "select_seconds": 90.0, "peak_bytes": 2e8}),
        cell("axe", 10, 0.7, codes_with="full"),
    )
    whole, saw, axe = [[plain(c) for c in row] for row in read(cost_table(found, LOOKS)).rows()[1:]]
    assert whole[:5] == ["all words", "100", "100", "51 kB", "10 ms"]
    assert saw[:6] == ["saw", "10", "10", "5 kB", "2.0 ms", "10 × smaller, 5 × faster"]
    assert saw[6:] == ["1 min 30 s", "—", "200.0 MB"]
    assert axe[2:6] == ["100", "51 kB", "10 ms", "same size"]


def test_certificates_say_whether_bounds_hold():
    bound = {"n_bags": 5, "mean": 1e-9, "worst": 2e-8, "allowed": 1e-6, "holds": True}
    broken = {**bound, "worst": 0.5, "holds": False}
    guess = {**bound, "mean": 0.4, "worst": 0.9, "allowed": None, "holds": None}
    found = panel(
        cell("saw", 10, 0.7, split=0, certificate=bound),
        cell("saw", 10, 0.7, split=1, certificate=broken),
        cell("saw", 20, 0.7, certificate=bound),
        cell("axe", 10, 0.7, certificate=guess),
    )
    made = read(certificate(found, LOOKS))
    assert "2 of 3 bounds hold" in made.one("p", class_="verdict").text
    rows = made.rows()[1:]
    assert [row[-1] for row in rows] == ["exceeded in 1 of 2 splits", "holds", "no bound"]
    assert rows[0][2] == "10"
    assert rows[1][3:6] == ["1.0 × 10⁻⁹", "2.0 × 10⁻⁸", "1.0 × 10⁻⁶"]
    assert rows[2][3:6] == ["0.400", "0.900", "—"]
    assert certificate(panel(cell("saw", 10, 0.7)), LOOKS) is None


def test_mistakes_are_percentages_of_a_row_and_many_classes_have_no_table_of_them():
    found = panel(cell("full", 100, 0.8), cell("saw", 10, 0.6))
    made = read(confusion_tables(found, "sqrt", found.entries["saw", 10], "g"))
    before, after = made.all("table", class_="grid")
    assert before.rows()[1:] == [["1 a", "80", "20"], ["2 b", "20", "80"]]
    assert after.rows()[1:] == [["1 a", "60", "40"], ["2 b", "40", "60"]]
    assert made.one("table", class_="classes").rows()[1] == ["a", "0.800", "0.600", "−0.200"]
    n = MOST_CLASSES + 1
    outcome = {"accuracy": 1.0, "confusion": np.eye(n, dtype=int).tolist()}
    found = panel(cell("saw", 10, 1.0, results={"sqrt": outcome}))
    many = type(found)(found.ident, found.key, [f"c{i}" for i in range(n)], found.entries)
    made = read(confusion_tables(many, "sqrt", many.entries["saw", 10], "g"))
    assert made.all("table", class_="grid") == []
    assert len(made.one("table", class_="classes").rows()) == n + 1


def test_provenance_has_every_value():
    about = {
        "format": "bowsaw-run",
        "seconds": 7200.0,
        "parameters": {"kmeans": {"tol": 1e-4}, "resume": True, "note": None},
        "versions": {},
        "sets": {"toys": {"classes": ["a", "b"]}},
        "methods": {"saw": {"title": "saw"}},
    }
    made = read(tag("div", provenance(about)))
    titles = [summary.text for summary in made.all("summary")]
    assert titles == ["The run", "Parameters", "Set: toys", "Method: saw"]
    found = [row for row in made.rows() if row[0] != "Name"]
    assert found == [
        *(["format", "bowsaw-run"], ["seconds", "7200.0"], ["kmeans", '{"tol": 0.0001}']),
        *(["resume", "true"], ["note", "null"], ["classes", '["a", "b"]'], ["title", "saw"]),
    ]


def test_numbers_have_two_digits_and_a_unit():
    assert [milliseconds(x) for x in (None, 0.234, 2.0, 12.3, 2985)] == [
        *("—", "0.23 ms", "2.0 ms", "12 ms", "2,985 ms")
    ]
    assert [seconds(x) for x in (None, 0, 0.0004, 0.5, 320)] == [
        *("—", "0.0 s", "0.40 ms", "0.5 s", "5 min 20 s")
    ]
    assert [plain(times(x)) for x in (2.44, 4.0, 24.4)] == ["2.4 ×", "4 ×", "24 ×"]
