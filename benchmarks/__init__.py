"""Benchmarks of Headrace: alone (``micro``, ``flows``) and compared with other libraries (``compare``)."""
