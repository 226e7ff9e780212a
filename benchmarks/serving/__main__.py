"""``python -m benchmarks.serving``: throughput and latency at one connection and at many, every answer checked."""

from __future__ import annotations

import argparse
import contextlib
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

from benchmarks.serving.load import Load, Outcome
from benchmarks.serving.prepare import prepare
from benchmarks.serving.report import keep, markdown, setting
from benchmarks.serving.systems import SYSTEMS

ROOT = Path(__file__).parents[2]
READY_S = 120
TURNS = 5


def main(arguments=None):
    """Run the servers in turn, several rounds, and print a table."""
    options = _parser().parse_args(arguments)
    names = [name for name in options.systems or SYSTEMS if SYSTEMS[name].is_installed()]
    load_before = os.getloadavg()[0]
    quiet = [name for name in names if not SYSTEMS[name].is_never_idle]
    loud = [[names[0], name] for name in names if SYSTEMS[name].is_never_idle]
    with tempfile.TemporaryDirectory(prefix="headrace-serving-") as folder:
        answers = prepare(folder)
        found = [measure(phase, Path(folder), answers, options) for phase in [quiet, *loud] if phase]
    text = markdown(found, options.connections)
    print(text)
    if options.keep:
        keep(f"{setting(options, load_before)}\n\n{text}")
    if options.json:
        plain = [[*key, [described(one) for one in slices]] for phase in found for key, slices in phase.items()]
        Path(options.json).write_text(json.dumps(plain, indent=1))
    return 0


def measure(names, folder, answers, options):
    """Slices by name and number of connections. All these servers stay up."""
    found = {}
    with contextlib.ExitStack() as stack:
        running = {name: stack.enter_context(Running(SYSTEMS[name], answers, folder / f"{name}.log")) for name in names}
        for number in range(-1, options.rounds):
            for connections in options.connections:
                for name in names:
                    if connections == 1:
                        slice_ = by_turns_with_the_loop(running[name], answers, options.seconds)
                    else:
                        slice_ = running[name].load(connections, options.seconds)
                    if number >= 0:  # the first round warms them
                        found.setdefault((name, connections), []).append(slice_)
            print(f"{len(names)} servers, round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    return found


def by_turns_with_the_loop(server, answers, seconds):
    """Some seconds at one connection and as many of the plain loop, in short turns.

    On a shared machine the cores are slower for seconds at a time. Both must see the same of that, or their ratio says
    more about the neighbours than about the server.
    """
    whole = Outcome()
    for _ in range(TURNS):
        part = server.load(1, seconds / TURNS)
        part.loop_s = plain_loop(answers, seconds / TURNS)
        whole.add(part)
    return whole


def plain_loop(answers, seconds):
    """Seconds of each call of the chain, without any server."""
    from benchmarks.serving import stages

    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        stages.chain(answers[len(times) % len(answers)][0])
        times.append(time.perf_counter() - start)
    return times


class Running:
    """A running server that waits for its turn."""

    def __init__(self, system, answers, log):
        self._system, self._answers = system, answers
        port = free_ports(3)
        address = f"http://127.0.0.1:{port}/invocations"
        bodies = [system.body(text).encode() for text, _ in answers]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        with log.open("ab") as sink:
            self._processes = [
                subprocess.Popen(
                    command,
                    env={**environment, **variables},
                    cwd=log.parent,
                    stdout=sink,
                    stderr=sink,
                    start_new_session=True,
                )
                for command, variables in system.commands(port)
            ]
        try:
            wait_for(address, bodies[0], system.content_type, self._processes, log)
        except BaseException:
            end(self._processes)
            raise
        self._load = Load(address, bodies, system.content_type, self._check)

    def load(self, connections, seconds):
        """One turn."""
        outcome = self._load.run(connections, seconds=seconds)
        if outcome.wrong:
            raise AssertionError(f"{len(outcome.wrong)} wrong answers: {outcome.wrong[0]}")
        return outcome

    def _check(self, number, body):
        return abs(self._system.score(body) - self._answers[number][1]) < 1e-9

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self._processes)


def described(outcome):
    """The figures of a load."""
    return {
        "per_s": round(outcome.per_second, 1),
        "p50_ms": round(outcome.quantile_ms(0.5), 3),
        "p99_ms": round(outcome.quantile_ms(0.99), 3),
        "not_200": outcome.statuses.total() - outcome.statuses[200],
        "lost": outcome.lost,
        "client_cores": round(outcome.own_cpu_s / outcome.seconds, 3),
        "loop_p50_ms": round(1e3 * median(outcome.loop_s), 3) if outcome.loop_s else None,
    }


def wait_for(address, body, content_type, processes, log):
    """Wait until a request is answered."""
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
    """Stop servers and everything that they started: each leads a process group."""
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
    """The first of some consecutive free ports."""
    for port in range(9100, 20000, count):
        try:
            for offset in range(count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port + offset))
        except OSError:
            continue
        return port
    raise RuntimeError("no free ports")


def _parser():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    parser.add_argument(
        "systems", nargs="*", metavar="SYSTEM", help=f"default: all that are installed of {', '.join(SYSTEMS)}"
    )
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--seconds", type=float, default=1.0, help="a turn of one server (default: 1)")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each server (default: 8)")
    parser.add_argument(
        "--keep", action="store_true", help="keep as results/serving.md and update benchmarks/README.md"
    )
    parser.add_argument("--json", help="file for every single figure")
    return parser


if __name__ == "__main__":
    sys.exit(main())
