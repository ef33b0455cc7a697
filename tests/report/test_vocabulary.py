from __future__ import annotations

import base64

import pytest
from tests.report.made_run import kept, made_run

from bowsaw.comparison.records import read_run
from bowsaw.errors import FormatError
from bowsaw.report import vocabulary as module
from bowsaw.report.summary import panels_of
from bowsaw.report.vocabulary import check_details, glyphs, vocabulary


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return read_run(made_run(tmp_path_factory.mktemp("run"), splits=1))


@pytest.fixture(scope="module")
def drawn(run):
    return vocabulary(panels_of(run.about, run.cells), run.details)


def test_words_are_found_by_panel_method_and_size(drawn):
    assert set(drawn["words"]) == {"p0", "p1"}
    sizes = drawn["words"]["p0"]["refined"]
    assert set(sizes) == {"10", "20", "50"}
    assert sizes["20"]["ids"] == kept(20, 200)
    assert len(sizes["20"]["glyphs"]) == 20


def test_sprites_are_shared_and_tell_their_own_rows(drawn):
    # The codebook's 200 words, and one sheet for each of three sizes; both codings share them.
    assert len(drawn["sprites"]) == 4
    book = drawn["sprites"][drawn["books"]["scenes/200"]["sprite"]]
    assert (book["columns"], book["rows"]) == (20, 10)
    small = drawn["sprites"][drawn["words"]["p0"]["refined"]["50"]["sprite"]]
    assert (small["columns"], small["rows"]) == (20, 3)


def test_of_a_codebook_only_the_words_that_are_named_go_along(drawn, run):
    book = drawn["books"]["scenes/200"]
    named = {
        word
        for line in run.details
        if line["kind"] == "words"
        for word in [
            *(row[0] for row in line["pruned"][: module.MOST_PRUNED]),
            *(word for sources in line["from"] for word, _ in sources),
        ]
    }
    assert set(book["glyphs"]) == named


def test_a_large_codebook_is_cut(run, monkeypatch):
    monkeypatch.setattr(module, "MOST_OF_A_BOOK", 7)
    found = vocabulary(panels_of(run.about, run.cells), run.details)
    assert len(found["books"]["scenes/200"]["glyphs"]) == 7


def test_an_odd_number_of_dimensions_is_padded():
    (word,) = glyphs(base64.b64encode(bytes([255, 0, 255])).decode(), 3)
    assert base64.b64decode(word).hex() == "f0f0"


def test_images_tell_how_far_their_patches_stand(drawn):
    (image,) = drawn["images"]["p0"]["refined"]
    assert image["step"] == [8.0, 8.0]
    assert image["jpeg"]


def test_the_lowest_split_is_shown(run):
    words = next(line for line in run.details if line["kind"] == "words")
    later = {**words, "split": 1, "ids": words["ids"][::-1]}
    found = vocabulary(panels_of(run.about, run.cells), [later, words])
    assert found["words"]["p0"]["refined"]["10"]["ids"] == words["ids"]
    assert found["books"] == {}


def test_a_line_that_cannot_be_drawn_is_named(run):
    lines = list(run.details)
    place = next(i for i, line in enumerate(lines) if line["kind"] == "words")
    lines[place] = {key: value for key, value in lines[place].items() if key != "mass"}
    with pytest.raises(FormatError, match=f"line {place + 1}, of kind words: it lacks mass"):
        check_details(lines)
    with pytest.raises(FormatError, match="256 bytes of values"):
        check_details([{**run.details[0], "ids": [1, 2]}])
    check_details([{"kind": "of a later version"}])
