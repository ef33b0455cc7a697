"""Metadata on its way to estimators inside ours, as scikit-learn routes it.

``groups`` that come with the bags are used here and may be wanted inside, too: by the selector that
a refinement begins with, by the classifier of an estimate. Who wants what is said by
``set_fit_request``, where ``sklearn.set_config(enable_metadata_routing=True)``; else metadata is
not handed on, and anything but our own is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

from numpy.typing import NDArray
from sklearn import get_config
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from bowsaw.errors import ParameterError


def router(owner: Any, **parts: Any) -> MetadataRouter:
    """Return what ``get_metadata_routing`` says of an estimator that fits others when it is fitted.

    Parameters
    ----------
    owner : estimator
        The estimator, which may want metadata itself.
    **parts
        The estimators inside; None for those that are not there.
    """
    made = MetadataRouter(owner=owner).add_self_request(owner)
    mapping = MethodMapping().add(caller="fit", callee="fit")
    there = {name: part for name, part in parts.items() if part is not None}
    return made.add(method_mapping=mapping, **there) if there else made


def handed_on(owner: Any, part: str, own: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata that a part wants for its ``fit``.

    Parameters
    ----------
    owner : estimator
        Whose ``fit`` was called.
    part : str
        The name that ``router`` was told.
    own, more : dict
        What ``fit`` was given: by parameters of its own, which the part may want, too, and beyond.
    """
    if not get_config()["enable_metadata_routing"]:
        if more:
            raise ParameterError(
                f"{type(owner).__name__}.fit was given {', '.join(sorted(more))}, and hands "
                f"metadata on to its {part} only with enable_metadata_routing=True. Say so by "
                "sklearn.set_config, or leave it out."
            )
        return {}
    given = {name: value for name, value in {**own, **more}.items() if value is not None}
    if not given:
        # Of nothing, scikit-learn makes an answer that seems to know every part.
        return {}
    routed = process_routing(owner, "fit", **given)
    return dict(routed[part]["fit"]) if part in routed else {}


def of_rows(metadata: Mapping[str, Any], bags: Sized, rows: NDArray[Any]) -> dict[str, Any]:
    """Return the metadata of some bags: an entry a bag is chosen with it, all else stays.

    Examples
    --------
    >>> import numpy as np
    >>> told = {"weight": [0.5, 1.0, 2.0], "colour": "red", "limits": (0, 9)}
    >>> of_rows(told, ["bag"] * 3, np.array([2, 0]))
    {'weight': [2.0, 0.5], 'colour': 'red', 'limits': (0, 9)}
    """
    return {
        name: _chosen(value, rows) if _n_entries(value) == len(bags) else value
        for name, value in metadata.items()
    }


def _n_entries(value: Any) -> int:
    """Return how many entries something has, -1 for what is one thing."""
    if isinstance(value, str | bytes | Mapping):
        return -1
    shape = getattr(value, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else -1
    return len(value) if hasattr(value, "__len__") else -1


def _chosen(value: Any, rows: NDArray[Any]) -> Any:
    """Return the entries of some rows, in the same kind of container where it has rows."""
    if hasattr(value, "iloc"):
        return value.iloc[rows]
    if hasattr(value, "shape"):
        # Some sparse matrices have no rows to choose.
        return (value.tocsr() if hasattr(value, "tocsr") else value)[rows]
    return [value[row] for row in rows]
