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
    N_COLOURS,
    Scale,
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
    assert drawing.all("path", class_="band") == []
    assert len(drawing.all("g", class_="point")) == 1
    # Limits are steps of 1, 2 or 5.
    assert round_limits([0.62, 0.71]) == (0.62, 0.72, [0.62, 0.64, 0.66, 0.68, 0.7, 0.72])


def test_the_file_is_xml_with_both_themes_and_a_legend(tmp_path):
    folder = made_run(tmp_path / "run", details=False, splits=2)
    tree = ElementTree.parse(write_figure(folder, tmp_path / "curves.svg")).getroot()
    assert "prefers-color-scheme: dark" in tree.findtext(f"{SVG}style")
    titles = [t.text for t in tree.iter(f"{SVG}text") if t.get("class") == "title"]
    assert titles == ["scenes, hard coding, 200 words", "scenes, soft coding, 200 words"]
    texts = {t.text for t in tree.iter(f"{SVG}text")}
    assert {"refined words", "random words", "presence ranking"} <= texts
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
