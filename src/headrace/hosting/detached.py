"""The process of an endpoint that outlives whoever has created it."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time

from headrace.hosting.registry import Entry
from headrace.hosting.server import bind, serve
from headrace.hosting.settings import Settings
from headrace.hosting.stage import Stage

__all__ = ["log_to_standard_error", "main"]


def log_to_standard_error(level: int = logging.INFO) -> None:
    """What endpoints say, with the time in front."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    # How the server inside starts and stops is of no interest; what goes wrong in it is.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def main() -> None:
    """Serve what is written down under a name. The arguments are the name, and the descriptor that is the claim on it.

    The descriptor stays open, and locked, until this process ends.
    """
    entry, claim = Entry(sys.argv[1]), int(sys.argv[2])
    inheritable = False
    os.set_inheritable(claim, inheritable)
    log_to_standard_error()
    spec = entry.read("spec")
    settings = Settings.from_json(spec["settings"])
    sys.path.extend(folder for folder in spec["path"] if folder not in sys.path)
    stages = [Stage.from_json(plain) for plain in spec["stages"]]
    try:
        listening = bind(settings)
        serve(
            stages,
            settings,
            models=entry.folder / "models",
            direct=spec["direct"],
            title=entry.name,
            listening=listening,
            started=lambda address: entry.write(
                "state", {"address": address, "pid": os.getpid(), "created": time.time()}
            ),
        )
    except Exception as error:
        logging.getLogger("headrace.hosting").exception("the endpoint %s ended", entry.name)
        with contextlib.suppress(OSError):
            entry.write("state", {"failure": f"{type(error).__name__}: {error}"})
        sys.exit(1)
