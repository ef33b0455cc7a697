import json
import re
from itertools import pairwise

import pytest
from tests.report.made_run import SMALL, made_run, right
from tests.report.reading import read

from bowsaw.comparison.records import read_run
from bowsaw.errors import FormatError
from bowsaw.evaluation import significance
from bowsaw.evaluation.significance import RULE, accuracy_margin
from bowsaw.report import Section, tag, write_page
from bowsaw.report.charts import style_sheet
from bowsaw.report.page import page_html

HOSTILE = ['</script><img src=x onerror="alert(1)">', "a & b", "{{main}}", "'quoted' \"twice\""]


def page_of(folder, **how):
    run = read_run(made_run(folder, **how))
    return read(page_html(run, run.details))


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("compare"))


@pytest.fixture(scope="module")
def largest(tmp_path_factory):
    """The file of a run with eight panels and an additional section."""
    folder = made_run(tmp_path_factory.mktemp("large"), large=True, splits=5)
    more = Section("My <claims>", "What was <found>.", tag("p", "Supported.", class_="mine"))
    first = Section("Summary", "What was made.", tag("p", "A recogniser."), first=True)
    same = Section("Costs", "The same title.", "")
    return write_page(folder, extra=[more, first, same], title="a <run>")


@pytest.fixture(scope="module")
def large(largest):
    return read(largest.read_text("utf-8"))


def data_of(page):
    return json.loads(page.one("script", id="data").source)


def sections_of(page):
    return [s.attributes["id"] for s in page.all("section")]


def shown(page, **attributes):
    (found,) = [e for e in page.all(**attributes) if "hidden" not in e.attributes]
    return found


def test_additional_sections_come_last_or_before_the_curves_with_a_link(large):
    assert sections_of(large)[-3:] == ["provenance", "my-claims", "costs-more"]
    assert sections_of(large)[:3] == ["answer", "summary", "curves"]
    section = large.one("section", id="my-claims")
    assert section.one("h2").text == "My <claims>"
    assert section.one("p", class_="lead").text == "What was <found>."
    assert section.one("p", class_="mine").text == "Supported."
    assert [a.text for a in large.one("nav").all("a")][-2:] == ["My <claims>", "Costs"]
    assert len(large.one("select", id="panel").all("option")) == 8
    # The first codebook shown is the largest.
    data = data_of(large)
    assert data["panels"][data["start"]["panel"]]["full_words"] == 5000


def test_the_first_screen_has_the_numbers_of_the_cells(comparison):
    # Of 100 images of class c in split s, right() are right; the accuracy is the mean over both.
    def mean(method, place):
        values = [
            right(method, place, split, label, coding="hard", raw=False)
            for split in range(3)
            for label in range(4)
        ]
        return sum(values) / len(values) / 100

    # All words: 0.7425. The largest size is 0.02 below, so it is just within, and 20 is not.
    assert mean("full", 0) == pytest.approx(0.7425)
    assert mean("refinement", 0) == pytest.approx(0.7225)
    answer = shown(comparison.one("section", id="answer"), data_map="sqrt", data_panel="p0")
    text = answer.one("p", class_="headline").text.replace("\u202f", " ")
    pattern = r"50 words keep (\S+) ± (\S+) of (\S+) \(97 %\), 4 × smaller, 3.1 × faster"
    found = re.match(pattern, text.replace("\u00a0", " "))
    # Wilson's interval of 0.7225 for 400 images is wider than that of the three splits.
    numbers = [0.7225, accuracy_margin([0.7125, 0.7225, 0.7325], 1.0, [100] * 4), 0.7425]
    assert [float(n) for n in found.groups()] == pytest.approx(numbers, abs=0.00051)


def test_the_run_is_named_at_the_top_with_its_images_and_splits(comparison, large):
    assert comparison.one("h1").text == "scenes 800 images · 3 random splits · 2026-01-02"
    assert comparison.one("head").one("title").text == "bowsaw: scenes"
    assert large.one("h1").text.startswith("a <run> 5,000 images · 5 random splits")


