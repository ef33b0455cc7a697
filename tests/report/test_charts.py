import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.made_run import CODES_WITH_FULL, made_run
from tests.report.reading import read
from tests.report.test_summary import cell, panel

from bowsaw.comparison.records import read_run
from bowsaw.errors import ParameterError
from bowsaw.report.charts import (
    FRAMES,
    MIN_BAND,
    N_COLOURS,
    Scale,
    apart,
    chart,
    looks_of,
    round_limits,
    running_share,
    spaced,
    trace_chart,
    write_figure,
)
from bowsaw.report.summary import panels_of

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The first panel of a made comparison and its two charts."""
    run = read_run(made_run(tmp_path_factory.mktemp("run"), details=False))
    first = panels_of(run.about, run.cells)[0]
    looks = looks_of(run.about["methods"], first.methods)
    axes = ("coding", "columns")
    return first, {axis: read(chart(first, "sqrt", axis, looks)) for axis in axes}


def translation(point):
    x, y = point.attributes["transform"].removeprefix("translate(").removesuffix(")").split()
    return float(x), float(y)


def test_points_stand_where_their_numbers_say(drawn):
    # y runs from the foot of the frame at the lowest tick to its top at the highest, evenly.
    first, charts = drawn
    axis = charts["columns"].one("g", class_="y")
    ticks = [float(t.text) for t in axis.all("text", class_="end")]
    frame = FRAMES["curves"]
    foot, high = frame.height - frame.bottom, frame.top
    for curve in charts["columns"].all("g", class_="curve"):
        for point in curve.all("g", class_="point"):
            key = (curve.attributes["data-method"], int(point.attributes["data-size"]))
            mean = first.entries[key].levels["sqrt"].mean
            share = (mean - ticks[0]) / (ticks[-1] - ticks[0])
            assert translation(point)[1] == pytest.approx(foot + share * (high - foot), abs=0.06)
            assert float(point.attributes["data-mean"]) == pytest.approx(mean, abs=6e-5)


def test_every_method_is_a_curve_and_those_that_code_with_all_words_stand_at_the_far_right(drawn):
    first, charts = drawn
    right = max(translation(p)[0] for p in charts["coding"].all("g", class_="point"))
    for axis, drawing in charts.items():
        curves = {c.attributes["data-method"]: c for c in drawing.all("g", class_="curve")}
        assert set(curves) == {"full", *first.methods}
        for method in first.methods:
            points = curves[method].all("g", class_="point")
            assert [int(p.attributes["data-size"]) for p in points] == [10, 20, 50]
            places = {translation(p)[0] for p in points}
            if axis == "coding" and method in CODES_WITH_FULL:
                assert places == {right}
            else:
                assert len(places) == 3


def test_no_two_methods_look_alike_and_dashes_mark_those_that_need_all_words():
    looks = looks_of({f"m{i}": {"title": f"m{i}"} for i in range(30)}, [])
    assert len({(look.style, look.marker) for look in looks.values()}) == 30
    assert len({look.style for look in looks.values()}) == N_COLOURS
    methods = {"full": {}, "theirs": {"codes_with": "full"}, "own": {"ours": True}}
    looks = looks_of(methods, ["unnamed"])
    assert list(looks) == ["theirs", "own", "unnamed"]
    assert [look.dashed for look in looks.values()] == [True, False, False]


def test_one_split_has_no_band_and_one_size_one_point():
    found = panel(cell("saw", 10, 0.7), cell("full", 100, 0.8))
    drawing = read(chart(found, "sqrt", "coding", looks_of({}, ["saw"])))
    assert drawing.all("path", class_="band") == drawing.all("path", class_="dots") == []
    assert len(drawing.all("g", class_="point")) == 1
    # Limits are steps of 1, 2 or 5.
    assert round_limits([0.62, 0.71]) == (0.62, 0.72, [0.62, 0.64, 0.66, 0.68, 0.7, 0.72])


@pytest.mark.parametrize(
    ("n_splits", "step", "drawn"),
    [(2, 0.001, "dots"), (MIN_BAND, 0.001, "band"), (MIN_BAND, 0.04, "dots")],
)
def test_few_splits_and_those_far_apart_are_dots_and_others_are_a_band(n_splits, step, drawn):
    cells = [
        cell("saw", n, 0.5 + n / 100 + step * split, split=split)
        for n in (10, 20)
        for split in range(n_splits)
    ]
    drawing = read(chart(panel(*cells), "sqrt", "columns", looks_of({}, ["saw"])))
    found = {name: drawing.all("path", class_=name) for name in ("dots", "band")}
    assert {name: len(paths) for name, paths in found.items() if paths} == {drawn: 1}
    if drawn == "dots":
        assert found["dots"][0].attributes["d"].count("h0") == 2 * n_splits


@pytest.mark.parametrize(
    ("sizes", "is_outside"), [((10, 20), False), ((10, 900), True)], ids=["space", "no space"]
)
def test_labels_stand_at_the_ends_of_their_curves_and_do_not_overlap(sizes, is_outside):
    accuracies = {"saw": 0.70, "axe": 0.701, "pin": 0.699}
    found = panel(
        *(
            cell(m, size, value, full_words=1000)
            for m, value in accuracies.items()
            for size in sizes
        ),
        cell("full", 1000, 0.9, full_words=1000),
        methods=("full", *accuracies),
    )
    drawing = read(chart(found, "sqrt", "coding", looks_of({}, list(accuracies))))
    curves = {c.attributes["data-method"]: c for c in drawing.all("g", class_="curve")}
    labels = {m: curves[m].one("g", class_="label") for m in accuracies}
    assert {m: label.text for m, label in labels.items()} == {m: m for m in accuracies}
    heights = sorted(translation(label)[1] for label in labels.values())
    assert all(b - a >= 20 for a, b in pairwise(heights))
    assert min(labels, key=lambda m: translation(labels[m])[1]) == "axe"
    for method, label in labels.items():
        last = translation(curves[method].all("g", class_="point")[-1])[0]
        full = translation(drawing.one("g", class_="end-point"))[0]
        assert translation(label)[0] == pytest.approx(16 + (full if is_outside else last))


@given(st.lists(st.floats(0, 100), max_size=12))
def test_numbers_are_moved_apart_in_their_order(places):
    found = apart(places, 20, 0, 100)
    gap = min(20, 100 / max(len(places) - 1, 1))
    order = sorted(range(len(places)), key=lambda i: places[i])
    assert all(found[b] - found[a] >= gap - 1e-9 for a, b in pairwise(order))
    assert all(-1e-9 <= place <= 100 + 1e-9 for place in found)


def test_the_marked_point_has_an_error_bar():
    found = panel(cell("saw", 10, 0.7), cell("saw", 20, 0.8), cell("full", 100, 0.8))
    pick = found.entries["saw", 10]
    drawing = read(chart(found, "sqrt", "coding", looks_of({}, ["saw"]), use="headline", pick=pick))
    bar = drawing.one("path", class_="error").attributes["d"]
    top, foot = (float(n) for n in re.search(r"M\S+ (\S+)V(\S+?)M", bar).groups())
    ring = float(drawing.one("circle").attributes["cy"])
    ticks = [float(t.text) for t in drawing.one("g", class_="y").all("text", class_="end")]
    frame, margin = FRAMES["headline"], pick.levels["sqrt"].margin
    scale = (frame.height - frame.bottom - frame.top) / (ticks[-1] - ticks[0])
    assert [ring - top, foot - ring] == pytest.approx([margin * scale] * 2, abs=0.11)


@pytest.mark.parametrize(("sizes", "label"), [([10, 20], ["10 words"]), ([10], [])])
def test_a_single_size_is_not_named_twice(sizes, label):
    found = panel(*(cell("saw", size, 0.7) for size in sizes), cell("full", 100, 0.8))
    how = {"use": "headline", "pick": found.entries["saw", 10]}
    drawing = read(chart(found, "sqrt", "coding", looks_of({}, ["saw"]), **how))
    assert [t.text for t in drawing.one("g", class_="mark").all("text")] == label


def test_the_file_is_xml_with_both_themes_and_labels(tmp_path):
    folder = made_run(tmp_path / "run", details=False, splits=2)
    tree = ElementTree.parse(write_figure(folder, tmp_path / "curves.svg")).getroot()
    assert "prefers-color-scheme: dark" in tree.findtext(f"{SVG}style")
    titles = [t.text for t in tree.iter(f"{SVG}text") if t.get("class") == "title"]
    assert titles == ["scenes, hard coding, 200 words", "scenes, soft coding, 200 words"]
    texts = {t.text for t in tree.iter(f"{SVG}text")}
    assert {"refinement", "random", "presence", "accuracy", "words used in coding"} <= texts
    path = write_figure(folder, tmp_path / "one.svg", only={"coding": "soft"}, axis="columns")
    titles = [t.text for t in ElementTree.parse(path).iter() if t.get("class") == "title"]
    assert titles == ["scenes, soft coding, 200 words"]
    with pytest.raises(ParameterError, match="elsewhere"):
        write_figure(folder, tmp_path / "no.svg", only={"set": "elsewhere"})
    with pytest.raises(ParameterError, match="view must be one of"):
        write_figure(folder, tmp_path / "no.svg", view="cubed")


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.integers(2, 8))
def test_round_limits_hold_all_values(values, most):
    low, high, ticks = round_limits(values, most)
    margin = 1e-6 * max(1, abs(low), abs(high))
    assert low - margin <= min(values)
    assert max(values) <= high + margin
    assert ticks == sorted(ticks)
    assert 2 <= len(ticks) <= most + 2


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=30))
def test_ticks_keep_their_distance_and_the_ends(values):
    scale = Scale(min(values), max(values), 0, 500, log=True)
    chosen = spaced(values, scale, 30)
    assert chosen[0] == min(values)
    assert chosen[-1] == max(values)
    steps = [scale(b) - scale(a) for a, b in pairwise(chosen)]
    assert len(chosen) < 3 or min(steps) >= 30


def test_a_trace_shows_only_what_was_recorded_and_gaps_as_gaps():
    line = {"score": [-1.0, None, -0.5], "step": [0, 10, 20], "score_name": "x"}
    alone = read(trace_chart(line, "A search", "t"))
    assert len(alone.all("g", class_="curve")) == 1
    assert alone.one("path", class_="line").attributes["d"].count("M") == 2
    full = {**line, "accepted": [0.5, 0.25], "temperature": [1.0, 0.1]}
    assert len(read(trace_chart(full, "A search", "t")).all("g", class_="curve")) == 3
    assert running_share([1, 1, 0, 0, 0], 3) == pytest.approx([1, 1, 2 / 3, 1 / 3, 0])
