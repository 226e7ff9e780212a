"""Positions to indices: integers only, computed and never stored."""
