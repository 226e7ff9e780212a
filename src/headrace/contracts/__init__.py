"""Protocols and frozen values that every layer speaks in. Nothing here does work on data."""
