"""Checks at the door: what comes in is turned into plain values once, or refused with a reason."""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Callable, Collection, Mapping
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.errors import DataError, ParameterError

_DEEPEST = 100
"""How deeply brackets may be nested in JSON."""

Description = Mapping[str, Any]
"""What made the descriptors: a name and its parameters, JSON-able. Two bags can be coded with the
same codebook when their descriptions are equal."""

DTYPES = (np.uint8, np.float32)
"""The types in which descriptors are held."""


def canonical(description: Description | None) -> str | None:
    """Return a description as text that is equal when the descriptions are."""
    return None if description is None else json.dumps(description, sort_keys=True)


def plain_json(mapping: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    """Return a mapping as JSON gives it back: nobody else holds a part of it, and a file can."""
    if mapping is None:
        return None
    try:
        return dict(_not_too_deep(json.loads(json.dumps(dict(mapping)))))
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(
            f"{name} must be a mapping that JSON can hold (texts, numbers, lists, mappings): "
            f"{error}."
        ) from error


def parse_json(text: str | bytes) -> Any:
    """Return what JSON text says, or raise a ValueError, whatever the text is.

    Python's own reader lets through numbers that are none (``NaN``, ``1e999``), which cannot be
    written again, and leaves with a RecursionError where brackets are nested too deeply.

    Examples
    --------
    >>> parse_json(b'{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ...
    ValueError: its brackets are nested too deeply
    """
    try:
        return _not_too_deep(json.loads(text, parse_constant=_finite, parse_float=_finite))
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


def _not_too_deep(value: Any) -> Any:
    """Return a value of JSON's, or refuse it: what Python just reads, it can often not copy."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, list | dict)
        ]
        if not level:
            return value
    raise ValueError("its brackets are nested too deeply")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def check_whole(value: object, name: str, least: int, of: str = "") -> int:
    """Return a parameter as an int, or raise a ParameterError that says what it must be.

    ``of`` tells what it counts: «of pixels».

    Examples
    --------
    >>> check_whole(np.int64(3), "n_steps", 0)
    3
    """
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or int(value) < least:  # type: ignore[call-overload]
        number = f"whole number {of}" if of else "whole number"
        raise ParameterError(f"{name} must be a {number} from {least} up; got {value!r}.")
    return int(value)  # type: ignore[call-overload,no-any-return]


def check_scale(scale: object) -> float:
    """Return ``scale`` as a float, or raise a ParameterError that says what a scale is."""
    value = float(scale) if isinstance(scale, numbers.Real) else math.nan
    if not 0 < value < math.inf:
        raise ParameterError(f"scale must be a finite number above 0; got {scale!r}.")
    return value


def as_numbers(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return ``values`` as an array of real numbers, or raise a DataError."""
    if hasattr(values, "toarray"):
        # NumPy would take a sparse matrix for a single thing.
        raise DataError(
            f"{name} must be a dense array; got {type(values).__name__}. Hand over its toarray()."
        )
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(f"{name} must have rows of one length: {error}") from error
    if array.size and array.dtype.kind not in "buif":
        raise DataError(f"{name} must be numbers; got dtype {array.dtype}.")
    return array


def as_descriptors(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return ``values`` as finite rows, ``(n_descriptors, n_dims)``, or raise a DataError.

    uint8 and float32 stay as they are, and all else becomes float32.

    Examples
    --------
    >>> as_descriptors([[1, 2]], "values")
    array([[1., 2.]], dtype=float32)
    """
    array = as_numbers(values, name)
    if array.ndim != 2 or (len(array) and not array.shape[1]):
        raise DataError(
            f"{name} must be two-dimensional (descriptors, dimensions); got shape {array.shape}."
        )
    if array.dtype not in DTYPES:
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise DataError(
            f"{name} must be finite; row {bad} holds NaN, infinity or a number "
            "too large for float32. Remove such descriptors."
        )
    return np.ascontiguousarray(array)


def as_whole_numbers(
    values: ArrayLike, name: str, dtype: type[np.int64] | type[np.uint64]
) -> NDArray[Any]:
    """Return ``values`` as whole numbers of ``dtype``, or raise a DataError."""
    # As objects first: a list of small and very large whole numbers would become floats.
    array = values if isinstance(values, np.ndarray) else np.asarray(values, dtype=object)
    if array.dtype == object:
        whole = all(isinstance(v, numbers.Integral) and not isinstance(v, bool) for v in array.flat)
    else:
        whole = array.dtype.kind in "iu" or not array.size
    limits = np.iinfo(dtype)
    if not whole or (array.size and not limits.min <= array.min() <= array.max() <= limits.max):
        raise DataError(
            f"{name} must be whole numbers from {limits.min} to {limits.max}; got {array.dtype} of "
            f"shape {array.shape}."
        )
    return array.astype(dtype, copy=False)


def check_options(
    make: Callable[..., Any], options: Mapping[str, Any], of: str, given: Collection[str] = ()
) -> None:
    """Refuse options that ``make`` does not have, naming those that it has but ``given``."""
    known = [name for name in signature(make).parameters if name not in given]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ParameterError(
            f"{unknown[0]} is not an option of {of}; it has {', '.join(known) or 'none'}."
        )
