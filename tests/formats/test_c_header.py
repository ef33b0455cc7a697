"""The header's numbers are the codebook's; compiled, where there is a compiler, it codes alike."""

import ctypes
import re
import subprocess

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from tests.formats.c_compiler import COMPILERS, compiled, pointer, result_of

import bowsaw as bs
from bowsaw.errors import MismatchError, ParameterError
from bowsaw.formats.c_header import quantize_words, write_c_header
from bowsaw.formats.classifier import LinearModel, as_recogniser
from bowsaw.nearest.search import nearest_words

SOURCE = """
#include "words.h"
void histogram(const bowsaw_input *rows, size_t n, float *out) { bowsaw_histogram(rows, n, out); }
#ifndef BOWSAW_SHARPNESS
void codes(const bowsaw_input *rows, size_t n, size_t *out)
{
    size_t i;
    for (i = 0; i < n; ++i)
        out[i] = bowsaw_code(rows + i * BOWSAW_N_DIMS);
}
#endif
#ifdef BOWSAW_N_CLASSES
size_t scores(const float *histogram, float *out)
{
    bowsaw_scores(histogram, out);
    return bowsaw_label(out);
}
const char *name(size_t place) { return bowsaw_classes[place]; }
#endif
"""


def table(text, name, dtype):
    """The numbers of a table, as a compiler reads them."""
    body = re.search(rf"const \w+ {name}\[.*?\] = (\{{.*?\}});", text, re.S)[1]
    return np.array([dtype(number) for number in re.findall(r"-?[\d.]+(?:e[-+]?\d+)?", body)])


def defined(text, name):
    return float(np.float32(re.search(rf"#define {name} (\S+?)f?$", text, re.M)[1]))


@pytest.fixture(scope="module")
def book(book):
    return book.only(book.ids[:20][::-1])


@pytest.fixture
def header(tmp_path):
    def write(*arguments, file="words.h", **options):
        write_c_header(arguments[0], tmp_path / file, *arguments[1:], **options)
        return (tmp_path / file).read_text("ascii")

    return write


def test_words_and_ids_are_those_of_the_codebook_to_the_bit(header, book):
    text = header(book)
    assert np.array_equal(table(text, "bowsaw_words", np.float32), book.words.ravel())
    assert np.array_equal(table(text, "bowsaw_ids", int), book.ids)
    names = ("BOWSAW_N_WORDS", "BOWSAW_N_DIMS", "BOWSAW_SCALE")
    assert [defined(text, name) for name in names] == [20, 128, 512]
    assert '"patch": 16' in text
    assert header(book) == text
    values = np.random.default_rng(0).integers(0, 2**32, 4000, dtype=np.uint32).view(np.float32)
    values = np.concatenate([values[np.isfinite(values)], np.float32([0, -0.0, 1e-45, 3e38, 100])])
    text = header(bs.Codebook(values[None], ids=[2**62]))
    assert np.array_equal(table(text, "bowsaw_words", np.float32), values)
    assert "uint64_t bowsaw_ids" in text
    assert table(text, "bowsaw_ids", int).tolist() == [2**62]


