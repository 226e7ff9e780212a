"""Columns of any kind in files of their own, for caches: no format to exchange data in."""
