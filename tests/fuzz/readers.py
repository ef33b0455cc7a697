"""All readers under test, by name."""

from __future__ import annotations

from tests.fuzz.engine import Reader
from tests.fuzz.subjects import commands, pictures, runs, stores, vocabularies

READERS: dict[str, Reader] = {
    reader.name: reader
    for room in (vocabularies, stores, runs, pictures, commands)
    for reader in room.READERS
}
