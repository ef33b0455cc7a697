from __future__ import annotations

import gzip
import io
import pickle

import cv2
import numpy as np
import pytest

from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError
from bowsaw.formats.opencv import read_opencv, write_opencv


def stored(path, flags=0, **things):
    """What OpenCV itself writes."""
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE | flags)
    for name, thing in things.items():
        storage.write(name, thing)
    storage.release()
    return io.BytesIO(path.read_bytes())


def read_text(text):
    return read_opencv(io.BytesIO(text.encode()))


# -- files of OpenCV's own -------------------------------------------------------------------------


BASE64 = cv2.FILE_STORAGE_WRITE_BASE64
STORED = [
    ("yml", 0),
    ("yml", BASE64),
    ("xml", 0),
    ("xml", BASE64),
    ("json", 0),
    ("json.gz", BASE64),
]


@pytest.mark.parametrize(("end", "flags"), STORED)
def test_what_opencv_writes_is_read(tmp_path, end, flags):
    rows = np.random.default_rng(0).normal(size=(37, 12)) * 100
    for dtype in ("f4", "f8", "u1", "i4", "i2", "u2", "i1", *(["f2"] if not flags else [])):
        words = rows.astype(dtype)
        found = read_opencv(stored(tmp_path / f"v.{end}", flags, vocabulary=words))
        np.testing.assert_array_equal(found.found["vocabulary"], words)
        assert found.format.startswith("OpenCV ")


@pytest.mark.parametrize(("end", "flags"), STORED)
def test_comments_of_opencv_are_skipped(tmp_path, end, flags):
    words = np.random.default_rng(0).normal(size=(5, 12)).astype(np.float32)
    path = tmp_path / f"v.{end}"
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE | flags)
    storage.writeComment("words: [of a shop]", False)
    for name, value, beside in (("vocabulary", words, False), ("k", 5, True), ("l", 6, False)):
        storage.write(name, value)
        storage.writeComment("rows: 3\n ] # of\nthe above", beside)
    storage.release()
    with path.open("rb") as file:
        np.testing.assert_array_equal(read_opencv(file).found["vocabulary"], words)


@pytest.mark.parametrize("end", ["yml", "xml", "json"])
def test_other_nodes_beside_the_words_are_named(tmp_path, end):
    file = stored(
        tmp_path / f"v.{end}",
        k=5,
        title='a: "b" {[<x>]} rows: 3',
        colours=np.zeros((2, 2, 3), np.float32),
        deep=np.zeros((2, 2, 2, 2, 2), np.float32),
        vocabulary=np.eye(3, dtype=np.float32),
        yes=np.array([[True]]),
        empty=np.zeros((0, 3), np.float32),
    )
    found = read_opencv(file)
    assert list(found.found) == ["vocabulary"]
    np.testing.assert_array_equal(found.found["vocabulary"], np.eye(3))
    assert "one channel" in found.refused["colours"]
    assert "more than two axes" in found.refused["deep"]
    assert "'b'" in found.refused["yes"]
    assert found.codebook("v").n_words == 3
    for bad in (np.nan, -np.inf):
        file = stored(tmp_path / f"v.{end}", vocabulary=np.array([[1, bad]], np.float32))
        with pytest.raises(FormatError, match="holds NaN or infinity"):
            read_opencv(file)


OPENCV_4 = """\
%YAML:1.0
---
vocabulary: !!opencv-matrix
   rows: 2
   cols: 3
   dt: f
   data: [ 3., 3.70000005e-01, 1.74000001e+00, 3.1099999, 9.99999996e-13,
       5.8499999 ]
packed: !!opencv-matrix
   rows: 2
   cols: 3
   dt: f
   data: !!binary |
      MWYgICAgICAgICAgICAgICAgICAgICAgAABAQKRwvT5SuN4/PQpHQMy8jCszM7tA
"""


