"""Protocols and frozen values that every layer speaks in. Only `Strings` does work on data: its values are found and compared natively."""
