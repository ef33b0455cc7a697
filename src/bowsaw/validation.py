"""Validation of what users pass in: one function per type of parameter.

Every public entry point converts its input to plain values once, here, or raises an error that
names the value, the limit and the remedy. Code behind the entry points does not check again.
"""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.errors import DataError, ParameterError, did_you_mean

MAX_JSON_DEPTH = 100

Description = Mapping[str, Any]
"""How descriptors were made: a name and parameters, JSON-able. Bags and codebooks match when their
descriptions are equal."""

DTYPES = (np.uint8, np.float32)
"""The dtypes of stored descriptors."""


def check_int(
    value: object, name: str, low: int, high: int | None = None, *, remedy: str = ""
) -> int:
    """Return a parameter as an int within ``low`` and ``high``, or raise a ParameterError."""
    number = int(value) if _is_int(value) else None  # type: ignore[call-overload]
    if number is None or number < low or (high is not None and number > high):
        allowed = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ParameterError(_message(name, f"an integer {allowed}", value, remedy))
    return int(number)


def check_real(
    value: object,
    name: str,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
    remedy: str = "",
) -> float:
    """Return a parameter as a finite float within its limits, or raise a ParameterError."""
    number = float(value) if isinstance(value, numbers.Real) else math.nan
    inside = (low < number if open_low else low <= number) and (
        number < high if open_high else number <= high
    )
    if isinstance(value, bool) or not math.isfinite(number) or not inside:
        limits = []
        if low > -math.inf:
            limits.append(f"{'above' if open_low else 'of at least'} {low:g}")
        if high < math.inf:
            limits.append(f"{'below' if open_high else 'at most'} {high:g}")
        allowed = " ".join(["a finite number", " and ".join(limits)]).strip()
        raise ParameterError(_message(name, allowed, value, remedy))
    return number


def check_choice(value: object, name: str, choices: Collection[Any], *, remedy: str = "") -> Any:
    """Return a parameter that is one of ``choices``, or raise a ParameterError."""
    if not any(
        value is choice or (type(value) is type(choice) and value == choice) for choice in choices
    ):
        allowed = "one of " + ", ".join(map(repr, choices))
        near = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise ParameterError(_message(name, allowed, value, remedy or near[2:]))
    return value


