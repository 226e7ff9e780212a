"""Datasets that are known by name, each with a builder for its authors' files."""

from headrace.datasets.named.catalogue import known_builders, named_builder

__all__ = ["known_builders", "named_builder"]