def test_folds_are_named_folds_and_the_one_size_was_not_chosen(tmp_path):
    methods = ["full", "refinement", "random", "kmeans"]
    run = read_run(
        made_run(tmp_path, splits=5, sizes=[50], methods=methods, details=False, folds=True)
    )
    page = read(page_html(run, [], pick=("refinement", 50)))
    assert "5 folds" in page.one("h1").text
    answer = shown(page.one("section", id="answer"), data_map="sqrt", data_panel="p0")
    rule = "Method refinement. Mean accuracy over 5 folds ± half of its 95 % interval."
    assert answer.one("p", class_="rule").text == rule
    curves = page.one("section", id="curves")
    assert "ahead in 5 of 5 folds" in curves.text
    assert "Small dots: single folds." in curves.text
    # The provenance quotes the records, whose parameter is called so.
    text = "".join(s.text for s in page.all("section") if s.attributes["id"] != "provenance")
    assert "split" not in text


def test_the_rule_for_significance_is_printed_once_in_the_words_of_the_code(comparison):
    assert comparison.text.count(RULE) == 1
    # The number in the rule is the one that decides.
    assert f"p < {significance.LEVEL} " in RULE


def test_sections_stand_in_order_one_view_is_shown_and_every_method_has_a_toggle(comparison):
    order = "answer curves panels words image search confusion costs certificate provenance"
    assert sections_of(comparison) == order.split()
    curves = comparison.one("section", id="curves")
    charts = [e for e in curves.all("div") if "data-axis" in e.attributes]
    assert len(charts) == 2 * 2 * 2
    first = shown(curves, data_panel="p0", data_map="sqrt", data_axis="coding")
    assert [e for e in charts if "hidden" not in e.attributes] == [first]
    methods = {c.attributes.get("data-method") for c in first.all("g", class_="curve")}
    boxes = comparison.all("input", type="checkbox")
    assert {b.attributes["data-toggle"] for b in boxes} == methods - {"full"}


def test_the_script_gets_sizes_with_words_and_confusions_summed_over_splits(comparison):
    data = data_of(comparison)["panels"]["p0"]
    # The slider starts at the recommended size.
    assert data["offered"] == [{"method": "refinement", "sizes": [10, 20, 50], "start": 2}]
    found = data["confusion"]["sqrt"]
    assert set(found) == {"full", "refinement"}
    n_right = sum(right("refinement", 2, split, 0, coding="hard", raw=False) for split in range(3))
    assert found["refinement"]["10"][:2] == [n_right, 300 - n_right]


def test_a_map_that_ours_was_not_measured_with_is_answered_by_what_was(tmp_path):
    page = page_of(tmp_path, large=True, splits=1, details=False, raw=["full", "paper"])
    raw = page.one("section", id="answer").all("div", data_panel="p1", data_map="raw")
    assert "Method paper, the most accurate." in raw[0].one("p", class_="rule").text


def contrast(*colours):
    """As WCAG defines it, of two colours #rrggbb."""
    found = []
    for colour in colours:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        found.append(
            0.05 + sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
        )
    return max(found) / min(found)


def test_texts_and_lines_stand_out_in_light_and_dark():
    themes = re.findall(r"color-scheme: \w+;(.*?)}", style_sheet(), re.S)
    assert len(themes) == 3
    assert themes[1].split() == themes[2].split()
    for theme in themes:
        colours = dict(re.findall(r"--(\w+): (#\w{6})", theme))
        texts = {"ink", "muted", "accent", "yes", "no", "partly", *(f"s{i}" for i in range(8))}
        for name in texts:
            for paper in ("paper", "card"):
                assert contrast(colours[name], colours[paper]) >= 4.5, (name, paper)
        assert contrast(colours["edge"], colours["paper"]) >= 3


def test_it_stays_small_and_asks_for_nothing_from_a_network(comparison, large, largest):
    assert largest.stat().st_size < 4_000_000
    for page in (comparison, large):
        policy = page.one("meta", **{"http-equiv": "Content-Security-Policy"})
        assert policy.attributes["content"].startswith("default-src 'none'")
        for element in page:
            for name in ("src", "href"):
                address = element.attributes.get(name)
                assert address is None or re.match(r"#|data:", address), address
        assert "url(http" not in page.one("style").text