def test_a_file_of_opencv_4_is_read():
    found = read_text(OPENCV_4).found
    assert found["vocabulary"].dtype == np.float32
    np.testing.assert_array_equal(found["vocabulary"], found["packed"])
    # Also with the line ends of Windows and the byte order mark of some editors.
    again = read_opencv(io.BytesIO(b"\xef\xbb\xbf" + OPENCV_4.replace("\n", "\r\n").encode()))
    np.testing.assert_array_equal(again.found["packed"], found["packed"])


def test_an_appended_document_is_read(tmp_path):
    path, flags = tmp_path / "v.yml", cv2.FILE_STORAGE_BASE64
    stored(path, flags, first=np.eye(3, dtype=np.float32))
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_APPEND | flags)
    storage.write("vocabulary", np.eye(2, dtype=np.float32))
    storage.write("more", 3)
    storage.release()
    found = read_opencv(io.BytesIO(path.read_bytes())).found
    np.testing.assert_array_equal(found["first"], np.eye(3))
    np.testing.assert_array_equal(found["vocabulary"], np.eye(2))


def test_long_matrices_are_read_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("bowsaw.formats.opencv._CHUNK", 50)
    words = np.random.default_rng(0).normal(size=(40, 7)).astype(np.float32)
    found = read_opencv(stored(tmp_path / "v.yml", vocabulary=words))
    np.testing.assert_array_equal(found.found["vocabulary"], words)


# -- files of ours ---------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["yml", "xml", "json", "yml.gz"])
def test_opencv_reads_what_we_write(tmp_path, end):
    random = np.random.default_rng(0)
    rows = random.normal(size=(20, 9)) * 10.0 ** random.integers(-30, 30, (20, 9))
    rows[0] = [0, -0.0, 1, -1, 255, 1e9, 3e38, 1e-45, 16777217]
    book = Codebook(rows)
    path = tmp_path / f"v.{end}"
    write_opencv(book, path)
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_READ)
    found = storage.getNode("vocabulary").mat()
    storage.release()
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, book.words)
    again = read_opencv(io.BytesIO(path.read_bytes())).codebook("v")
    assert np.array_equal(again.words, book.words)
    first = path.read_bytes()
    write_opencv(again, path)
    assert path.read_bytes() == first


# -- what is none ----------------------------------------------------------------------------------

MATRIX = {"rows": "1", "cols": "2", "dt": "f", "data": "1. 2."}


def yaml(fields):
    lines = "".join(f"   {name}: {value}\n" for name, value in fields.items())
    return "%YAML 1.2\n---\nv: !!opencv-matrix\n" + lines.replace("1. 2.", "[ 1., 2. ]")


def xml(fields):
    inside = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
    return (
        '<?xml version="1.0"?><opencv_storage><v type_id="opencv-matrix">'
        f"{inside}</v></opencv_storage>"
    )


def json_text(fields):
    values = {
        name: "[1., 2.]" if value == "1. 2." else value if value.isdecimal() else f'"{value}"'
        for name, value in fields.items()
    }
    inside = ", ".join(f'"{name}": {value}' for name, value in values.items())
    return f'{{"v": {{"type_id": "opencv-matrix", {inside}}}}}'


TEXTS = [yaml, xml, json_text]


