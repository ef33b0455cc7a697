"""All readers under test, by name."""

from tests.fuzz.subjects import codebooks, commands, images, runs, stores

READERS = {
    reader.name: reader
    for module in (codebooks, stores, runs, images, commands)
    for reader in module.READERS
}