def test_ids_are_unique_references_lead_somewhere_and_headings_descend(comparison, large):
    for page in (comparison, large):
        levels = [int(e.tag[1]) for e in page if re.fullmatch(r"h[1-6]", e.tag)]
        assert levels[0] == levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))
        ids = [e.attributes["id"] for e in page if "id" in e.attributes]
        assert len(ids) == len(set(ids))
        for element in page:
            for name in ("aria-labelledby", "for"):
                assert set((element.attributes.get(name) or "").split()) <= set(ids)
            address = element.attributes.get("href") or ""
            assert not address.startswith("#") or address[1:] in ids


def test_inputs_are_named_and_tables_have_heads(comparison):
    labelled = {e for label in comparison.all("label") for e in map(id, label)}
    for element in comparison:
        if element.tag in ("input", "select"):
            assert id(element) in labelled
        if element.tag == "th":
            assert element.attributes["scope"] in ("row", "col")
        if element.tag == "svg" and element.fits(None, {"class_": "chart"}):
            assert element.attributes["role"] == "img"
            assert element.one("title").text
            assert element.one("desc").text


def test_without_details_the_words_are_left_out(tmp_path):
    page = page_of(tmp_path, details=False)
    assert not {"words", "image", "search"} & set(sections_of(page))
    assert "confusion" in sections_of(page)
    offered = data_of(page)["panels"]["p0"]["offered"]
    assert [row["method"] for row in offered] == SMALL[1:]


def test_one_split_and_one_size_make_a_page_without_marks_and_names_stay_names(tmp_path):
    page = page_of(tmp_path, classes=HOSTILE, splits=1, sizes=[20])
    assert {"answer", "words", "image", "search", "confusion"} <= set(sections_of(page))
    assert page.all("abbr") == []
    assert page.all("img") == []
    assert len(page.all("script")) == 2
    assert len(page.all("main")) == 1
    rows = page.one("table", class_="classes").rows()
    assert [row[0] for row in rows[1:]] == HOSTILE
    (image,) = data_of(page)["images"]["p0"]["refinement"]
    assert image["class"] == HOSTILE[0]


def test_without_the_full_codebook_or_alone_with_it_there_is_a_page(tmp_path):
    page = page_of(tmp_path / "without", methods=["refinement", "random"], splits=2)
    answer = shown(page.one("section", id="answer"), data_map="sqrt", data_panel="p0")
    assert "reach an accuracy of" in answer.one("p", class_="headline").text
    page = page_of(tmp_path / "alone", methods=["full"], splits=2, details=False)
    assert "confusion" not in sections_of(page)
    assert "costs" in sections_of(page)


def test_a_damaged_cell_is_named_with_its_line_and_no_cells_are_nothing_measured(tmp_path):
    folder = made_run(tmp_path, details=False)
    path = folder / "cells.jsonl"
    lines = path.read_text("utf-8").splitlines()
    lines[4] = lines[4].replace('"n_columns"', '"columns"')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"cells\.jsonl, line 5.*n_columns"):
        write_page(folder)
    path.unlink()
    page = read(write_page(folder).read_text("utf-8"))
    assert page.one("h1").text == "scenes: nothing has been measured yet"


def test_a_damaged_detail_is_refused_and_the_old_page_stays(tmp_path):
    folder = made_run(tmp_path, splits=1)
    path = write_page(folder)
    before = path.read_bytes()
    with (folder / "details.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"kind": "trace", "score": [1]}\n')
    with pytest.raises(FormatError, match="method"):
        write_page(folder)
    assert path.read_bytes() == before


def test_another_version_and_another_folder_are_refused(tmp_path):
    folder = made_run(tmp_path / "run", details=False, splits=1)
    path = write_page(folder, tmp_path / "page.html")
    assert path == tmp_path / "page.html"
    assert not (folder / "index.html").exists()
    about = json.loads((folder / "run.json").read_text("utf-8"))
    (folder / "run.json").write_text(json.dumps({**about, "schema": 99}), encoding="utf-8")
    with pytest.raises(FormatError, match="99"):
        write_page(folder)
    with pytest.raises(FormatError, match=r"run\.json"):
        write_page(tmp_path)
