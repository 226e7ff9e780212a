"""Shared by all formats that frame records: reading, scanning, writing."""
