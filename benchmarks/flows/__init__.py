"""Headrace alone, end to end: what to run while tuning."""
