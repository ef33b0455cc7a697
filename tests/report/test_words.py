from __future__ import annotations

import base64

import pytest
from tests.report.made_run import kept, made_run

from bowsaw.comparison.records import read_run
from bowsaw.report import details
from bowsaw.report.summary import panels_of
from bowsaw.report.words import glyphs, vocabulary


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return read_run(made_run(tmp_path_factory.mktemp("run"), splits=1))


@pytest.fixture(scope="module")
def drawn(run):
    return vocabulary(panels_of(run.about, run.cells), run.details)


def test_words_are_found_by_panel_method_and_size(drawn):
    assert set(drawn["words"]) == {"p0", "p1"}
    sizes = drawn["words"]["p0"]["refinement"]
    assert set(sizes) == {"10", "20", "50"}
    assert sizes["20"]["ids"] == kept(20, 200)
    assert len(sizes["20"]["glyphs"]) == 20


def test_of_a_codebook_only_the_words_that_are_named_are_drawn(drawn, run, monkeypatch):
    words = [line for line in run.details if line["kind"] == "words"]
    named = {row[0] for line in words for row in line["pruned"][: details.N_PRUNED]}
    named |= {word for line in words for sources in line["from"] for word, _ in sources}
    assert set(drawn["books"]["scenes/200"]["glyphs"]) == named
    monkeypatch.setattr(details, "MOST_OF_A_BOOK", 7)
    found = vocabulary(panels_of(run.about, run.cells), run.details)
    assert len(found["books"]["scenes/200"]["glyphs"]) == 7


def test_glyphs_are_16_steps_of_the_square_root_two_per_byte():
    even = glyphs(base64.b64encode(bytes([255, 0, 64, 255])).decode(), 2)
    assert [base64.b64decode(word).hex() for word in even] == ["f0", "8f"]
    (odd,) = glyphs(base64.b64encode(bytes([255, 0, 255])).decode(), 3)
    assert base64.b64decode(odd).hex() == "f0f0"


def test_images_have_the_distance_of_their_patches(drawn):
    (image,) = drawn["images"]["p0"]["refinement"]
    assert image["step"] == [8.0, 8.0]
    assert image["jpeg"]