@pytest.mark.parametrize("text", TEXTS)
def test_a_small_file_made_by_hand_is_read_and_no_field_may_lack(text):
    assert read_text(text(MATRIX)).found["v"].tolist() == [[1, 2]]
    assert read_text(text(MATRIX | {"dt": "1f"})).found["v"].tolist() == [[1, 2]]
    for name in MATRIX:
        with pytest.raises(FormatError, match=f"has no {name}"):
            read_text(text({key: value for key, value in MATRIX.items() if key != name}))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": "2"}, "4 numbers|shorter"),
        ({"cols": "1"}, "not have its 1 numbers"),
        ({"rows": "9999999999", "cols": "9999999999"}, "is shorter"),
        ({"rows": "99999999999999999999"}, "has sizes"),
        ({"rows": "-1"}, "has sizes"),
        ({"rows": "½"}, "has sizes"),
        ({"data": "1 x"}, "not a number"),
        ({"data": "1e 2"}, "not a number"),
        ({"data": "$base64$abc"}, "base64"),
        ({"data": "$base64$MWYgICAgICAgICAgICAgICAgICAgICAg"}, "has 0 bytes"),
        ({"data": "$base64$MWQgICAgICAgICAgICAgICAgICAgICAg"}, "of type '1d', not 'f'"),
    ],
)
def test_wrong_fields_are_refused(text, change, message):
    with pytest.raises(FormatError, match=message):
        read_text(text(MATRIX | change))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not begin"),
        ("%YAML 1.2\nv: !!opencv-matrix\n   rows: 1\n   rows: 1\n", "two fields 'rows'"),
        (yaml(MATRIX).replace("]", ""), "does not end"),
        (yaml(MATRIX).replace("]", "] 3"), "does not end"),
        (yaml(MATRIX) + yaml(MATRIX).partition("---\n")[2], "two nodes called 'v'"),
        ("%YAML\n" + "".join(f"a{i}: 1\n" for i in range(10_001)), "more than 10,000"),
        (xml(MATRIX).replace("</v>", ""), "closes nothing"),
        (xml(MATRIX).replace("</opencv_storage>", ""), "never closed"),
        (xml(MATRIX).replace("opencv_storage", "html"), "begins with <html>"),
        (xml(MATRIX) + "<", "does not end"),
        (xml(MATRIX) + "<!-- ", "does not end"),
        (xml(MATRIX).replace("<dt>", "<dt></dt><dt>"), "two fields 'dt'"),
        ('<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]>', "document type"),
        ('<?xml version="1.0"?>' + "<a>" * 100_000, "begins with <a>"),
        ('<?xml version="1.0"?><opencv_storage>' + "<a>" * 20_000, "never closed"),
        (json_text(MATRIX)[:-1], "ends before"),
        (json_text(MATRIX) + "}", "closes nothing"),
        ("{" + "[" * 20_000, "ends before"),
        ('{"a', "does not end"),
        (json_text(MATRIX).replace("]", ""), "does not end"),
        (yaml(MATRIX | {"data": "[ " + "1" * 3_000_000 + " ]"}), "too many digits"),
    ],
)
def test_damaged_texts_are_refused(text, message):
    with pytest.raises(FormatError, match=message):
        read_text(text)


def test_json_may_be_spaced_and_xml_have_comments():
    text = json_text(MATRIX).replace(":", " \n:\t").replace(",", " , ")
    assert read_text(text).found["v"].tolist() == [[1, 2]]
    text = xml(MATRIX).replace("<v ", "<!-- <v> > --><v ")
    assert read_text(text).found["v"].tolist() == [[1, 2]]


def test_nested_matrices_are_not_taken_for_the_words():
    nested = json_text(MATRIX).replace('{"v"', '{"group": {"v"') + "}"
    assert read_text(nested).refused == {"group": "not a matrix"}
    nested = xml(MATRIX).replace("<v ", "<group><v ").replace("</v>", "</v></group>")
    assert read_text(nested).refused == {"group": "not a matrix"}
    nested = yaml(MATRIX).replace("   ", "      ").replace("v:", "group:\n   v:")
    assert read_text(nested).refused == {"group": "not a matrix"}


def test_a_bomb_is_stopped():
    bomb = gzip.compress(b"%YAML 1.2\n" + b" " * 30_000_000, 9)
    assert len(bomb) < 40_000
    with pytest.raises(FormatError, match="inflates to more than"):
        read_opencv(io.BytesIO(bomb))


def test_bytes_that_are_no_text_packed_pickles_and_damage_are_refused():
    with pytest.raises(FormatError, match="UTF-8"):
        read_opencv(io.BytesIO(b"%YAML\xff"))
    packed = gzip.compress(pickle.dumps([1]))
    with pytest.raises(FormatError, match="pickle"):
        read_opencv(io.BytesIO(packed))
    good = gzip.compress(yaml(MATRIX).encode())
    for bad in (good[:-3], good + good, good[:20] + b"\xff" + good[21:]):
        with pytest.raises(FormatError):
            read_opencv(io.BytesIO(bad))
