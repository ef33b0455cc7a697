"""Changes to files that have a structure, with valid lengths, checksums and digests.

A flipped bit in a file with a checksum tests the checksum alone. These mutations take the structure
apart, change one part, and put it together again, so that the code behind the checksum is reached.
"""

import ast
import gzip
import hashlib
import io
import json
import sqlite3
import struct
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import closing
from random import Random
from typing import Any

import numpy as np
from tests.fuzz.mutations import (
    BYTES,
    LONGEST,
    NUMBERS,
    Mutation,
    as_json,
    change_bytes,
    change_value,
    mixed,
    number_in_front,
    odd_value,
)


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return files as one input."""
    pieces = [struct.pack("<I", len(files))]
    for name, content in files.items():
        encoded = name.encode("utf-8", "surrogateescape")
        pieces += [struct.pack("<II", len(encoded), len(content)), encoded, content]
    return b"".join(pieces)


def unpack(data: bytes) -> dict[str, bytes]:
    """Return the files of an input; what does not fit is left out."""
    files: dict[str, bytes] = {}
    at = 4
    for _ in range(int.from_bytes(data[:4], "little")):
        if at + 8 > len(data):
            break
        name_size, size = struct.unpack_from("<II", data, at)
        at += 8
        name = data[at : at + name_size].decode("utf-8", "surrogateescape")
        files[name] = data[at + name_size : at + name_size + size]
        at += name_size + size
    return files


def in_files(kinds: Mapping[str, Mutation], *whole: Mutation) -> Mutation:
    """Return a mutation of one of several files, by how its name ends, or of all of them."""

    def change(data: bytes, rng: Random) -> bytes:
        files = unpack(data)
        if whole and rng.random() < 0.1:
            return rng.choice(whole)(data, rng)
        if not files:
            return data
        what = rng.random()
        name = rng.choice(sorted(files))
        if what < 0.03:
            del files[name]
        elif what < 0.05:
            files[rng.choice(sorted(files))] = files[name]
        else:
            ways = [way for end, way in kinds.items() if name.endswith(end)]
            files[name] = (ways[0] if ways else mixed())(files[name], rng)[:LONGEST]
        return pack(files)

    return change


_DTYPES = "<f4 <f8 |u1 <i8 <u8 >f4 |O |b1 <c8 <U3 |S4 |V4 <f2 <M8[s] <U4000000 |S0 <f16 f4 x"
_DTYPES += " (3,)<f4 <i4,<f4"
_VERSIONS = (b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x04\x00", b"\x00\x01")


def npy_parts(data: bytes) -> tuple[bytes, dict[str, Any], bytes]:
    if data[:6] != b"\x93NUMPY":
        raise ValueError("no .npy")
    start = 10 if data[6:7] == b"\x01" else 12
    end = start + int.from_bytes(data[8:start], "little")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        header = ast.literal_eval(data[start:end].decode("latin-1"))
    if not isinstance(header, dict):
        raise ValueError("no header")
    return data[:8], header, data[end:]


def npy_bytes(magic: bytes, text: str, values: bytes) -> bytes:
    width = 2 if magic[6:7] == b"\x01" else 4
    body = text.encode("latin-1", "replace")
    body += b" " * (-(len(magic) + width + len(body) + 1) % 64) + b"\n"
    length = min(len(body), 256**width - 1)
    return magic + length.to_bytes(width, "little") + body + values


def change_npy(data: bytes, rng: Random) -> bytes:
    """Change dtype, shape, order, version or values of a ``.npy``; its length may follow."""
    try:
        magic, header, values = npy_parts(data)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return change_bytes(data, rng)
    what = rng.randrange(7)
    if what == 0:
        header["descr"] = rng.choice(("", *_DTYPES.split()))
    elif what == 1:
        header["fortran_order"] = rng.choice((True, False, 1, "no", None))
    elif what in (2, 3):
        shape = list(header["shape"]) if isinstance(header.get("shape"), tuple) else [1]
        if shape and rng.random() < 0.7:
            shape[rng.randrange(len(shape))] = rng.choice((*NUMBERS[:12], 2**40, -1, 0, 1.5, True))
        else:
            shape = rng.choice(([], [0], [0, 0], [1] * 33, [2**32, 2**32], [2**62, 4], shape[::-1]))
        header["shape"] = tuple(shape)
        if what == 3:
            values = _as_long_as(header, values)
    elif what == 4:
        magic = magic[:6] + rng.choice(_VERSIONS)
    elif what == 5:
        values = change_bytes(values, rng)
    else:
        depth = rng.choice((50, 200, 5000))
        nested = "(" * depth + ")" * depth
        dropped = rng.choice(list(header) or [0])
        texts = (
            repr({**header, "extra": 1}),
            repr({k: v for k, v in header.items() if k != dropped}),
            repr(header) + "+" * 50,
            f"{{'descr': '<f4', 'fortran_order': False, 'shape': {nested}}}",
            repr(header)[:-1] + "L}",
            "-" * depth + "1",
        )
        return npy_bytes(magic, rng.choice(texts), values)
    return npy_bytes(magic, repr(header), values)


def _as_long_as(header: Mapping[str, Any], values: bytes) -> bytes:
    """Make the values as long as the header says, where that is not long."""
    try:
        size = np.dtype(header["descr"]).itemsize
        for side in header["shape"]:
            size *= side
    except (TypeError, ValueError, SyntaxError, KeyError):
        return values
    if not isinstance(size, int) or not 0 <= size <= LONGEST // 2:
        return values
    return (values * (size // max(len(values), 1) + 1))[:size].ljust(size, b"\0")


_NAMES = ("../x.npy", "/x.npy", "x/../../y.npy", "C:\\x.npy", "words.npy", "", "schema.json")
_NAMES += ("a" * 300,)
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)


def zip_members(data: bytes) -> list[tuple[str, bytes, int]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > 16 * LONGEST:
            raise ValueError("too large")
        return [(e.filename, archive.read(e), e.compress_type) for e in entries]


def zip_bytes(members: list[tuple[str, bytes, int]]) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")
        for name, content, packing in members:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = packing
            archive.writestr(entry, content)
    return buffer.getvalue()


def change_zip(inner: Mutation) -> Mutation:

    def change(data: bytes, rng: Random) -> bytes:
        try:
            members = zip_members(data)
        except Exception:
            # zipfile raises almost anything for bytes that are no archive.
            return change_bytes(data, rng)
        if not members:
            return data
        at = rng.randrange(len(members))
        name, content, packing = members[at]
        what = rng.randrange(9)
        if what < 5:
            content = inner(content, rng)[:LONGEST]
        elif what == 5:
            name = rng.choice(_NAMES)
        elif what == 6:
            packing = rng.choice(_PACKINGS)
            if rng.random() < 0.3:
                content += bytes(rng.choice((1 << 12, 1 << 18)))
        elif what == 7:
            members.insert(rng.randrange(len(members) + 1), (name, inner(content, rng), packing))
        members[at] = (name, content, packing)
        if what == 8:
            del members[at]
        changed = zip_bytes(members)
        at = changed.rfind(b"PK\1\2")
        if at < 0 or rng.random() < 0.85:
            return changed
        # The table of contents says another size than the member.
        field = at + rng.choice((10, 16, 20, 24, 42))
        value = rng.choice(NUMBERS) % 2**32
        return changed[:field] + value.to_bytes(4, "little") + changed[field + 4 :]

    return change


def change_gzip(inner: Mutation) -> Mutation:

    def change(data: bytes, rng: Random) -> bytes:
        try:
            content = zlib.decompressobj(31).decompress(data, 4 * LONGEST)
        except zlib.error:
            return change_bytes(data, rng)
        if rng.random() < 0.02:
            content += b" " * rng.choice((1 << 16, 1 << 16, 1 << 21))
        packed = gzip.compress(inner(content, rng), 1, mtime=0)
        return packed + packed if rng.random() < 0.05 else packed

    return change


_TYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "U64": "<u8", "U8": "|u1", "I32": "<i4"}


def change_safetensors(data: bytes, rng: Random) -> bytes:
    """Change the header or the tensors of a safetensors file; in four of five, sign it again."""
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + size])
    except (ValueError, RecursionError):
        return change_bytes(data, rng)
    if not isinstance(header, dict):
        return change_bytes(data, rng)
    body = data[8 + size :]
    what = rng.randrange(4)
    metadata = header.get("__metadata__")
    if what == 0:
        body = change_bytes(body, rng)
    elif what == 1 and isinstance(metadata, dict) and metadata:
        name = rng.choice(sorted(metadata, key=str))
        try:
            value = json.loads(metadata[name])
            metadata[name] = as_json(change_value(value, rng), rng).decode("utf-8", "replace")
        except (ValueError, TypeError, RecursionError):
            metadata[name] = odd_value(rng) if rng.random() < 0.5 else str(odd_value(rng))
    else:
        header = change_value(header, rng)
    if rng.random() < 0.8:
        _sign(header, body)
    try:
        text = as_json(header, rng)
    except RecursionError:
        return change_bytes(data, rng)
    return len(text).to_bytes(8, "little") + text + body


def _sign(header: Any, body: bytes) -> None:
    """Renew the digest that bowsaw's own files carry, where there is one."""
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or "digest" not in metadata:
        return
    try:
        rest = {name: text for name, text in metadata.items() if name != "digest"}
        found = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
        for name in sorted(set(header) - {"__metadata__"}):
            about = header[name]
            start, end = about["data_offsets"]
            found.update(f"{name} {_TYPES[about['dtype']]} {tuple(about['shape'])}".encode())
            found.update(body[start:end])
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError):
        return
    metadata["digest"] = found.hexdigest()


