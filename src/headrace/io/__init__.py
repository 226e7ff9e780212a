"""Bytes in and bytes out: paths, mapped files, compression, the cache folder, whole-or-nothing writing."""
