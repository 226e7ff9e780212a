"""``headrace transform``: batch transform."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.endpoints import Scripts, stages_of
from headrace.cli.options import AsJson, OnOption, RayAddress, RunsOn, path_in
from headrace.cli.terminal import note, print_json, print_line
from headrace.hosting.registry import state_folder
from headrace.jobs.store import PathStore
from headrace.jobs.transform.running import transform as run_job
from headrace.jobs.transform.spec import TransformSpec
from headrace.sagemaker.session import name_from_base

__all__ = ["transform"]


def transform(
    models: Annotated[
        list[Path],
        typer.Argument(
            parser=path_in,
            metavar="MODEL...",
            show_default=False,
            help="model.tar.gz files. Several make a pipeline.",
        ),
    ],
    *,
    input: Annotated[
        Path,
        typer.Option(
            "--input", parser=path_in, metavar="PATH", show_default=False, help="A file, or a folder of files."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", parser=path_in, metavar="FOLDER", show_default=False, help="Folder for FILE.out."),
    ],
    script: Scripts = [],  # noqa: B006 - typer makes a new one
    content_type: Annotated[str, typer.Option("--content-type", help="Content type of the files.")] = "text/csv",
    accept: Annotated[
        str | None, typer.Option("--accept", show_default=False, help="Content type of the answers.")
    ] = None,
    split: Annotated[str, typer.Option("--split", help="None, Line, RecordIO or TFRecord.")] = "None",
    strategy: Annotated[
        str | None, typer.Option("--strategy", show_default=False, help="MultiRecord or SingleRecord.")
    ] = None,
    assemble: Annotated[str, typer.Option("--assemble", help="None or Line.")] = "None",
    join: Annotated[bool, typer.Option("--join", help="Join each input with its answer.")] = False,
    input_filter: Annotated[
        str, typer.Option("--input-filter", help="JSONPath of the part that the model receives.")
    ] = "$",
    output_filter: Annotated[str, typer.Option("--output-filter", help="JSONPath of the part that is written.")] = "$",
    max_payload_mb: Annotated[
        int | None,
        typer.Option("--max-payload", metavar="MB", show_default=False, help="Largest request; 6 by default."),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", show_default=False, help="Concurrent requests; 1 by default.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", show_default=False, help="Name of the job. A killed job resumes under the same name."),
    ] = None,
    on: OnOption = RunsOn.PROCESSES,
    address: RayAddress = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", show_default=False, help="Workers on Ray.  [default: as many as the cluster holds]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run batch transform: send files through a model, or through several in series.

    If a file fails, it is reported, the others continue, and the exit code is 1.

    Examples:
      headrace transform featurizer.tar.gz --script featurizer.py --input abalone.csv --output features --accept text/csv
      headrace transform linear.tar.gz --input features --output scores --split Line --assemble Line --accept application/jsonlines
      headrace transform model.tar.gz --input rows --output scores --on ray --address 10.0.0.1:6379 --workers 16
    """
    if on != RunsOn.RAY and (address is not None or workers is not None):
        raise ValueError("--address and --workers go with --on ray")
    if not input.exists():
        raise FileNotFoundError(2, "No such file or directory", str(input))
    spec = TransformSpec(
        name=name or name_from_base("transform"),
        input_uri=str(input.absolute()),
        content_type=content_type,
        split_type=split,
        strategy=strategy,
        assemble_with=assemble,
        accept=accept,
        output_path=str(output.absolute()),
        max_payload_mb=max_payload_mb,
        max_concurrent_transforms=concurrency,
        input_filter=input_filter,
        output_filter=output_filter,
        join_source="Input" if join else "None",
    )
    record = run_job(
        spec,
        stages_of(models, script),
        PathStore(),
        work_dir=state_folder() / "transform-jobs",
        on_line=note,
        resume=name is not None,
        progress=True,
        on=on.value,
        address=address,
        workers=workers,
    )
    if as_json:
        print_json(record.content)
    else:
        print_line(str(output))
