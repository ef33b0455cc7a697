"""What the things in a C header are called, so that several headers fit into one program.

All that a header defines begins with one name, in small letters for types, tables and functions and
in capitals for macros: ``bowsaw_code``, ``BOWSAW_N_WORDS``. Another name gives ``rooms_code`` and
``ROOMS_N_WORDS``. Names are of small letters alone, since two that differed in capitals would share
their macros, the guard among them, and the second header would be passed over in silence. Two
underscores in a row are reserved in C++.
"""

from __future__ import annotations

import re

from bowsaw.errors import ParameterError

USUAL = "bowsaw"
"""The name in the texts."""

_MOST_LETTERS = 40
"""With the longest ending, all letters still count: 63 do in C99."""
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_WITH_NAME = re.compile(rf"\b({USUAL}|{USUAL.upper()})(?=_)")
_KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor
    bool break case catch char char8_t char16_t char32_t class co_await co_return co_yield compl
    concept const const_cast consteval constexpr constinit continue contract_assert decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if
    inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public reflexpr register reinterpret_cast requires restrict return short signed sizeof
    static static_assert static_cast struct switch synchronized template this thread_local throw
    true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile
    wchar_t while xor xor_eq
    """.split()  # noqa: SIM905 (a list of quoted words is harder to read)
)


def check_name(name: object) -> str:
    """Return a name for the things in a header, or say what it must be.

    Examples
    --------
    >>> check_name("rooms")
    'rooms'
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MOST_LETTERS:
        raise ParameterError(
            f"name must be 1 to {_MOST_LETTERS} small letters, digits and single underscores, the "
            f"first a letter and the last no underscore; got {name!r}. Try «rooms»."
        )
    if name in _KEYWORDS:
        raise ParameterError(
            f"name must not be a keyword of C or C++; got {name!r}. Try «{name[:20]}_words»."
        )
    return name


def named(text: str, name: str) -> str:
    """Return C text with another name in front of all that it defines.

    Examples
    --------
    >>> named("#define BOWSAW_N_WORDS 2 /* of bowsaw_words, by bowsaw */", "rooms")
    '#define ROOMS_N_WORDS 2 /* of rooms_words, by bowsaw */'
    """
    return _WITH_NAME.sub(lambda found: name if found[1] == USUAL else name.upper(), text)
