"""The three ways in which OpenCV writes a FileStorage: YAML, XML and JSON, walked for matrices.

Each walk yields the things at the top level of a file: a name, what OpenCV calls the type, and of a
matrix the fields as they stand in the text. It goes from one sign that matters to the next, once,
and keeps a count of the depth or the names of what is open; base64 is marked as JSON marks it, by
``$base64$`` in front. What OpenCV does not write (anchors, document types, CDATA) is no part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from bowsaw.errors import FormatError
from bowsaw.formats.bounded import shown

Node = tuple[str, str, dict[str, str]]
"""A name, what OpenCV calls its type, and its fields as they stand in the text."""

BASE64 = "$base64$"

_FIELDS = ("rows", "cols", "dt", "data", "sizes")
_YAML_NODE = re.compile(r"^([^\s#%.\-:][^:\n]*):[ \t]*(?:!!([\w-]+))?", re.MULTILINE)
_YAML_FIELD = re.compile(r"^[ \t]+(" + "|".join(_FIELDS) + r"):", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\n]*")
_JSON_TOKEN = re.compile(r'\s*("[^"\\]*(?:\\.[^"\\]*)*"|[][{}:,]|[^][{}:,"\s]+)')
_XML_TYPE = re.compile(r"\btype_id\s*=\s*[\"']([^\"']*)[\"']")


def yaml_nodes(text: str) -> Iterator[Node]:
    """Walk from line to line: what begins without a space is a thing of the file."""
    name = kind = ""
    begin = -1
    for match in _YAML_NODE.finditer(text):
        if begin >= 0:
            yield name, kind, _yaml_fields(text, begin, match.start(), kind)
        name, kind, begin = match[1].strip().strip('"'), match[2] or "", match.end()
    if begin >= 0:
        yield name, kind, _yaml_fields(text, begin, len(text), kind)


def _yaml_fields(text: str, begin: int, end: int, kind: str) -> dict[str, str]:
    if kind != "opencv-matrix":
        return {}
    fields: dict[str, str] = {}
    marks = list(islice(_YAML_FIELD.finditer(text, begin, end), len(_FIELDS) + 1))
    ends = [*[mark.start() for mark in marks[1:]], end]
    for mark, following in zip(marks, ends, strict=False):
        if mark[1] in fields:
            raise FormatError(f"a matrix has two fields {mark[1]!r}")
        # OpenCV ends a document with three dots when it appends another.
        value = text[mark.end() : following].partition("\n...")[0].strip()
        if value.startswith("["):
            inside, close, rest = value[1:].partition("]")
            if not close or _COMMENT.sub("", rest).strip():
                raise FormatError("a list of numbers does not end")
            value = inside
        else:
            value = _COMMENT.sub("", value)
            if value.startswith("!!binary"):
                value = BASE64 + value.removeprefix("!!binary").strip().removeprefix("|")
        fields[mark[1]] = value
    return fields


def xml_nodes(text: str) -> Iterator[Node]:
    """Walk from sign to sign: depth 1 is a thing of the file, depth 2 one of its fields."""
    open_tags: list[str] = []
    name = kind = ""
    fields: dict[str, str] = {}
    begin, binary = 0, False
    at = text.find("<")
    while at >= 0:
        if text.startswith("<!--", at):
            end = text.find("-->", at) + 2
        elif text.startswith("<?", at):
            end = text.find("?>", at) + 1
        else:
            end = text.find(">", at)
        if end < at + 2:
            raise FormatError("a tag does not end")
        tag = text[at + 1 : end]
        if tag.startswith("!") and not tag.startswith("!--"):
            raise FormatError("it has a document type or CDATA, which OpenCV does not write")
        if tag.startswith("/"):
            if not open_tags or open_tags.pop() != tag[1:].strip():
                raise FormatError(f"the tag </{shown(tag[1:], 40)}> closes what is not open")
            if len(open_tags) == 2:
                field = tag[1:].strip()
                if field in fields:
                    raise FormatError(f"{shown(name)} has two fields {shown(field)!r}")
                if kind == "opencv-matrix":
                    fields[field] = (BASE64 if binary else "") + text[begin:at]
            elif len(open_tags) == 1:
                yield name, kind, fields
        elif tag[:1] not in "!?" and not tag.endswith("/"):
            title = tag.split(None, 1)[0] if tag.strip() else ""
            typed = _XML_TYPE.search(tag)
            open_tags.append(title)
            if len(open_tags) == 1 and title != "opencv_storage":
                raise FormatError(f"it begins with <{shown(title, 40)}>, not with <opencv_storage>")
            if len(open_tags) == 2:
                name, kind, fields = title, typed[1] if typed else "", {}
            elif len(open_tags) == 3:
                begin, binary = end + 1, typed is not None and typed[1] == "binary"
        at = text.find("<", end)
    if open_tags:
        raise FormatError(f"the tag <{shown(open_tags[-1], 40)}> is never closed")


def json_nodes(text: str) -> Iterator[Node]:
    """Walk from sign to sign: depth 1 is the file's object, depth 2 that of a matrix."""
    text = text.rstrip()
    at = depth = 0
    names = ["", "", ""]
    fields: dict[str, str] = {}
    last, is_value = "", False
    while at < len(text):
        match = _JSON_TOKEN.match(text, at)
        if match is None:
            raise FormatError("a text does not end")
        token, at = match[1], match.end()
        if token.startswith("//"):
            # A comment, to the end of its line.
            line_end = text.find("\n", match.start(1))
            at = len(text) if line_end < 0 else line_end
            continue
        if token in "{[":
            depth += 1
            if token == "[" and depth == 3 and names[2] == "data":
                # The numbers in one go.
                end = text.find("]", at)
                if end < 0:
                    raise FormatError("a list of numbers does not end")
                fields["data"], at, depth = text[at:end], end + 1, 2
            elif depth == 2:
                fields, names[2] = {}, ""
        elif token in "}]":
            depth -= 1
            if depth < 0:
                raise FormatError(f"a {token} closes what is not open")
            if depth == 1:
                yield names[1], fields.get("type_id", ""), fields
        elif token == ":" and depth < 3:
            names[depth] = last
        elif is_value and depth == 2:
            fields[names[2]] = token.strip('"')
        last, is_value = token.strip('"'), token == ":"
    if depth:
        raise FormatError("it ends before its last }")
