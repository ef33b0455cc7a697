"""Files that survive: atomic writes, locks, and one way to resume interrupted work.

``atomic_write`` writes to a temporary file in the same folder, flushes it to disk and renames it.
``exclusive`` holds a lock of the operating system (``filelock``), which ends with its process.

**Resuming** follows one rule. A :class:`Checkpoint` stores the *fingerprint* of its work: all
settings and data that the result depends on. With the same fingerprint the work continues. Another
one, or an unreadable file, is refused with the reason, and the file is kept; a command starts again
only with ``--overwrite``. The caller removes the file after the result is on disk, and only if it
is a checkpoint.

A checkpoint is a safetensors file: a JSON record and arrays, with a digest of both. Append-only
records are JSON lines (:class:`JsonLines`): complete lines survive a kill at any moment.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import secrets
import time
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from bowsaw.errors import BusyError, FormatError, MismatchError, SpaceError, StoreError
from bowsaw.validation import canonical_json, json_value, parse_json

# EDQUOT is a quota, EFBIG a limit on the size of files; not every system has them.
_FULL = {getattr(errno, name, errno.ENOSPC) for name in ("ENOSPC", "EDQUOT", "EFBIG")}
_REFUSED = {
    getattr(errno, f"E{name}", errno.EACCES)
    for name in ("ROFS", "ACCES", "PERM", "NOTDIR", "ISDIR", "EXIST", "LOOP", "NAMETOOLONG", "IO")
}
_MAX_NAME = 255
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}\.partial", re.DOTALL)
_MAX_EMPTY = 2**20
_CHECKPOINT = "bowsaw-checkpoint"
_SHORT = 30
_MAX_EMPTY_TEXT = 1024


@contextmanager
def translate_write_errors(path: object) -> Iterator[None]:
    """Turn what the system says of a write into a SpaceError or a StoreError with a remedy."""
    try:
        yield
    except SpaceError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise SpaceError(
                error.errno,
                f"the disk is full while writing {path}. Free some space and run the same "
                "command again; finished work is kept.",
            ) from error
        if error.errno in _REFUSED:
            raise StoreError(
                f"{path} cannot be written: {error.strerror}. Choose another place, or make this "
                "one writable, and run the command again; finished work is kept."
            ) from error
        raise


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are missing."""
    with translate_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that appears under its name only when it is complete and on disk.

    A symbolic link is followed, and an existing file keeps its permissions. Temporary files that a
    killed process has left of the same file are removed.
    """
    target = Path(os.path.realpath(path))
    _remove_abandoned(target)
    with translate_write_errors(target):
        handle, partial = _open_temporary(target)
        try:
            with os.fdopen(handle, "wb") as file:
                with suppress(OSError):
                    partial.chmod(target.stat().st_mode & 0o7777)
                yield file
                file.flush()
                os.fsync(file.fileno())
                if fcntl is not None:
                    # Closing ends the lock, without which the file counts as abandoned.
                    partial.replace(target)
            if fcntl is None:
                partial.replace(target)
        except BaseException:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
    # The rename has happened; a folder that cannot be synchronised does not undo it.
    with suppress(OSError):
        sync_folder(target.parent)


def _open_temporary(target: Path) -> tuple[int, Path]:
    """Make a temporary file beside ``target`` and lock it for as long as it is open."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        tail = f".{secrets.token_hex(6)}.partial"
        head = os.fsencode(target.name)[: _MAX_NAME - len(tail) - 1]
        partial = target.with_name("." + os.fsdecode(head) + tail)
        handle = os.open(partial, flags, 0o666)
        if fcntl is None:
            return handle, partial
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if partial.exists():
            return handle, partial
        # Another process took it for abandoned before it was locked.
        os.close(handle)


