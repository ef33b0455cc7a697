"""Vocabularies in files."""
