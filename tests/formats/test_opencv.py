import gzip
import io
import pickle

import cv2
import numpy as np
import pytest

from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError
from bowsaw.formats.opencv import read_opencv, write_opencv

BASE64 = cv2.FILE_STORAGE_BASE64


def stored(path, flags=0, *, mode=cv2.FILE_STORAGE_WRITE, comments=False, **things):
    """What OpenCV itself writes."""
    storage = cv2.FileStorage(str(path), mode | flags)
    if comments:
        storage.writeComment("words: [of a shop]", False)
    for i, (name, thing) in enumerate(things.items()):
        storage.write(name, thing)
        if comments:
            storage.writeComment("rows: 3\n ] # of\nthe above", i == 1)
    storage.release()
    return io.BytesIO(path.read_bytes())


def read_text(text):
    return read_opencv(io.BytesIO(text.encode()))


@pytest.mark.parametrize("end", ["yml", "xml", "json", "json.gz"])
@pytest.mark.parametrize("flags", [0, BASE64])
def test_what_opencv_writes_is_read(tmp_path, end, flags, monkeypatch):
    # Long texts are read in chunks.
    monkeypatch.setattr("bowsaw.formats.opencv._CHUNK", 50)
    rows = np.random.default_rng(0).normal(size=(37, 12)) * 100
    for dtype in ("f4", "f8", "u1", "i4", "i2", "u2", "i1", *(["f2"] if not flags else [])):
        things = {"vocabulary": rows.astype(dtype), "k": 5, "l": 6}
        found = read_opencv(stored(tmp_path / f"v.{end}", flags, comments=dtype == "f4", **things))
        np.testing.assert_array_equal(found.found["vocabulary"], things["vocabulary"])
        assert found.format.startswith("OpenCV ")


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
    np.testing.assert_array_equal(found.codebook("v").words, np.eye(3))
    assert "one channel" in found.refused["colours"]
    assert "more than two axes" in found.refused["deep"]
    assert "'b'" in found.refused["yes"]
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


def test_a_file_of_opencv_4_and_an_appended_document_are_read(tmp_path):
    # Also with the line ends of Windows and the byte order mark of some editors.
    windows = "\ufeff" + OPENCV_4.replace("\n", "\r\n")
    for text in (OPENCV_4, windows):
        found = read_text(text).found
        assert found["vocabulary"].dtype == np.float32
        np.testing.assert_array_equal(found["vocabulary"], found["packed"])
    path, append = tmp_path / "v.yml", cv2.FILE_STORAGE_APPEND
    stored(path, BASE64, first=np.eye(3))
    found = read_opencv(stored(path, BASE64, mode=append, vocabulary=np.eye(2), more=3)).found
    np.testing.assert_array_equal(found["first"], np.eye(3))
    np.testing.assert_array_equal(found["vocabulary"], np.eye(2))


@pytest.mark.parametrize("end", ["yml", "xml", "json", "yml.gz"])
def test_opencv_reads_what_we_write(tmp_path, end):
    random = np.random.default_rng(0)
    rows = random.normal(size=(20, 9)) * 10.0 ** random.integers(-30, 30, (20, 9))
    rows[0] = [0, -0.0, 1, -1, 255, 1e9, 3e38, 1e-45, 16777217]
    book, path = Codebook(rows), tmp_path / f"v.{end}"
    write_opencv(book, path)
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_READ)
    np.testing.assert_array_equal(storage.getNode("vocabulary").mat(), book.words, strict=True)
    storage.release()
    first = path.read_bytes()
    again = read_opencv(io.BytesIO(first)).codebook("v")
    assert np.array_equal(again.words, book.words)
    write_opencv(again, path)
    assert path.read_bytes() == first


MATRIX = {"rows": "1", "cols": "2", "dt": "f", "data": "1. 2."}


def yaml(fields):
    lines = "".join(f"   {name}: {value}\n" for name, value in fields.items())
    return "%YAML 1.2\n---\nv: !!opencv-matrix\n" + lines.replace("1. 2.", "[ 1., 2. ]")


def xml(fields):
    inside = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
    matrix = f'<v type_id="opencv-matrix">{inside}</v>'
    return f'<?xml version="1.0"?><opencv_storage>{matrix}</opencv_storage>'


def json_text(fields):
    quoted = {name: v if v.isdecimal() else f'"{v}"' for name, v in fields.items()}
    inside = ", ".join(f'"{name}": {value}' for name, value in quoted.items())
    return f'{{"v": {{"type_id": "opencv-matrix", {inside}}}}}'.replace('"1. 2."', "[1., 2.]")


@pytest.mark.parametrize("text", [yaml, xml, json_text])
def test_no_field_may_lack_or_be_wrong(text):
    assert read_text(text(MATRIX)).found["v"].tolist() == [[1, 2]]
    assert read_text(text(MATRIX | {"dt": "1f"})).found["v"].tolist() == [[1, 2]]
    for name in MATRIX:
        with pytest.raises(FormatError, match=f"has no {name}"):
            read_text(text({key: value for key, value in MATRIX.items() if key != name}))
    for change, message in (
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
    ):
        with pytest.raises(FormatError, match=message):
            read_text(text(MATRIX | change))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%YAML 1.2\nv: !!opencv-matrix\n   rows: 1\n   rows: 1\n", "two fields 'rows'"),
        (yaml(MATRIX).replace("]", ""), "does not end"),
        (yaml(MATRIX).replace("]", "] 3"), "does not end"),
        (yaml(MATRIX) + yaml(MATRIX).partition("---\n")[2], "two nodes called 'v'"),
        ("%YAML\n" + "".join(f"a{i}: 1\n" for i in range(10_001)), "more than 10,000"),
        (xml(MATRIX).replace("</v>", ""), "closes nothing"),
        (xml(MATRIX).replace("opencv_storage", "html"), "begins with <html>"),
        (xml(MATRIX) + "<!-- ", "does not end"),
        (xml(MATRIX).replace("<dt>", "<dt></dt><dt>"), "two fields 'dt'"),
        ('<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]>', "document type"),
        ('<?xml version="1.0"?><opencv_storage>' + "<a>" * 20_000, "never closed"),
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


def test_texts_may_be_spaced_and_nested_matrices_are_not_the_words():
    spaced = json_text(MATRIX).replace(":", " \n:\t").replace(",", " , ")
    for text in (spaced, xml(MATRIX).replace("<v ", "<!-- <v> > --><v ")):
        assert read_text(text).found["v"].tolist() == [[1, 2]]
    for nested in (
        json_text(MATRIX).replace('{"v"', '{"group": {"v"') + "}",
        xml(MATRIX).replace("<v ", "<group><v ").replace("</v>", "</v></group>"),
        yaml(MATRIX).replace("   ", "      ").replace("v:", "group:\n   v:"),
    ):
        assert read_text(nested).refused == {"group": "not a matrix"}


def test_bombs_packed_pickles_and_bytes_that_are_no_text_are_refused():
    good = gzip.compress(yaml(MATRIX).encode())
    for content, message in (
        (gzip.compress(b"%YAML 1.2\n" + b" " * 30_000_000, 9), "inflates to more than"),
        (gzip.compress(pickle.dumps([1])), "pickle"),
        (b"%YAML\xff", "UTF-8"),
        (b"", "does not begin"),
        (good[:-3], "cut off"),
        (good + good, "follow the end"),
        (good[:20] + b"\xff" + good[21:], "damaged"),
    ):
        with pytest.raises(FormatError, match=message):
            read_opencv(io.BytesIO(content))
