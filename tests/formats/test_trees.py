"""Vocabulary trees are known by their content, whatever wrote it, and refused with the reason."""

from __future__ import annotations

import io
import struct

import cv2
import numpy as np
import pytest

from bowsaw.errors import FormatError
from bowsaw.formats.registry import load, reader_of


def write_tree(path, descriptor="12 255 3 0 "):
    """Write a tree of two words with the very calls that DBoW2 and DBoW3 make."""
    file = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    file.startWriteStruct("vocabulary", cv2.FileNode_MAP)
    for name, value in (("k", 2), ("L", 1), ("scoringType", 0), ("weightingType", 0)):
        file.write(name, value)
    for name, rows in (
        ("nodes", [{"nodeId": i + 1, "parentId": 0, "weight": 0.5} for i in range(2)]),
        ("words", [{"wordId": i, "nodeId": i + 1} for i in range(2)]),
    ):
        file.startWriteStruct(name, cv2.FileNode_SEQ)
        for row in rows:
            file.startWriteStruct("", cv2.FileNode_MAP | cv2.FileNode_FLOW)
            for field, value in row.items():
                file.write(field, value)
            if name == "nodes":
                file.write("descriptor", descriptor)
            file.endWriteStruct()
        file.endWriteStruct()
    file.endWriteStruct()
    file.release()


@pytest.mark.parametrize("end", [".yml", ".yml.gz", ".xml", ".json"])
def test_a_tree_of_opencv_s_storage_is_refused(tmp_path, end):
    path = tmp_path / f"tree{end}"
    write_tree(path)
    with pytest.raises(FormatError, match=r"tree of DBoW2 or DBoW3; .*'bowsaw train'.*Codebook"):
        load(path)


@pytest.mark.parametrize(
    ("name", "content", "library"),
    [
        ("orb.txt", b"10 6 0 0 \n0 0 252 188 188 242 169 0.5\n", "DBoW2"),
        ("orb", b"9 3 1 2\r\n0 0 252 188\r\n", "DBoW2"),
        ("orb.dbow3", struct.pack("<Q?I", 88877711233, False, 3) + bytes(99), "DBoW3"),
        ("orb.fbow", struct.pack("<Q", 55824124) + b"orb" + bytes(99), "FBoW"),
    ],
)
def test_a_tree_of_text_or_bytes_is_refused(tmp_path, name, content, library):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=rf"{name} cannot .* tree of {library}; .*'bowsaw train'"):
        load(tmp_path / name)


@pytest.mark.parametrize(
    "content", [b"", b"10 6 0 0", b"10 6 0 0 1\n", b"30 6 0 0\n", b"10 6 9 0\n", b"1.5 6 0 0\n"]
)
def test_other_numbers_are_no_tree(content):
    assert reader_of(io.BytesIO(content), "x") is None


def test_a_matrix_beside_words_of_a_tree_is_read(tmp_path):
    path = tmp_path / "both.yml"
    file = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    for name in ("scoringType", "weightingType", "nodes"):
        file.write(name, 1)
    file.write("vocabulary", np.eye(3))
    file.release()
    assert load(path).n_words == 3