def check_labels(
    y: ArrayLike | None, n_bags: int, *, n_classes: int = 2
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the classes and each bag's class as an integer from 0, or raise a DataError."""
    if y is None:
        raise DataError("this method needs labels: call fit(bags, y).")
    labels = np.asarray(y)
    check_length(labels, n_bags)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < n_classes:
        raise DataError(
            f"labels must have at least {n_classes} classes; got {len(classes)}. Without labels "
            "use Coverage, RandomSubset or FarthestPoint."
        )
    return classes, codes.astype(np.int64)


def check_length(labels: NDArray[Any], n_bags: int, name: str = "y") -> None:
    """Raise a DataError unless there is one label per bag."""
    if labels.shape != (n_bags,):
        raise DataError(f"{name} must have one label per bag ({n_bags}); got shape {labels.shape}.")


def check_scale(scale: object) -> float:
    """Return ``scale`` as a float that float32 can hold, as well as its inverse, or raise."""
    least = float(np.finfo(np.float32).tiny)
    return check_real(scale, "scale", least, 1 / least)


def check_options(
    make: Callable[..., Any], options: Mapping[str, Any], of: str, given: Collection[str] = ()
) -> None:
    """Raise a ParameterError for options that ``make`` does not accept."""
    known = [name for name in signature(make).parameters if name not in given]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ParameterError(
            f"{unknown[0]} is not an option of {of}; it has {', '.join(known) or 'none'}."
        )


def _is_int(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _message(name: str, allowed: str, value: object, remedy: str) -> str:
    return f"{name} must be {allowed}; got {value!r}." + (f" {remedy}" if remedy else "")


class ComparedByValue:
    """Equality of a dataclass of arrays, which is declared with ``eq=False``."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _is_same(_values(self), _values(other))

    def __hash__(self) -> int:
        # Equal arrays may differ in their bytes (-0.0, another dtype), but not in their shape.
        shapes = (value.shape for value in _values(self) if isinstance(value, np.ndarray))
        return hash((type(self), *shapes))


def _values(one: Any) -> list[Any]:
    return [getattr(one, field.name) for field in fields(one)]


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and np.array_equal(one, other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


def as_numbers(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return ``values`` as an array of real numbers, or raise a DataError."""
    if hasattr(values, "toarray"):
        # NumPy would wrap a sparse matrix as a single object.
        raise DataError(
            f"{name} must be a dense array; got {type(values).__name__}. Pass its toarray()."
        )
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(f"{name} must have rows of equal length: {error}") from error
    if array.size and array.dtype.kind not in "buif":
        raise DataError(f"{name} must be numeric; got dtype {array.dtype}.")
    return array


def as_descriptors(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return finite rows, ``(n_descriptors, n_dims)``, uint8 or float32, or raise a DataError."""
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


def as_integers(
    values: ArrayLike, name: str, dtype: type[np.int64] | type[np.uint64]
) -> NDArray[Any]:
    """Return ``values`` as integers of ``dtype``, or raise a DataError."""
    # As objects first: a list of small and very large integers would become floats.
    array = values if isinstance(values, np.ndarray) else np.asarray(values, dtype=object)
    integral = array.dtype.kind in "iu" or not array.size
    if array.dtype == object:
        integral = all(map(_is_int, array.flat))
    limits = np.iinfo(dtype)
    if not integral or (array.size and not limits.min <= array.min() <= array.max() <= limits.max):
        raise DataError(
            f"{name} must be integers from {limits.min} to {limits.max}; got {array.dtype} of "
            f"shape {array.shape}."
        )
    return array.astype(dtype, copy=False)


def canonical_json(value: Any) -> str:
    """Return JSON text that is equal when the values are; raises ValueError for NaN."""
    return json.dumps(value, sort_keys=True, allow_nan=False)


def json_mapping(mapping: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    """Return an independent copy of a JSON-able mapping, or raise a ParameterError."""
    if mapping is None:
        return None
    try:
        return dict(_limit_depth(json.loads(json.dumps(dict(mapping), allow_nan=False))))
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(
            f"{name} must be a mapping of JSON values (strings, finite numbers, lists, mappings): "
            f"{error}."
        ) from error


def json_value(value: Any) -> Any:
    """Return a parameter as a JSON value; what JSON cannot hold becomes its ``repr``."""
    if isinstance(value, np.generic | np.ndarray):
        return json_value(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(item) for item in value]
    return value if isinstance(value, bool | int | float | str | None) else repr(value)


def parse_json(text: str | bytes) -> Any:
    """Return the value of JSON text, or raise a ValueError, whatever the text is.

    Unlike ``json.loads`` this refuses numbers that JSON does not have (``NaN``, ``1e999``) and
    deep nesting, which otherwise raises a RecursionError.
    """
    try:
        return _limit_depth(json.loads(text, parse_constant=_finite, parse_float=_finite))
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


class Number(NamedTuple):
    """A shape of :func:`misfit`: a number between two limits."""

    low: float = -1e15
    high: float = 1e15
    whole: bool = False


def misfit(value: Any, shape: Any, name: str = "") -> str | None:
    """Return which part of a JSON value does not have its shape; None if all have.

    A shape is a type, None, a :class:`Number`, a set of alternatives as a tuple, a list with the
    shape of its elements, or a dictionary: of named values (a name that ends in "?" may be
    missing), or with the shape of all values under "*".

    Examples
    --------
    >>> shape = {"size": Number(1, whole=True), "scores?": [Number(0, 1)]}
    >>> misfit({"size": 3, "scores": [0.5, 2.0]}, shape)
    'scores.1'
    """
    if isinstance(shape, Number):
        kind = type(value)
        fits = (kind is int or (kind is float and not shape.whole)) and (
            shape.low <= value <= shape.high
        )
        return None if fits else name
    if isinstance(shape, tuple):
        return None if any(misfit(value, one, name) is None for one in shape) else name
    if isinstance(shape, list) and isinstance(value, list):
        for i, inner in enumerate(value):
            if misfit(inner, shape[0]) is not None:
                return f"{name}.{i}".lstrip(".")
        return None
    if isinstance(shape, dict) and isinstance(value, dict):
        for key in value if "*" in shape else shape:
            at = key.removesuffix("?")
            if at in value:
                part = misfit(value[at], shape.get("*", shape.get(key)), at)
                if part is not None:
                    return f"{name}.{part}".lstrip(".")
            elif at == key:
                return f"{name}.{key}".lstrip(".")
        return None
    if isinstance(shape, list | dict):
        return name
    return None if value is shape or (shape and isinstance(value, shape)) else name


def _limit_depth(value: Any) -> Any:
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
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
