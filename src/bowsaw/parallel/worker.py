"""What happens on a worker of a cluster."""

from __future__ import annotations

import platform
import socket
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from bowsaw._version import __version__
from bowsaw.errors import ClusterError, ParameterError
from bowsaw.parallel.threads import single_threaded_blas


def dask_distributed() -> Any:
    """Return Dask's package, or say how to get it."""
    try:
        import distributed
    except ImportError as error:
        raise ParameterError(
            f"a cluster needs Dask, which is not installed ({error}). Add it with «pip install "
            "'bowsaw[dask]'»."
        ) from error
    return distributed


@cache
def versions() -> dict[str, str]:
    """Return the versions of everything that decides the bytes of a result.

    Examples
    --------
    >>> sorted(versions())
    ['Dask', 'NumPy', 'OpenCV', 'Python', 'bowsaw', 'numba']
    """
    import cv2
    import numba
    import numpy

    return {
        "bowsaw": __version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "NumPy": numpy.__version__,
        "numba": numba.__version__,
        "OpenCV": cv2.__version__,
        "Dask": dask_distributed().__version__,
    }


def look(paths: Mapping[str, int | None]) -> tuple[str, dict[str, str], list[str]]:
    """Tell where this worker is, what it has, and which paths it does not see."""
    missing = [path for path, size in paths.items() if not _is_seen(Path(path), size)]
    return socket.gethostname(), versions(), missing


def _is_seen(path: Path, size: int | None) -> bool:
    try:
        return path.stat().st_size == size or size is None
    except OSError:
        return False


def compare(where: str, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise a ClusterError unless a worker has the versions that are wanted."""
    for name, version in wanted.items():
        if found.get(name) != version:
            raise ClusterError(
                f"the worker {where} has {name} {found.get(name)}, this process has {version}: "
                "results could differ. Install the same version on all machines."
            )


def call(function: Callable[..., Any], wanted: Mapping[str, str], *arguments: Any) -> Any:
    """Call a function as ``ordered_map`` of threads would; workers that joined late are checked."""
    if versions() != wanted:
        compare(socket.gethostname(), versions(), wanted)
    with single_threaded_blas():
        return function(*arguments)
