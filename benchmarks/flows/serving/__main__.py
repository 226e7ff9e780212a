"""``python -m benchmarks.flows.serving``: throughput and latency at one connection and at many, every answer checked."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks.flows.serving.load import Load
from benchmarks.flows.serving.prepare import prepare
from benchmarks.flows.serving.systems import SYSTEMS

ROOT = Path(__file__).parents[3]
READY_S = 120
WARM_S = 2.0


def main(arguments=None):
    """Run the systems in turn, several rounds, and print a table."""
    options = _parser().parse_args(arguments)
    names = [name for name in options.systems or SYSTEMS if _has(SYSTEMS[name].needs)]
    with tempfile.TemporaryDirectory(prefix="penstock-serving-") as folder:
        answers = prepare(folder)
        found = {}
        for number in range(options.rounds):
            loop_ms = plain_loop(answers, options.seconds)
            print(f"round {number + 1}: the chain in a plain loop: p50 {loop_ms:.2f} ms", flush=True)
            for name in names:
                for connections, row in measure(name, answers, options, folder):
                    row["times_loop"] = row["p50_ms"] / loop_ms
                    print(f"  {name:16} {connections:3} connections  {json.dumps(row)}", flush=True)
                    found.setdefault((name, connections), []).append(row)
    print(table(found, names, options.connections))
    if options.json:
        Path(options.json).write_text(json.dumps([[*key, rows] for key, rows in found.items()], indent=1))
    return 0


def plain_loop(answers, seconds):
    """Median of one call of the chain, without any server, in milliseconds."""
    from benchmarks.flows.serving import stages

    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        stages.chain(answers[len(times) % len(answers)][0])
        times.append(time.perf_counter() - start)
    return 1e3 * median(times)


def measure(name, answers, options, folder):
    """One system at each number of connections."""
    system = SYSTEMS[name]
    port = free_ports(3)
    address = f"http://127.0.0.1:{port}/invocations"
    bodies = [system.body(text).encode() for text, _ in answers]

    def check(number, body):
        return abs(system.score(body) - answers[number][1]) < 1e-9

    log = Path(folder, f"{name}.log").open("ab")  # noqa: SIM115 - closed below
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    processes = [
        subprocess.Popen(
            command, env={**environment, **variables}, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
        for command, variables in system.commands(port)
    ]
    try:
        wait_for(address, bodies[0], system.content_type, processes, Path(log.name))
        for connections in options.connections:
            load = Load(address, bodies, system.content_type, check)
            load.run(connections, seconds=WARM_S)
            yield connections, described(load.run(connections, seconds=options.seconds))
    finally:
        end(processes)
        log.close()


def described(outcome):
    """The figures of a load."""
    if outcome.wrong:
        raise AssertionError(f"{len(outcome.wrong)} wrong answers: {outcome.wrong[0]}")
    return {
        "per_s": round(outcome.per_second, 1),
        "p50_ms": round(outcome.quantile_ms(0.5), 2),
        "p99_ms": round(outcome.quantile_ms(0.99), 2),
        "most_ms": round(outcome.quantile_ms(1), 2),
        "not_200": sum(outcome.statuses.values()) - outcome.statuses[200],
        "lost": outcome.lost,
        "client_cores": round(outcome.own_cpu_s / outcome.seconds, 3),
    }


def table(found, names, counts):
    """Medians over the rounds, and ratios."""
    lines = []
    for connections in counts:
        lines += ["", f"### {connections} connection{'s' * (connections > 1)}", ""]
        lines += ["| server | answers/s | p50 ms | p99 ms | not 200 | p50 / plain loop | Penstock / this |"]
        lines += ["| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
        rows = {name: found[name, connections] for name in names if (name, connections) in found}
        best = median(row["per_s"] for row in rows["penstock"]) if "penstock" in rows else float("nan")
        for name, several in rows.items():
            middle = {key: median(row[key] for row in several) for key in several[0]}
            lines.append(
                f"| {SYSTEMS[name].text} | {middle['per_s']:,.0f} | {middle['p50_ms']:.1f} | {middle['p99_ms']:.1f} "
                f"| {middle['not_200']:.0f} | {middle['times_loop']:.2f} | {best / middle['per_s']:.2f} |"
            )
    return "\n".join(lines)


def wait_for(address, body, content_type, processes, log):
    """Until a request is answered."""
    deadline = time.monotonic() + READY_S
    while True:
        try:
            request = urllib.request.Request(address, data=body, headers={"Content-Type": content_type})
            with urllib.request.urlopen(request, timeout=10):
                return
        except OSError as error:
            if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
                raise RuntimeError(f"the server does not answer: {error}\n{log.read_text()[-2000:]}") from error
            time.sleep(0.2)


def end(processes):
    """Stop servers and everything that they have started: each leads a group of its own."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_ports(count):
    """The first of some ports in a row that nobody uses."""
    for port in range(9100, 20000, count):
        try:
            for offset in range(count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port + offset))
        except OSError:
            continue
        return port
    raise RuntimeError("no free ports")


def _has(module):
    return module is None or importlib.util.find_spec(module) is not None


def _parser():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flows.serving", description=__doc__)
    parser.add_argument(
        "systems", nargs="*", metavar="SYSTEM", help=f"default: all that are installed of {', '.join(SYSTEMS)}"
    )
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--seconds", type=float, default=8.0, help="per system, round and number of connections")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", help="file for every single figure")
    return parser


if __name__ == "__main__":
    sys.exit(main())
