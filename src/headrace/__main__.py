"""``python -m headrace``."""

from __future__ import annotations

from headrace.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
