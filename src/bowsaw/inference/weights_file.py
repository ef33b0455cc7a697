"""Where the weights of a soft state lie: in memory, or in a file that goes when nobody needs it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import translate_enospc
from bowsaw.errors import ParameterError, SpaceError


def room_on_disk(
    shape: tuple[int, int], dtype: Any, folder: str | os.PathLike[str] | None
) -> NDArray[Any]:
    """Return a new memory-mapped array; its file is removed when the last user is gone.

    Parameters
    ----------
    shape : tuple of int
        Of the array.
    dtype : dtype
        Of the array.
    folder : path-like or None
        Where the file lies, in a folder of its own; None for the system's temporary folder.

    Raises
    ------
    SpaceError
        Where the disk has not enough room; nothing is left behind.
    """
    parent = Path(tempfile.gettempdir() if folder is None else folder)
    if not parent.is_dir():
        raise ParameterError(f"folder must be a folder that exists; got {str(parent)!r}.")
    n_bytes = shape[0] * shape[1] * np.dtype(dtype).itemsize
    if not n_bytes:
        return np.empty(shape, dtype=dtype)
    free = shutil.disk_usage(parent).free
    if n_bytes > free:
        raise SpaceError(
            f"the soft state needs {n_bytes} bytes on disk, and {parent} has {free} free. Give "
            "another folder=, use fewer words or bags, or truncate the codes."
        )
    own = Path(tempfile.mkdtemp(prefix="bowsaw-soft-", dir=parent))
    try:
        path = own / "weights"
        with translate_enospc(path), path.open("wb") as file:
            # Reserved now: a page that cannot be written later would kill the process.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.truncate(n_bytes)
        room = np.memmap(path, dtype=dtype, mode="r+", shape=shape)
    except BaseException:
        shutil.rmtree(own, ignore_errors=True)
        raise
    weakref.finalize(room, shutil.rmtree, own, ignore_errors=True)
    return room