@pytest.mark.parametrize(
    ("kind", "descriptors", "unit"),
    [
        ("uint8", "uint8", "sift"),
        ("uint8", "uint8", "signed"),
        ("int8", "float32", "signed"),
        ("uint8", "float32", "tiny"),
        ("int8", "float32", "flat"),
    ],
)
def test_quantized_words_are_as_near_as_they_say(header, book, kind, descriptors, unit):
    words = {
        "sift": book.words,
        "signed": np.random.default_rng(0).normal(0.3, 2, (9, 5)),
        "tiny": np.random.default_rng(0).normal(0, 1e-30, (9, 5)),
        "flat": np.zeros((2, 3)),
    }[unit].astype(np.float32)
    found = quantize_words(words, kind, descriptors)
    restored = found.restored().astype(np.float64)
    # restored() is exact: few digits times few digits.
    assert np.array_equal(restored, found.step * (found.values.astype(np.float64) - found.zero))
    moved = restored - words
    assert np.abs(moved).max() <= found.step / 2
    assert np.sqrt((moved**2).sum(axis=1)).max() == pytest.approx(found.error, rel=1e-12)
    if unit in ("signed", "tiny"):
        spread = np.ptp(words) / 254 if kind == "uint8" else np.abs(words).max() / 127
        assert spread * (1 - 1e-6) <= found.step <= spread * (1 + 2.0**-11)
    if unit == "sift" and descriptors == "uint8":
        assert (found.step, found.zero) == (1, 0)
    text = header(bs.Codebook(words, scale=3.0), words=kind, descriptors=descriptors)
    assert np.array_equal(table(text, "bowsaw_words", int), found.values.ravel())
    error = defined(text, "BOWSAW_WORD_ERROR")
    assert found.error / 3 <= error <= found.error / 3 * (1 + 1e-6)


NAMES = np.array(['a "quoted\\ ??/ name', "☃ */ /*", "zebra"])


@pytest.mark.parametrize(
    ("words", "descriptors", "sharpness", "estimator"),
    [
        ("float32", "float32", None, None),
        ("uint8", "uint8", None, bs.HistogramClassifier(C=4.0)),
        ("uint8", "float32", None, LogisticRegression()),
        ("int8", "uint8", 1e40, None),
        ("float32", "uint8", 5.0, LinearSVC()),
    ],
)
def test_the_compiled_header_gives_the_answers_of_python(
    tmp_path, header, images, book, words, descriptors, sharpness, estimator
):
    n_classes = 2 if isinstance(estimator, LogisticRegression) else 3
    places = np.unique(images[1], return_inverse=True)[1]
    chosen = np.flatnonzero(places < n_classes)
    bags, used = images[0][chosen], book
    if words != "float32":
        used = bs.Codebook(quantize_words(book.words, words, descriptors).restored(), scale=512)

    def coder(words):
        return bs.BagOfWords(words, coding="soft", sharpness=sharpness) if sharpness else words

    X = as_recogniser(coder(used))[0].transform(bags)
    model = estimator and LinearModel.of(estimator.fit(X, NAMES[places[chosen]]), coder(book))
    text = header(coder(book), model, words=words, descriptors=descriptors)
    integers = words == descriptors == "uint8"
    assert f"typedef {'int32_t' if integers else 'float'} bowsaw_score;" in text
    if sharpness:
        assert defined(text, "BOWSAW_SHARPNESS") == pytest.approx(min(2 * sharpness / 512**2, 1e38))
    if model:
        weights = table(text, "bowsaw_weights", np.float32).reshape(20, -1)
        expected, error = (model.weights * model.scale).T, 1e-7 * np.abs(model.weights).max()
        if words != "float32":
            weights = weights * table(text, "bowsaw_weight_units", np.float32)
            error = np.abs(expected).max(axis=0) / 32767 * 0.501
        assert (np.abs(weights - expected) <= error + 1e-7 * np.abs(expected)).all()
    library = compiled(tmp_path, SOURCE)
    if library is None:
        return
    for i in range(0, len(bags), 2):
        rows = bags[i].astype(descriptors)
        found = result_of(library.histogram, rows, 20)
        if sharpness:
            assert np.abs(found - X[i]).max() <= 1e-5
        else:
            codes = result_of(library.codes, rows, len(rows), np.uintp)
            assert np.array_equal(codes, nearest_words(bags[[i]], used.words))
            assert np.array_equal(found, X[i])
        if model:
            expected, out = model.scores(X[[i]])[0], np.empty(n_classes, np.float32)
            assert library.scores(pointer(found), pointer(out)) == np.argmax(expected)
            np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    assert not result_of(library.histogram, rows[:0], 20).any()
    if model:
        library.name.restype = ctypes.c_char_p
        names = [library.name(ctypes.c_size_t(i)).decode() for i in range(n_classes)]
        assert names == list(model.classes)


