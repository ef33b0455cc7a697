"""``bowsaw inspect``: short facts as text, all of them as JSON."""

from __future__ import annotations

import json

from bowsaw import save
from bowsaw.codebook import Codebook


def test_a_store(bowsaw, made):
    lines = bowsaw("inspect", made.store).lines()
    found = {line[:13].strip(): line[13:].strip() for line in lines if line[0] != " "}
    assert found["kind"] == "store"
    assert found["images"] == "432 of 434 files are usable"
    assert found["descriptors"] == "6,912 of 128 uint8 (885 kB, scale 512)"
    assert "name=dense-sift, patch=16" in found["made with"]
    assert found["classes"] == "3: brick=144, grass=144, gravel=144"
    assert found["set aside"] == "brick/[bold] 1.png: empty file"


def test_codebooks(bowsaw, made, tmp_path):
    text = " ".join(bowsaw("inspect", made.book).out.split())
    assert "words 12 of 128 dimensions (6 kB, scale 512) " in text
    assert "trained on 30 images " in text
    assert "split=(codebook=10, index=0, seed=0, train=10)" in text
    save(Codebook([[0.0], [1.0]]), tmp_path / "bare.safetensors")
    text = bowsaw("inspect", "bare.safetensors").out
    assert "trained on   unknown images\n" in text
    assert "descriptors  unknown\n" in text


def test_histograms_and_classifiers(bowsaw, made, model):
    text = " ".join(bowsaw("inspect", made.histograms).out.split())
    assert "histograms 432 images by 12 words (21 kB) " in text
    assert "images empty 0 have no descriptors " in text
    assert "coding hard " in text
    text = " ".join(bowsaw("inspect", model).out.split())
    assert "weights 12 words per class (" in text
    assert "histograms soft coding of sharpness 20, square-rooted " in text
    assert "labels 3: brick, grass, gravel" in text


def test_json_has_numbers_and_whole_digests(bowsaw, made, model):
    paths = (made.store, made.book, made.histograms, model)
    found = [json.loads(bowsaw("inspect", path, "--json").out) for path in paths]
    assert [one["kind"] for one in found] == ["store", "codebook", "histograms", "classifier"]
    assert [one["n_bytes"] for one in found[:3]] == [884736, 6144, 20736]
    assert len(found[0]["digest"]) == len(found[2]["metadata"]["codebook"]["digest"]) == 64
    assert found[0]["set_aside"][0] == {"path": "brick/[bold] 1.png", "reason": "empty file"}
    assert found[3]["mapping"] == "sqrt"
    assert all(name == name.lower() and " " not in name for one in found for name in one)
