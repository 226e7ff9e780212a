"""``headrace demo``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.demo.formats import show_formats
from headrace.cli.demo.serve import show_serving, show_training
from headrace.cli.demo.steps import Files, Story, load_digits, show_doors, show_speed, write_digits
from headrace.cli.failures import DATA_FAULT
from headrace.cli.terminal import count_of, print_line, printable, size_of

__all__ = ["demo"]


def demo(
    *,
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="Where the files go.")] = Path("demo-output"),
) -> None:
    """Write, open, train, stop, resume, serve and measure on real data.

    The data are the 1,797 handwritten digits and the diabetes table that come with scikit-learn: nothing is downloaded. Every step is checked, and the exit code is 1 if a check fails.

    Examples:
      headrace demo
      headrace demo --output /tmp/digits
    """
    begun = time.monotonic()
    story = Story(steps=6)
    output.mkdir(parents=True, exist_ok=True)
    files = Files(output)

    digits = load_digits()
    story.step(f"Write the {len(digits):,} handwritten digits of scikit-learn as TFRecord and as npy")
    write_digits(digits, files)
    for path in (*files.tfrecord_shards, files.gzip, files.images, files.labels):
        story.say(f"{printable(str(path))}  {size_of(path.stat().st_size)}")

    story.step("Open both through the three doors")
    show_doors(digits, files, story)

    story.step("Train a classifier, stop in the middle of an epoch, resume")
    show_training(files, story)

    story.step("Sizes, and examples a second through the Loader and the plain way (batches of 64, one process)")
    show_speed(files, len(digits))

    story.step("The same digits in every format: what they take, and examples a second")
    show_formats(digits, output, story)

    story.step(
        "From a script to an endpoint: a training job, a transform job, Linear Learner, both behind one endpoint"
    )
    show_serving(output / "serving", story)
    _end(story, time.monotonic() - begun)


def _end(story: Story, seconds: float) -> None:
    print_line()
    if story.failed:
        print_line(f"{count_of(len(story.failed), 'check')} failed.", style="bold red")
        raise typer.Exit(DATA_FAULT)
    print_line(f"Everything holds. {seconds:.1f} s.", style="bold green")
