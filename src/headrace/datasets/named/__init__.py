"""Datasets that are known by name, and how each is made from the files of its authors."""

from headrace.datasets.named.catalogue import known_builders, named_builder

__all__ = ["known_builders", "named_builder"]
