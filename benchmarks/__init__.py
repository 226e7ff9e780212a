"""Measurements of Penstock: alone (``micro``, ``flows``) and beside its peers (``compare``)."""
