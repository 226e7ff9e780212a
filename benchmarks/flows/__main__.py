"""``python -m benchmarks.flows``: the same as ``python -m benchmarks.flows.epoch``."""

from __future__ import annotations

import sys

from benchmarks.flows.epoch import main

sys.exit(main())
