"""Exact nearest words of descriptors."""
