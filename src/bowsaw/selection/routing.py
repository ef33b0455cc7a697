"""Metadata on its way to estimators inside ours, as scikit-learn routes it.

``groups`` that come with the bags are used here and may be wanted inside, too: by the selector that
a refinement begins with, by the classifier of an estimate. Who wants what is said by
``set_fit_request``, where ``sklearn.set_config(enable_metadata_routing=True)``; else metadata is
not handed on, and anything but our own is refused.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.validation import _check_method_params


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
    if not _routing_enabled():
        _raise_for_params(more, owner, "fit")
        return {}
    given = {name: value for name, value in {**own, **more}.items() if value is not None}
    if not given:
        # Of nothing, scikit-learn makes an answer that seems to know every part.
        return {}
    routed = process_routing(owner, "fit", **given)
    return dict(routed[part].fit) if part in routed else {}


def of_rows(
    metadata: dict[str, Any], bags: Any, rows: NDArray[Any] | None = None
) -> dict[str, Any]:
    """Return the metadata of some bags: an entry a bag is chosen with it, all else stays."""
    found: dict[str, Any] = _check_method_params(bags, metadata, indices=rows)
    return found
