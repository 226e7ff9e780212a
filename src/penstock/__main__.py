"""``python -m penstock``."""

from __future__ import annotations

from penstock.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
