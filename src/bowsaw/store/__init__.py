"""Descriptors on disk: resumable, atomic, fingerprinted."""