_VALUES = (None, 0, 1, -1, 2, 7, 2**31, 2**63 - 1, -(2**63), 1.5, 1e308, "", "x", "../../x", "/x")
_VALUES += ("ok", "pending", "set-aside", "0" * 16, "uint8", b"\0", "é\ud7ff", "[]", "{}", "null")


def change_sqlite(sign: Any = None) -> Mutation:

    def change(data: bytes, rng: Random) -> bytes:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            try:
                connection.deserialize(data)
                # A view without end must not stop the next mutation.
                connection.set_progress_handler(lambda: 1, 50_000)
                _change_table(connection, rng)
                if sign is not None and rng.random() < 0.7:
                    sign(connection)
                return connection.serialize()
            except (sqlite3.Error, ValueError, OverflowError, MemoryError, RecursionError):
                # For no bytes at all SQLite reports a lack of memory.
                return change_bytes(data, rng)

    return change


def _change_table(connection: sqlite3.Connection, rng: Random) -> None:
    run = connection.execute
    run("PRAGMA writable_schema = ON")
    tables = [name for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'")]
    table = rng.choice(tables or ["none"])
    columns = [row[1] for row in run(f"PRAGMA table_info({table})")]
    n_rows = run(f"SELECT count(*) FROM {table}").fetchone()[0]
    column, row = rng.choice(columns or ["none"]), rng.randrange(n_rows + 1)
    where = f"rowid = {row}"
    if "value" in columns:
        where = f"name IN (SELECT name FROM {table} LIMIT 1 OFFSET {row})"
    what = rng.randrange(12)
    if what == 0:
        run(f"DELETE FROM {table} WHERE {where}")
    elif what == 1:
        run(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
    elif what == 2:
        run(rng.choice((f"DROP TABLE {table}", f"ALTER TABLE {table} RENAME TO x")))
    elif what == 3:
        endless = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n)"
        run(f"ALTER TABLE {table} RENAME TO was_{table}")
        run(f"CREATE VIEW {table} AS {endless} SELECT i AS name, i AS value FROM n")
    elif what in (4, 5) and "value" in columns:
        text = run(f"SELECT value FROM {table} WHERE {where}").fetchone()
        try:
            value = change_value(json.loads(text[0]), rng)
        except (ValueError, TypeError, RecursionError):
            value = "7"
        new = as_json(value, rng).decode("utf-8", "replace")
        run(f"UPDATE {table} SET value = ? WHERE {where}", (new,))
    else:
        run(f"UPDATE {table} SET {column} = ? WHERE {where}", (rng.choice(_VALUES),))


def _recompressed(content: bytes, rng: Random, ways: tuple[Mutation, ...] = BYTES) -> bytes:
    try:
        plain = zlib.decompressobj().decompress(content, LONGEST)
    except zlib.error:
        return rng.choice(ways)(content, rng)
    return zlib.compress(rng.choice(ways)(plain, rng))


def change_png(data: bytes, rng: Random) -> bytes:
    chunks, at = [], 8
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    if not chunks:
        return change_bytes(data, rng)
    at = rng.randrange(len(chunks))
    kind, content = chunks[at]
    what = rng.randrange(6)
    if what == 0:
        chunks.insert(rng.randrange(len(chunks) + 1), chunks[at])
    elif what == 1:
        del chunks[at]
    elif what == 2:
        extra = rng.choice((b"tRNS", b"eXIf", b"PLTE", b"IDAT", b"IEND", b"acTL", b"sBIT"))
        chunks.insert(1, (extra, rng.randbytes(rng.choice((0, 1, 2, 6, 12)))))
    else:
        inside = kind == b"IDAT" and what == 3
        chunks[at] = (kind, (_recompressed if inside else change_bytes)(content, rng))
    return data[:8] + b"".join(
        len(content).to_bytes(4, "big")
        + kind
        + content
        + zlib.crc32(kind + content).to_bytes(4, "big")
        for kind, content in chunks
    )


def change_mat(data: bytes, rng: Random) -> bytes:
    elements, at = [], 128
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        elements.append((kind, data[at + 8 : at + 8 + size]))
        at += 8 + size
    if not elements:
        return change_bytes(data, rng)
    at = rng.randrange(len(elements))
    kind, content = elements[at]
    ways = (*BYTES, number_in_front, number_in_front)
    compressed = kind == 15 and rng.random() < 0.95
    changed = _recompressed(content, rng, ways) if compressed else rng.choice(ways)(content, rng)
    elements[at] = (kind, changed)
    if rng.random() < 0.1:
        elements.append(rng.choice(elements))
    return data[:128] + b"".join(struct.pack("<II", k, len(c)) + c for k, c in elements)
