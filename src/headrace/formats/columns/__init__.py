"""Columns of any kind in files for caches, not for exchange."""
