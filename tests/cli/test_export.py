"""``bowsaw export`` writes what the functions write."""

from __future__ import annotations

import pytest

import bowsaw as bs
from bowsaw.errors import ParameterError
from bowsaw.formats.c_header import write_c_header
from bowsaw.formats.classifier import load_classifier
from bowsaw.formats.onnx import write_onnx


@pytest.mark.parametrize(
    ("end", "coding", "flags"),
    [
        (".onnx", "", "--descriptors uint8"),
        (".onnx", "--coding soft --sharpness 7", ""),
        (".onnx", "MODEL", ""),
        (".h", "--coding soft", "--descriptors uint8"),
        (".h", "MODEL", "--descriptors uint8"),
    ],
)
def test_export_is_the_function(bowsaw, made, model, tmp_path, end, coding, flags):
    chosen = ("--classifier", model) if coding == "MODEL" else coding.split()
    words = ("export", made.book, "-o", f"a{end}", *chosen, *flags.split())
    [line] = bowsaw(*words).lines()
    book = bs.load(made.book)
    fitted = load_classifier(model) if coding == "MODEL" else None
    coder = book if coding in ("", "MODEL") else bs.BagOfWords(book, coding="soft")
    if "7" in coding:
        coder.set_params(sharpness=7.0)
    descriptors = "uint8" if flags else "float32"
    write = write_onnx if end == ".onnx" else write_c_header
    write(coder, tmp_path / "b", fitted, descriptors=descriptors)
    assert (tmp_path / f"a{end}").read_bytes() == (tmp_path / "b").read_bytes()
    assert line.startswith(f"a{end}: 12 words of 128 dimensions, ")
    assert line.endswith(f"; takes {descriptors} descriptors of which a norm of 1 is 512")
    assert ("3 classes" in line, "soft coding of sharpness" in line) == (
        coding == "MODEL",
        coding != "",
    )


def test_a_unit_that_is_unknown_is_told(bowsaw, made):
    bowsaw("convert", made.book, "words.npy")
    for name in ("words.npy", "words.npz"):
        [line] = bowsaw("export", name, "-o", "a.h").lines()
        assert line.endswith("takes float32 descriptors in the words' own unit, which is unknown")
        found = bowsaw("export", name, "-o", "a.onnx", "--coding", "soft")
        assert found.code == ParameterError.exit_code
        assert f"the scale of {name} is unknown. Set it with" in found.complaint
        # The remedy works for the foreign file, and for ours that was made of it without a scale.
        bowsaw("convert", name, "scaled.npz", "--scale", 512)
        [line] = bowsaw("export", "scaled.npz", "-o", "a.onnx", "--coding", "soft").lines()
        assert line.endswith("of which a norm of 1 is 512")
        bowsaw("convert", "words.npy", "words.npz")


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (("--type", "float"), {"words": "float32"}),
        (("--type", "int8"), {"words": "int8"}),
        (("--name", "rooms"), {"name": "rooms"}),
    ],
)
def test_a_header_may_have_small_words_and_another_name(bowsaw, made, tmp_path, flags, options):
    bowsaw("export", made.book, "-o", "a.h", *flags).lines()
    write_c_header(bs.load(made.book), tmp_path / "b.h", **options)
    assert (tmp_path / "a.h").read_bytes() == (tmp_path / "b.h").read_bytes()