def test_ties_go_to_the_first_word_and_a_comment_cannot_end_early(tmp_path, header):
    rng = np.random.default_rng(0)
    words = rng.integers(-2, 3, (25, 19)).astype(np.float32)
    words[20:] = words[3]
    rows = (rng.integers(-4, 5, (400, 19)) / 2).astype(np.float32)
    about = {"name": "*/ int x = ; /*", "more": "\\\n\u2028☃"}
    text = header(bs.Codebook(words, description=about))
    assert text.count("*/") == text.count("/*")
    expected = nearest_words(bs.Bags(rows), words)
    # Sums in float are nearly as good.
    for flags, share in (((), 1), (("-DBOWSAW_REAL=float",), 0.999)):
        library = compiled(tmp_path, SOURCE, *flags)
        if library is not None:
            assert (result_of(library.codes, rows, 400, np.uintp) == expected).mean() >= share


TWO = """
#include "rooms.h"
#include "words.h"
#ifdef __cplusplus
#define SHARED extern "C"
#else
#define SHARED extern
#endif
SHARED size_t label(const rooms_input *rows, size_t n, float *out);
size_t label(const rooms_input *rows, size_t n, float *out)
{
    float scores[ROOMS_N_CLASSES];
    rooms_histogram(rows, n, out);
    bowsaw_histogram(rows, n, out + ROOMS_N_WORDS);
    rooms_scores(out, scores);
    return rooms_label(scores);
}
"""


@pytest.mark.parametrize("language", COMPILERS)
def test_headers_of_other_names_fit_into_one_program(tmp_path, header, images, book, language):
    bags, y = images
    coder, few = bs.BagOfWords(book), book.only(book.ids[:7])
    X = coder.transform(bags)
    # Names of classes and descriptions stay as they are, whatever they hold.
    names = np.array(["bowsaw_a", "BOWSAW_N_WORDS", "@ABOUT@"])
    classes = names[np.unique(y, return_inverse=True)[1]]
    model = LinearModel.of(bs.HistogramClassifier(C=4.0).fit(X, classes), coder)
    text = header(book, model, descriptors="uint8", name="rooms", file="rooms.h")
    header(few, descriptors="uint8")
    assert set(re.findall(r"bowsaw_\w*", text, re.IGNORECASE)) == {"bowsaw_a", "BOWSAW_N_WORDS"}
    library = compiled(tmp_path, TWO, language=language)
    if library is None:
        return
    both, labels = np.hstack([X, bs.BagOfWords(few).transform(bags)]), model.predict(X)
    for i in range(0, len(bags), 5):
        rows, out = np.ascontiguousarray(bags[i]), np.empty(27, np.float32)
        label = library.label(pointer(rows), ctypes.c_size_t(len(rows)), pointer(out))
        assert (model.classes[label], out.tolist()) == (labels[i], both[i].tolist())
    # Two of one name do not pass for each other.
    header(few, file="rooms.h")
    header(book)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        compiled(tmp_path, TWO, language=language)
    assert "write one of them with another --name" in caught.value.stderr


def test_what_does_not_fit_is_refused(tmp_path, header, book):
    model = LinearModel.of(LinearSVC().fit(np.eye(20)[:9], np.arange(9) % 3), book)
    shapes = ["", "Rooms", "1st", "_a", "a_", "a__b", "a-b", "größe", "a b", "a\n", "a" * 41, None]
    for wrong in [*shapes, 3, "int", "class", "restrict", "co_await", "xor", "typeof"]:
        with pytest.raises(ParameterError, match="name must"):
            header(book, name=wrong)
    with pytest.raises(ParameterError, match="words must be one of 'float32', 'uint8', 'int8'"):
        header(book, words="int4")
    with pytest.raises(ParameterError, match="descriptors must be one of 'float32', 'uint8'"):
        header(book, descriptors="int8")
    with pytest.raises(MismatchError, match="other words"):
        header(book.only(book.ids[::-1]), model)
    assert list(tmp_path.iterdir()) == []
