from dataclasses import replace

import numpy as np
from tests.report.reading import read
from tests.report.test_summary import cell, panel

from bowsaw.comparison.records import margin_of
from bowsaw.markup import tag
from bowsaw.report.page import clauses, rule
from bowsaw.report.summary import recommend
from bowsaw.report.tables import (
    MOST_CLASSES,
    certificate,
    confusion_tables,
    cost_notes,
    cost_table,
    difference_table,
    method_table,
    milliseconds,
    provenance,
    seconds,
    times,
)


def plain(text):
    """Without the narrow spaces that keep numbers together."""
    return text.replace("\u202f", " ").replace("\u00a0", " ")


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
        rules.append(rule("sqrt", pick, "split"))
    # Half of Wilson's interval, from the mean to its farther end, for 200 images: 0.066.
    assert texts == [
        "50 words keep 0.710 ± 0.066 of 0.730 (97 %), 100 × smaller, 100 × faster to code.",
        "10 words reach 0.720 ± 0.066, no less than all 100 (0.700), 10 × smaller, 10 × faster to "
        "code.",
        "10 words keep 0.720 ± 0.066 of 0.730 (99 %), 10 × smaller.",
        "10 words reach an accuracy of 0.720 ± 0.066.",
    ]
    assert "at most 0.02 below" in rules[0]
    assert "1 split" in rules[0]
    assert "No measured size" in rules[3]
    assert all("Chosen on the test images: optimistic." in text for text in rules)


def test_methods_have_a_row_and_sizes_a_column():
    found = panel(
        cell("full", 100, 0.8, split=0),
        cell("saw", 10, 0.6, split=0),
        cell("saw", 10, 0.7, split=1),
        cell("axe", 20, 0.5, split=0, codes_with="full"),
    )
    table = read(method_table(found, "sqrt"))
    assert table.one("table").attributes["class"] == "sortable"
    margin = margin_of([cell("saw", 10, 0.6, split=0), cell("saw", 10, 0.7, split=1)])
    assert table.rows() == [
        ["Method", "Codes with", "10", "20"],
        ["saw", "kept words", f"0.650 ± {margin:.3f}", "—"],
        ["axe", "all words", "—", "0.500 ± 0.069"],
        ["all words", "all words", "0.800 ± 0.061", "0.800 ± 0.061"],
    ]


def test_differences_name_their_peers_and_a_star_marks_those_that_are_significant():
    def cells(method, values, size=10):
        return [cell(method, size, v, split=i) for i, v in enumerate(values)]

    saw, axe, pin = [0.72, 0.74, 0.73], [0.70] * 3, [0.22, 0.24, 0.23]
    found = panel(*cells("saw", saw), *cells("axe", axe), *cells("pin", pin))
    # For 20 and 40 images the error of saw − axe is √((1/3 + 2) × 0.0001) = 0.01528, t = 1.964,
    # and P(|t₂| > t) = 0.188; that of saw − pin is 0.
    rows = read(difference_table(found, "sqrt", "saw")).rows()
    assert rows == [
        ["saw minus", "10"],
        ["axe", "+0.030, ahead in 3 of 3 splits"],
        ["pin", "+0.500*, ahead in 3 of 3 splits"],
    ]
    found = panel(
        *cells("saw", saw), *cells("saw", axe, 20), *(cells("axe", axe, n)[0] for n in (10, 20))
    )
    assert read(difference_table(found, "sqrt", "saw")).rows() == [
        ["saw minus", "10", "20", "mean over sizes"],
        [
            "axe",
            "+0.020, ahead in 1 of 1 split",
            "0.000, ahead in 0 of 1 split",
            "+0.010, ahead in 1 of 1 split",
        ],
    ]
    assert difference_table(panel(cell("saw", 10, 0.7)), "sqrt", "saw") is None


def test_costs_have_one_row_per_size_and_one_time_per_number_of_words():
    costs = {"code_ms": 2.0, "select_seconds": 90.0, "codebook_seconds": 5.0}
    found = panel(
        cell("full", 100, 0.8, costs={**costs, "code_ms": 10.0}),
        cell("saw", 10, 0.7, costs=costs),
        cell("kmeans", 10, 0.7, costs={**costs, "code_ms": 3.0}),
        cell("axe", 20, 0.7, codes_with="full", costs={**costs, "code_ms": 10.0}),
    )
    rows = [[plain(c) for c in row] for row in read(cost_table(found)).rows()]
    assert rows[0][:4] == ["Words", "Codebook", "Coding, per image", "Against all words"]
    assert rows[0][4:] == ["Choosing: saw", "Choosing: axe", "Choosing: kmeans"]
    assert rows[1:] == [
        ["10", "5 kB", "2.5 ms", "10 × smaller, 4 × faster", "1 min 30 s", "—", "5.0 s"],
        ["20", *["—"] * 4, "1 min 30 s", "—"],
        ["all 100", "51 kB", "10 ms", *["—"] * 4],
    ]
    notes = cost_notes(found)
    assert "Training the full codebook takes 5.0 s." in notes
    assert "axe codes with all words at any size." in notes


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
    made = read(certificate(found))
    assert "2 of 3 bounds hold" in made.one("p", class_="verdict").text
    rows = made.rows()[1:]
    assert [row[-1] for row in rows] == ["exceeded in 1 of 2 splits", "holds", "no bound"]
    assert rows[0][2] == "10"
    assert rows[1][3:6] == ["1.0 × 10⁻⁹", "2.0 × 10⁻⁸", "1.0 × 10⁻⁶"]
    assert rows[2][3:6] == ["0.400", "0.900", "—"]
    assert certificate(panel(cell("saw", 10, 0.7))) is None


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
    many = replace(found, classes=[f"c{i}" for i in range(n)])
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
