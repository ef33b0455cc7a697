"""``bowsaw inspect`` tells people briefly and machines all."""

from __future__ import annotations

import json

from bowsaw import save
from bowsaw.codebook import Codebook


def facts(outcome) -> dict[str, str]:
    return {line[:13].strip(): line[13:].strip() for line in outcome.lines() if line[0] != " "}


def test_inspect_a_store(bowsaw, made):
    found = facts(bowsaw("inspect", made.store))
    assert found["kind"] == "store"
    assert found["images"] == "432 of 434 files are usable"
    assert found["descriptors"] == "6,912 of 128 uint8 (885 kB, scale 512)"
    assert found["made with"].startswith("dense-sift: ")
    assert found["classes"] == "3: brick=144, grass=144, gravel=144"
    assert found["set aside"] == "brick/[bold] 1.png: empty file"


def test_inspect_a_codebook(bowsaw, made):
    text = bowsaw("inspect", made.book).out
    assert "words        12 of 128 dimensions (6 kB, scale 512)\n" in text
    assert "trained on   30 images\n" in text
    assert "split=(codebook=10, index=0, seed=0, train=10)" in " ".join(text.split())


def test_inspect_a_bare_codebook(bowsaw, tmp_path):
    save(Codebook([[0.0], [1.0]]), tmp_path / "bare.safetensors")
    text = bowsaw("inspect", "bare.safetensors").out
    assert "trained on   unknown images\n" in text
    assert "descriptors  unknown\n" in text


def test_inspect_histograms(bowsaw, made):
    text = bowsaw("inspect", made.histograms).out
    assert "histograms       432 images by 12 words (21 kB)\n" in text
    assert "images empty     0 have no descriptors\n" in text
    assert "coding           hard\n" in text


def test_inspect_gives_machines_numbers_and_whole_digests(bowsaw, made):
    found = [
        json.loads(bowsaw("inspect", path, "--json").out)
        for path in (made.store, made.book, made.histograms)
    ]
    assert [facts["kind"] for facts in found] == ["store", "codebook", "histograms"]
    assert [facts["n_bytes"] for facts in found] == [884736, 6144, 20736]
    assert len(found[0]["digest"]) == len(found[2]["metadata"]["codebook"]["digest"]) == 64
    assert found[0]["set_aside"][0] == {"path": "brick/[bold] 1.png", "reason": "empty file"}
    assert all(name == name.lower() and " " not in name for facts in found for name in facts)


def test_inspect_a_classifier(bowsaw, made):
    bowsaw("fit", made.book, made.store, "--coding", "soft", "--C", 1, "-o", "a.safetensors")
    told = dict(line.split(maxsplit=1) for line in bowsaw("inspect", "a.safetensors").lines())
    assert told["kind"] == "classifier"
    assert told["weights"].startswith("12 words per class (")
    assert told["histograms"] == "soft coding of sharpness 40, square-rooted"
    assert told["labels"].startswith("3: ")
    assert json.loads(bowsaw("inspect", "--json", "a.safetensors").out)["mapping"] == "sqrt"
