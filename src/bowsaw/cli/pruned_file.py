"""The file that ``bowsaw prune`` writes: what it says of itself, and how large it is.

The images that chose words have taught the codebook like those that it was trained on. It remembers
both, so that ``bowsaw evaluate`` refuses to test it on either.

How many words a file of so many bytes holds must be known before the search, while the numbers that
the search will leave in the file's record are not. They are cut to six digits, which bounds their
length: words are counted beside the longest record.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import ParameterError
from bowsaw.formats.vocabulary import save

LONGEST = -1.23457e-100
"""No number of six digits takes more room in a file."""


def pruned_codebook(
    book: Codebook, chosen: Codebook, bags: Bags, record: Mapping[str, Any]
) -> Codebook:
    """Return the chosen words with what is known of them.

    Parameters
    ----------
    book : Codebook
        Where they are from.
    chosen : Codebook
        The words.
    bags : Bags
        The images that chose them.
    record : mapping
        How, as JSON holds it; provenance has it under ``pruned``.

    Examples
    --------
    >>> book = Codebook([[0.0], [1.0]], trained_on=[5])
    >>> bags = Bags.from_list([[[0.2]], [[0.9]]], digests=[7, 8])
    >>> small = pruned_codebook(book, book.only([1]), bags, {"score": 0.123456789})
    >>> small.trained_on.tolist(), small.provenance
    ([5, 7, 8], {'pruned': {'score': 0.123457}})
    """
    told = {"pruned": _shortened(record)}
    if "pruned" in book.provenance:
        told["pruned"]["before"] = book.provenance["pruned"]
    return Codebook(
        chosen.words,
        chosen.ids,
        scale=chosen.scale,
        metric=chosen.metric,
        description=chosen.description,
        provenance={**book.provenance, **chosen.provenance, **told},
        trained_on=book.learned_from(bags).trained_on,
    )


def most_words(limit: int, book: Codebook, longest: Callable[[int], Codebook]) -> int:
    """Return how many words of ``book`` a file of at most ``limit`` bytes holds.

    Parameters
    ----------
    limit : int
        Bytes.
    book : Codebook
        The words to choose from.
    longest : callable
        Returns a codebook of so many words with the longest record there can be.

    Examples
    --------
    >>> book = Codebook([[0.0]] * 40)
    >>> most_words(10**6, book, lambda n: book.only(book.ids[:n]))
    40
    """
    least, a_word = _file_bytes(longest(1)), 4 * book.n_dims + 8
    if least > limit:
        raise ParameterError(
            f"--max-bytes must be at least {least} (one word and its record); got {limit}. "
            "Allow more."
        )
    # The header grows with the digits of the shapes, so this is what fits or a little more.
    n_words = min(book.n_words, 1 + (limit - least) // a_word)
    while _file_bytes(longest(n_words)) > limit:
        n_words -= 1
    return n_words


def _file_bytes(codebook: Codebook) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "longest.safetensors"
        save(codebook, path)
        return path.stat().st_size


def _shortened(value: Any) -> Any:
    """Return a record with its numbers cut to six digits."""
    if isinstance(value, Mapping):
        return {name: _shortened(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
