"""Classifiers in files: read back equal, and nothing else is taken for one."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save as to_bytes
from sklearn.svm import LinearSVC

import bowsaw as bs
from bowsaw.errors import FormatError, MismatchError
from bowsaw.formats.classifier import LinearModel, load_classifier, save_classifier

BOOK = bs.Codebook(
    np.random.default_rng(0).normal(size=(6, 3)), scale=4.0, description={"name": "made up"}
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.floats(-1e6, 1e6)


def fitted(n_classes=3):
    X = np.random.default_rng(1).random((40, 6))
    return LinearSVC(C=5.0).fit(X, np.arange(40) % n_classes)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@settings(max_examples=30)
@given(
    st.one_of(
        st.lists(TEXT, min_size=2, max_size=5, unique=True),
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=5, unique=True),
        st.lists(NUMBERS, min_size=2, max_size=5, unique=True),
    ),
    st.integers(1, 4),
    st.floats(1e-6, 1e6),
    st.sampled_from(["sqrt", "raw"]),
    st.none() | st.floats(1e-3, 1e3),
    st.booleans(),
    st.data(),
)
def test_what_was_saved_is_loaded(
    tmp_path_factory, classes, n_words, scale, mapping, sharpness, fortran, data
):
    n_machines = 1 if len(classes) == 2 else len(classes)
    values = data.draw(st.lists(NUMBERS, min_size=n_machines * (n_words + 1), max_size=50))
    drawn = np.resize(np.array(values), (n_machines, n_words + 1))
    model = LinearModel(
        np.asfortranarray(drawn[:, 1:]) if fortran else drawn[:, 1:],
        drawn[:, 0],
        classes,
        mapping=mapping,
        scale=scale,
        coding="hard" if sharpness is None else "soft",
        sharpness=sharpness,
        codebook="some digest",
        description=data.draw(st.none() | st.dictionaries(TEXT, NUMBERS, max_size=2)),
        provenance=data.draw(st.dictionaries(TEXT, TEXT, max_size=2)),
    )
    path = tmp_path_factory.mktemp("models") / "m.safetensors"
    save_classifier(model, path)
    again = load_classifier(path)
    names = ("mapping", "scale", "coding", "sharpness", "codebook", "description", "provenance")
    assert all(getattr(again, name) == getattr(model, name) for name in (*names, "classes"))
    assert again.weights.tobytes() == model.weights.tobytes()
    assert again.weights.strides == model.weights.strides
    assert again.intercepts.tobytes() == model.intercepts.tobytes()
    first = path.read_bytes()
    save_classifier(again, path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_fitted_estimator_comes_back_as_what_it_decides(path, n_classes):
    estimator = fitted(n_classes)
    save_classifier(estimator, path, BOOK, provenance={"seed": 3})
    model = load_classifier(path)
    X = np.random.default_rng(2).random((30, 6))
    assert np.array_equal(model.decision_function(X), estimator.decision_function(X))
    assert model.provenance == {"seed": 3}
    assert model.description == {"name": "made up"}
    assert model.codebook == BOOK.digest


def test_a_model_is_not_saved_beside_another_codebook(path):
    model = LinearModel.of(fitted(), BOOK)
    save_classifier(model, path, BOOK)
    with pytest.raises(MismatchError, match="other words"):
        save_classifier(model, path, BOOK.only(BOOK.ids[::-1]))


def test_any_reader_of_safetensors_reads_it(path):
    save_classifier(fitted(), path, BOOK)
    with safe_open(path, framework="numpy") as file:
        assert file.get_tensor("weights").shape == (3, 6)
        assert file.get_tensor("intercepts").dtype == np.float64
        metadata = file.metadata()
    assert (metadata["format"], metadata["format_version"]) == ("bowsaw-classifier", "1")
    assert json.loads(metadata["classes"]) == [0, 1, 2]


# -- what is not one -------------------------------------------------------------------------------


def forged(path, tensors=None, **changes):
    """A file whose digest is right, and whose content is what was asked for."""
    from bowsaw.formats.safetensors import tensors_digest

    save_classifier(fitted(), path, BOOK)
    with safe_open(path, framework="numpy") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = {**file.metadata(), **changes}
    metadata = {name: text for name, text in metadata.items() if text is not None}
    metadata.pop("digest", None)
    found.update(tensors or {})
    metadata["digest"] = tensors_digest(found, metadata)
    path.write_bytes(to_bytes(found, metadata))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"format": "bowsaw-codebook"}, "it is a bowsaw-codebook"),
        ({"format": None}, "safetensors file of another tool"),
        ({"format": "two\nlines"}, r"it is a two\\nlines"),
        ({"format_version": "2\n"}, r"it has format 2\\n"),
        ({"format_version": "2"}, "it has format 2, and this version of bowsaw reads 1"),
        ({"classes": '["a", "b"]'}, "weights must be"),
        ({"classes": '["a", "b", ["c"]]'}, "distinct strings"),
        ({"classes": "[" * 100_000}, "recursion"),
        ({"classes": '"abc'}, "Unterminated"),
        ({"classes": "3"}, "not iterable"),
        ({"mapping": "pickle"}, "mapping must be"),
        ({"scale": "nan"}, "scale must be"),
        ({"scale": "much"}, "could not convert"),
        ({"coding": "soft"}, "sharpness must be"),
        ({"coding": None}, "coding"),
        ({"description": "[1]"}, "description must be"),
        ({"tensors": {"weights": np.zeros((3, 0))}}, "weights is refused"),
        ({"tensors": {"weights": np.full((3, 6), np.inf)}}, "finite"),
        ({"tensors": {"more": np.zeros(1)}}, "it holds the tensors"),
    ],
)
def test_a_forged_file_is_refused_with_the_reason(path, changes, told):
    forged(path)
    load_classifier(path)
    forged(path, **changes)
    with pytest.raises(FormatError, match=told) as caught:
        load_classifier(path)
    assert str(caught.value).startswith(f"{path} cannot be read as a classifier: ")
    assert str(caught.value).endswith("Make one with 'bowsaw fit'.")
    assert len(str(caught.value).splitlines()) == 1


def test_every_byte_counts(path):
    save_classifier(fitted(), path, BOOK)
    whole = path.read_bytes()
    for place in np.random.default_rng(0).choice(len(whole), 150, replace=False):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            load_classifier(path)
        except FormatError:
            continue
        # Spaces behind the header may become others.
        assert whole[place] == ord(" "), place
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError):
            load_classifier(path)


def test_a_pickle_a_folder_and_nothing_are_refused(path, tmp_path):
    path.write_bytes(pickle.dumps(fitted()))
    with pytest.raises(FormatError, match="cannot be read"):
        load_classifier(path)
    for missing in (tmp_path, tmp_path / "no.safetensors", "no\0pe"):
        with pytest.raises(FormatError, match="is not a file"):
            load_classifier(missing)


def test_a_codebook_is_no_classifier(path):
    bs.save(BOOK, path)
    with pytest.raises(FormatError, match="it is a bowsaw-codebook"):
        load_classifier(path)
