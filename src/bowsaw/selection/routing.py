"""Metadata for estimators inside ours, as scikit-learn routes it.

``groups`` that come with the bags may be requested inside, too, by ``set_fit_request`` with
``sklearn.set_config(enable_metadata_routing=True)``. Otherwise metadata is not passed on, and
anything but our own is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

from numpy.typing import NDArray
from sklearn import get_config
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from bowsaw.errors import ParameterError


def router(owner: Any, **parts: Any) -> MetadataRouter:
    """Return the metadata routing of an estimator that fits others, None for absent ones."""
    made = MetadataRouter(owner=owner).add_self_request(owner)
    mapping = MethodMapping().add(caller="fit", callee="fit")
    there = {name: part for name, part in parts.items() if part is not None}
    return made.add(method_mapping=mapping, **there) if there else made


def handed_on(owner: Any, part: str, own: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata that a part requests, of its owner's parameters and of ``more``."""
    if not get_config()["enable_metadata_routing"]:
        if more:
            raise ParameterError(
                f"{type(owner).__name__}.fit was given {', '.join(sorted(more))}, and passes "
                f"metadata on to its {part} only with enable_metadata_routing=True. Set it by "
                "sklearn.set_config, or leave it out."
            )
        return {}
    given = {name: value for name, value in {**own, **more}.items() if value is not None}
    if not given:
        # Without any, scikit-learn returns a routing that has every part.
        return {}
    routed = process_routing(owner, "fit", **given)
    return dict(routed[part]["fit"]) if part in routed else {}


def of_rows(metadata: Mapping[str, Any], bags: Sized, rows: NDArray[Any]) -> dict[str, Any]:
    """Return the metadata of some bags: entries per bag are chosen, all else stays."""
    return {
        name: _chosen(value, rows) if _n_entries(value) == len(bags) else value
        for name, value in metadata.items()
    }


def _n_entries(value: Any) -> int:
    """Return the number of entries, -1 for a single value."""
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
