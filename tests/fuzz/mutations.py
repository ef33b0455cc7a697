"""Changes to bytes, texts and JSON, each drawn from a random generator and nothing else.

A *mutation* takes the bytes of an input and a ``random.Random`` and returns other bytes. It must
work on any bytes, because its input may have been through others; one that knows a structure
(``structures.py``) falls back to plain changes of bytes where the structure is broken.
"""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Mutation = Callable[[bytes, Random], bytes]

LONGEST = 1 << 16
"""Inputs are cut here: what a reader does wrong, it does wrong on small files too."""

NUMBERS = (
    *(0, 1, 2, 3, 4, 7, 8, 16, 64, 127, 128, 255, 256, 1000, 4096, 32767, 32768, 65535, 65536),
    *(2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1),
)
"""Integers at the limits of formats and machines."""

_PLAIN = 'nan inf -1 1e999 99999999999999999999 0x10 null {} [] "" \' \\u0000 %s <!-- --- !! &a *a'
TOKENS = (
    *(b"\0", b"\xff" * 4, b"\n", b"\r\n", b" ", b"\xef\xbb\xbf", b"../", b"/"),
    *(b"\xed\xa0\x80", b"\xc3\x28", b"\x80\x04", *_PLAIN.encode().split()),
)
DEEP = "\N{NULL}deep"


def flip(data: bytes, rng: Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def poke(data: bytes, rng: Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    value = rng.choice((0, 1, 0x20, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return data[:at] + bytes([value]) + data[at + 1 :]


def number(data: bytes, rng: Random) -> bytes:
    size = rng.choice((2, 4, 8))
    if len(data) < size:
        return data
    n_places = len(data) - size + 1
    at = rng.randrange(min(n_places, 128) if rng.random() < 0.5 else n_places)
    value = rng.choice(NUMBERS)
    if rng.random() < 0.3:
        value = len(data) + rng.randrange(-16, 17)
    order = rng.choice(("little", "big"))
    return data[:at] + (value % (1 << 8 * size)).to_bytes(size, order) + data[at + size :]


def number_in_front(data: bytes, rng: Random) -> bytes:
    """Write a number over one of the first aligned ones: where sizes and types stand."""
    at = 4 * rng.randrange(max(1, min(len(data) // 4, 24)))
    if at + 4 > len(data):
        return data
    value = rng.choice(NUMBERS) if rng.random() < 0.5 else rng.randrange(20)
    return data[:at] + (value % 2**32).to_bytes(4, "little") + data[at + 4 :]


def cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def drop(data: bytes, rng: Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice((1, 2, 4, 8, rng.randrange(1, 65))) :]


def repeat(data: bytes, rng: Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    piece = data[at : at + rng.choice((1, 4, 8, rng.randrange(1, 65)))]
    return data[:at] + piece * rng.choice((1, 1, 2, 8, 1000)) + data[at:]


def insert(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    piece = rng.choice(TOKENS) if rng.random() < 0.7 else rng.randbytes(rng.choice((1, 4, 16)))
    return data[:at] + piece + data[at:]


def swap(data: bytes, rng: Random) -> bytes:
    if len(data) < 4:
        return data
    size = rng.choice((1, 2, 4, 8, rng.randrange(1, 33)))
    a, b = sorted(rng.randrange(len(data)) for _ in range(2))
    end = min(a + size, b)
    return data[:a] + data[b : b + size] + data[end:b] + data[a:end] + data[b + size :]


def digits(data: bytes, rng: Random) -> bytes:
    places = [i for i, byte in enumerate(data[: 1 << 14]) if 48 <= byte <= 57]
    if not places:
        return flip(data, rng)
    at = rng.choice(places)
    end = at
    while end < len(data) and 48 <= data[end] <= 57:
        end += 1
    texts = (str(rng.choice(NUMBERS)), "-1", "1e309", "0.5", "nan", "00", "", "9" * 30, "1_0", "٣")
    return data[:at] + rng.choice(texts).encode() + data[end:]


BYTES: tuple[Mutation, ...] = (flip, flip, poke, number, number, cut, drop, repeat, insert, swap)
TEXT: tuple[Mutation, ...] = (*BYTES, digits, digits, digits, insert)


def change_bytes(data: bytes, rng: Random) -> bytes:
    return rng.choice(BYTES)(data, rng)


def splice(data: bytes, other: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def odd_value(rng: Random) -> Any:
    """Return a value that a reader may not expect."""
    return rng.choice(
        (
            *(None, True, False, 0, -1, 1, 1.5, -0.0, 1e308, float("nan"), float("inf"), 2**53 + 1),
            *(10**30, "", "0", "nan", "..", "../x", "/etc/passwd", "\ud800", "\0", "é", "a" * 300),
            *([], {}, [[]], [None], [1, "a"], {"": None}, DEEP, rng.choice(NUMBERS)),
        )
    )


def _children(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        return [(value, key) for key in (value if isinstance(value, dict) else range(len(value)))]
    return []


def change_value(value: Any, rng: Random) -> Any:
    places: list[tuple[Any, Any]] = []
    waiting = _children(value)
    while waiting and len(places) < 2000:
        place = waiting.pop()
        places.append(place)
        waiting += _children(place[0][place[1]])
    if not places:
        return odd_value(rng)
    holder, key = rng.choice(places)
    what = rng.randrange(6)
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, dict):
        holder[rng.choice(("", "x", "format", "..", str(key) + "x"))] = holder.pop(key)
    elif what == 2:
        other, name = rng.choice(places)
        exists = name in other if isinstance(other, dict) else name < len(other)
        holder[key] = json.loads(json.dumps(other[name])) if exists else None
    elif what == 3 and isinstance(holder, list):
        holder.extend(holder[: rng.choice((1, 3, 100))])
    elif what == 4 and isinstance(holder[key], int | float) and holder[key] == holder[key]:
        holder[key] = rng.choice((-holder[key], holder[key] + 1, holder[key] * 2, 0))
    else:
        holder[key] = odd_value(rng)
    return value


def as_json(value: Any, rng: Random) -> bytes:
    """Write a value as JSON, with ``DEEP`` as brackets deeper than Python recurses."""
    text = json.dumps(value)
    depth = rng.choice((10, 900, 3000, 20000))
    mark = json.dumps(DEEP)
    if mark in text:
        sides = rng.choice((("[", "]"), ('{"a":', "}")))
        inner = "0" if sides[0] != "[" else ""
        text = text.replace(mark, sides[0] * depth + inner + sides[1] * depth, 1)
    return text.encode("utf-8", "surrogatepass")


def change_json(data: bytes, rng: Random) -> bytes:
    try:
        value = json.loads(data)
        return as_json(change_value(value, rng), rng)
    except (ValueError, RecursionError):
        return rng.choice(TEXT)(data, rng)


def change_json_line(data: bytes, rng: Random) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    if rng.random() < 0.8:
        lines[at] = change_json(lines[at], rng)
    else:
        lines.insert(rng.randrange(len(lines) + 1), lines[at])
    return b"\n".join(lines)


def mixed(*structured: Mutation, plain: Sequence[Mutation] = BYTES, share: float = 0.6) -> Mutation:
    """Return a mutation that makes one of the structured changes, or else one of the plain."""

    def change(data: bytes, rng: Random) -> bytes:
        if structured and rng.random() < share:
            return rng.choice(structured)(data, rng)
        return rng.choice(plain)(data, rng)

    return change