def is_temporary(name: str) -> bool:
    """Return whether a file has the name of a temporary file of ``atomic_write``."""
    return _TEMPORARY.fullmatch(name) is not None


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files of ``target``, and of its checkpoints, that no process has locked."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(target.parent) as entries:
        start = f".{target.name}."
        for entry in entries:
            if entry.name.startswith(start) and is_temporary(entry.name):
                with suppress(OSError):
                    handle = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
                    try:
                        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        Path(entry.path).unlink()
                    finally:
                        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` durable, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def regular_bytes(path: Path) -> bytes:
    """Return the content of a regular file; a pipe or device is "not found", not waited for."""
    require_regular(path)
    return path.read_bytes()


def require_regular(path: Path) -> None:
    """Raise FileNotFoundError unless ``path`` is a regular file."""
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


@contextmanager
def exclusive(path: str | os.PathLike[str], what: str = "") -> Iterator[None]:
    """Hold the lock of an output (a file, or a folder), or raise a BusyError at once.

    A folder is locked by ``writer.lock`` inside it, which stays and means nothing; a file by
    ``NAME.lock``, which is removed with the lock. A symbolic link has the lock of what it leads to.
    ``what`` names the output in messages.
    """
    from filelock import FileLock, Timeout

    output = Path(path)
    named = f"the {what} {output}" if what else str(output)
    is_folder = output.is_dir()
    lock_path = output / "writer.lock" if is_folder else Path(f"{os.path.realpath(output)}.lock")
    if os.path.lexists(lock_path) and (not lock_path.is_file() or lock_path.stat().st_size):
        raise StoreError(f"{lock_path} is not a lock of bowsaw. Move it away.")
    lock = FileLock(lock_path, timeout=0)
    try:
        with translate_write_errors(named):
            # The file may be removed by its holder between our opening and our locking it.
            while True:
                if not is_folder:
                    lock_path.touch()
                before = _identity(lock_path)
                with suppress(Timeout):
                    lock.acquire()
                if is_folder or before == _identity(lock_path):
                    break
                lock.release()
    except (NotImplementedError, OSError) as error:
        if isinstance(error, SpaceError):
            raise
        raise StoreError(
            f"{named} cannot be locked: {error}. Choose an output on a file system with locks."
        ) from error
    if not lock.is_locked:
        raise BusyError(
            f"another process is writing {named}. Wait for it to end, or choose another output."
        )
    try:
        yield
    finally:
        if not is_folder and before == _identity(lock_path):
            with suppress(OSError):
                lock_path.unlink()
        lock.release()


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None


_NOT_SETTINGS = frozenset(
    {"n_jobs", "verbose", "random_state", "codebook", "mapping", "checkpoint", "parallel"}
)


def json_digest(value: Any) -> str:
    """Return the SHA-256 of a JSON-able value; the order of names in mappings does not matter."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def fingerprint(**parts: Any) -> str:
    """Return the SHA-256 of named JSON-able parts, in any order."""
    return json_digest(parts)


def estimator_settings(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator that its result depends on, as JSON values."""
    found = estimator.get_params(deep=False)
    return {name: json_value(found[name]) for name in sorted(found.keys() - _NOT_SETTINGS)}


def short_digest(data: bytes | memoryview | BufferedReader) -> int:
    """Return the first 64 bits of the SHA-256 of bytes or an open file: the name of an image."""
    if isinstance(data, BufferedReader):
        found = hashlib.file_digest(data, "sha256")
    else:
        found = hashlib.sha256(data)
    return int.from_bytes(found.digest()[:8], "big")


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
) -> None:
    """Write arrays and texts with their digest; the same content gives the same bytes."""
    parts = tensors_bytes(tensors, metadata)
    with atomic_write(path) as file:
        file.writelines(parts)


def tensors_bytes(
    tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
) -> tuple[bytes, memoryview]:
    """Return the header and the rest of the file that :func:`write_tensors` writes."""
    from safetensors.numpy import save

    signed = {**metadata, "digest": tensors_digest(tensors, metadata)}
    content = memoryview(save(dict(tensors), signed))
    end = 8 + int.from_bytes(content[:8], "little")
    # safetensors writes metadata in any order.
    header = json.dumps(json.loads(bytes(content[8:end])), sort_keys=True).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header, content[end:]


def read_tensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return arrays and texts that :func:`write_tensors` wrote, or raise a ValueError."""
    from safetensors import SafetensorError, safe_open

    require_regular(path)
    try:
        with safe_open(path, "np") as file:
            metadata = dict(file.metadata() or {})
            # A copy: an array must not change when the file is replaced.
            tensors = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, TypeError, KeyError) as error:
        raise ValueError(f"it is not a complete safetensors file ({error})") from error
    if metadata.pop("digest", None) != tensors_digest(tensors, metadata):
        raise ValueError("its content does not match its checksum")
    return tensors, metadata


def tensors_digest(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> str:
    """Return the SHA-256 of arrays and texts, as files keep it."""
    found = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


class Checkpoint:
    """The state of interrupted work: a JSON record and arrays, under a fingerprint.

    Parameters
    ----------
    path : path-like or None
        The file; None for a checkpoint that is never written.
    fingerprint : mapping
        Everything that the result depends on, JSON-able. It is stored, so that a message can name
        the setting that differs.
    interval : float, default=5.0
        Seconds between two writes worth making; see ``due``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        fingerprint: Mapping[str, Any],
        interval: float = 5.0,
    ) -> None:
        self.path = None if path is None else Path(path)
        if self.path is not None and not self.path.absolute().parent.is_dir():
            raise StoreError(
                f"the checkpoint {self.path} needs an existing folder. Make the folder "
                f"{self.path.parent} first."
            )
        self._fingerprint = json_value(fingerprint)
        self._interval = interval
        self._written = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether enough time has passed for another write to be worth making."""
        return self.path is not None and time.monotonic() - self._written >= self._interval

    def load(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """Return the saved record and arrays, None without a file; refuse a file of other work."""
        if self.path is None or not os.path.lexists(self.path):
            return None
        remedy = "Move it away, or start again with --overwrite; it has been left as it is."
        try:
            arrays, metadata = read_tensors(self.path)
            if metadata.get("format") != _CHECKPOINT:
                raise ValueError("it is a file of another format")
            before, record = (parse_json(metadata[name]) for name in ("fingerprint", "record"))
            if not (isinstance(before, dict) and isinstance(record, dict)):
                raise ValueError("its record is not a mapping")
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{self.path} cannot be continued: {error}. {remedy}") from error
        difference = first_difference(before, self._fingerprint)
        if difference:
            raise MismatchError(
                f"{self.path} is the checkpoint of other work: {difference}. Use the settings it "
                "was started with, choose another output, or start again with --overwrite; it has "
                "been left as it is."
            )
        return record, arrays

    def save(
        self, record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        """Write the state atomically."""
        if self.path is None:
            return
        metadata = {
            "format": _CHECKPOINT,
            "fingerprint": canonical_json(self._fingerprint),
            "record": json.dumps(record, allow_nan=False),
        }
        write_tensors(self.path, arrays or {}, metadata)
        self._written = time.monotonic()

    def stage(self, name: str, **more: Any) -> Checkpoint:
        """Return the checkpoint of one stage of the work, in a file beside this one."""
        path = None if self.path is None else self.path.with_name(f"{self.path.name}.{name}")
        return Checkpoint(path, {**self._fingerprint, **more, "stage": name}, self._interval)


def remove_checkpoint(path: str | os.PathLike[str]) -> None:
    """Remove a checkpoint and those of its stages; refuse anything else under these names."""
    target = Path(path)
    _remove_abandoned(target.absolute())
    folder, prefix = target.absolute().parent, f"{target.name}."
    stages = [file for file in folder.iterdir() if file.name.startswith(prefix)]
    for file in [target.absolute(), *stages]:
        if is_checkpoint(file):
            with translate_write_errors(file):
                file.unlink(missing_ok=True)
        elif file == target.absolute() and os.path.lexists(file):
            raise FormatError(f"{path} is not a checkpoint of bowsaw. Move it away.")


def is_checkpoint(path: Path) -> bool:
    """Return whether a file is, or begins as, a checkpoint of ours."""
    with suppress(OSError):
        return begins_as(_CHECKPOINT, path)
    return False


def begins_as(file_format: str, path: Path) -> bool:
    """Return whether a safetensors file, possibly cut short, states this format."""
    require_regular(path)
    with path.open("rb") as file:
        n_header = int.from_bytes(file.read(8), "little")
        return f'"{file_format}"'.encode() in file.read(min(n_header, 2**20))


def first_difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the first setting that differs, as text; empty where none does."""
    for name in [*now, *before]:
        if before.get(name) != now.get(name):
            if name not in before or name not in now:
                return f"{name} was not among its settings" if name in now else f"it has a {name}"
            texts = [str(values[name]) for values in (before, now)]
            if max(map(len, texts)) > _SHORT:
                return f"its {name} was different"
            return f"its {name} was {texts[0]} and is {texts[1]}"
    return ""


class JsonLines:
    """An append-only file of JSON objects, one per line.

    Complete lines survive whatever happens to the process; a last line that was cut short is
    ignored by ``read`` and dropped by ``repair``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> Iterator[tuple[int, Any]]:
        """Yield line numbers, from 1, and values; a damaged line raises a FormatError."""
        if not self.path.exists():
            return
        if not self.path.is_file():
            raise FormatError(f"{self.path} is not a file. Move it away.")
        content = self.path.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        for number, text in enumerate(complete.splitlines(), start=1):
            try:
                value = parse_json(text)
            except ValueError as error:
                raise FormatError(
                    f"{self.path}, line {number}, is not JSON ({error}). Remove that line; the "
                    "same command measures it again."
                ) from error
            yield number, value

    def repair(self) -> None:
        """Drop a last line that was cut short."""
        if not self.path.is_file():
            return
        with translate_write_errors(self.path), self.path.open("r+b") as file:
            content = file.read()
            complete = content.rfind(b"\n") + 1
            if complete < len(content):
                file.truncate(complete)

    def append(self, line: Mapping[str, Any]) -> None:
        """Write one line and wait until it is on disk."""
        text = json.dumps(line, allow_nan=False) + "\n"
        with translate_write_errors(self.path), self.path.open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def rewrite(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Replace all lines, atomically."""
        with atomic_write(self.path) as file:
            file.writelines(f"{json.dumps(line, allow_nan=False)}\n".encode() for line in lines)


class NpzReader:
    """The arrays of an ``.npz`` file, bounded by the length of the file; a context manager.

    NumPy allocates what a header asks for and zipfile inflates without end. Here the members may
    not unpack to more than ``max_bytes`` (by default the length of the file, without compression),
    and each array must have the length of its shape. Nothing is unpickled. Damaged bytes make
    zipfile and NumPy raise many kinds of exceptions: catch ``Exception``.
    """

    def __init__(self, source: Path | BinaryIO, max_bytes: int | None = None) -> None:
        self._packings: tuple[int, ...] = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if isinstance(source, Path):
            require_regular(source)
        if max_bytes is None and isinstance(source, Path):
            self._packings, max_bytes = (zipfile.ZIP_STORED,), source.stat().st_size
        self._archive = zipfile.ZipFile(source)
        total = sum(entry.file_size for entry in self._archive.infolist())
        if max_bytes is None or total > max_bytes:
            self._archive.close()
            raise ValueError(
                f"it unpacks to {total:,} bytes, more than {max_bytes:,}: its arrays are "
                "compressed or larger than the file"
            )

    def __enter__(self) -> NpzReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    @property
    def members(self) -> list[str]:
        """The names of all members, arrays or not."""
        return self._archive.namelist()

    @property
    def names(self) -> list[str]:
        """The names of the arrays."""
        return [name.removesuffix(".npy") for name in self.members if name.endswith(".npy")]

    def __getitem__(self, name: str) -> NDArray[Any]:
        entry = self._entry(f"{name}.npy")
        with self._archive.open(entry) as member:
            return read_npy(member, entry.file_size)

    def read(self, name: str) -> bytes:
        """Return the bytes of a member, at most the length that the archive states."""
        entry = self._entry(name)
        with self._archive.open(entry) as member:
            return member.read(entry.file_size)

    def _entry(self, name: str) -> zipfile.ZipInfo:
        entry = self._archive.getinfo(name)
        if entry.compress_type not in self._packings:
            raise ValueError(f"{name} is compressed, or packed in a way other than deflate")
        return entry


def read_npy(file: IO[bytes], n_bytes: int) -> NDArray[Any]:
    """Return the numbers or texts of a ``.npy`` file of ``n_bytes``; catch ``Exception``."""
    with warnings.catch_warnings():
        # NumPy warns about headers of Python 2, which it repairs.
        warnings.simplefilter("ignore")
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError("it has another version of NumPy's format")
        # Version 3 has the layout of version 2; texts of numbers are ASCII in both.
        old = version == (1, 0)
        read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
        header = None
        with suppress(MemoryError):
            # Python's parser raises it for deep brackets, whatever memory there is.
            header = read(file)
        if header is None:
            raise ValueError("its header is nested too deeply")
        shape, _, dtype = header
        left = n_bytes - file.tell()
        # Long doubles of other systems are read as something else, without a warning.
        if dtype.kind not in "biufcSU" or dtype.char in "gG":
            raise ValueError(f"it holds {str(dtype)[:80]}, not numbers or texts")
        # Empty arrays of texts that are gigabytes long each would fit into no bytes.
        if dtype.itemsize > max(left, _MAX_EMPTY_TEXT) or min(shape, default=0) < 0:
            raise ValueError(f"its empty texts are {dtype.itemsize:,} bytes long each")
        if math.prod(shape) * dtype.itemsize != left or (0 in shape and max(shape) > _MAX_EMPTY):
            raise ValueError(f"the {left:,} bytes after its header do not have its shape {shape}")
        file.seek(0)
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return array
