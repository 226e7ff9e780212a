"""Measurements of Headrace: alone (``micro``, ``flows``) and beside its peers (``compare``)."""
