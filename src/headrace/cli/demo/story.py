"""How the demo tells what it does."""

from __future__ import annotations

from headrace.cli.terminal.console import print_line

__all__ = ["Story"]


class Story:
    """Prints steps and checks, and remembers the checks that failed."""

    def __init__(self, steps: int) -> None:
        self.failed: list[str] = []
        self._steps = steps
        self._step = 0

    def step(self, title: str) -> None:
        """Begin the next step."""
        self._step += 1
        print_line()
        print_line(f"{self._step} of {self._steps}  {title}", style="bold")

    def say(self, text: str) -> None:
        """One line of what is done."""
        print_line(f"        {text}")

    def check(self, holds: bool, claim: str) -> None:
        """A claim, and whether it holds."""
        print_line(f"  {'  ok' if holds else 'FAIL'}  {claim}", style="green" if holds else "bold red")
        if not holds:
            self.failed.append(claim)
