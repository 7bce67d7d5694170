"""What one caller can do to the others: runs attacks on a service and measures it from a separate process.

python bench/attacks/run.py [NAME ...] [--on sqlite|postgresql] [--rounds N] [--project DIR] [--json FILE]

A NAME is an attack or a group of attacks; without one all of them run, for about ten minutes. Each attack
gets a new `serve` of the checkout in DIR with production settings and a fresh database. Meanwhile `/livez` on
a new connection and small reads of another viewer are due every 50 ms. The exit code is 1 if a figure is
beyond its bar. It needs Linux, a C compiler and two cores.
"""

import argparse
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent), str(HERE.parent.parent)]  # for bench/ and tests/ of this checkout

from attacks import ATTACKS, Attack  # noqa: E402
from others import memory_mib  # noqa: E402
from service import OTHER, Master, Service, serving, token  # noqa: E402
from wire import Received  # noqa: E402

from tests.postgres import running_postgres  # noqa: E402

MIB = 1024 * 1024
REST = 3  # seconds between the end of an attack and the last look at the memory
FORKED = multiprocessing.get_context("fork")
BARS = {
    "livez_ms": 250.0,
    "reads_p99_ms": 250.0,
    "failed": 0.0,
    "grown_mib": 50.0,
    "disk_mib_per_minute": 20.0,
}
Figures = dict[str, Any]


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended first
    args = read_arguments()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rows = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="care-attacks-")))
        postgres = stack.enter_context(running_postgres()) if args.on == "postgresql" else ""
        master = Master(args.project.resolve(), folder, postgres)
        master.create()
        print(HEAD, flush=True)
        for attack in args.attacks:
            for _ in range(args.rounds):
                rows.append(run(attack, master))
                print(row_of(rows[-1]), flush=True)
                if args.json:
                    args.json.write_text(json.dumps({"on": args.on, "rows": rows}, indent=1))
    return int(any(row["beyond"] for row in rows))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"{each.group:<12} {each.name:<22} {each.title}" for each in ATTACKS),
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--on", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--project", type=Path, default=HERE.parent.parent, help="the checkout that is attacked"
    )
    parser.add_argument("--json", type=Path, help="file for all figures")
    args = parser.parse_args()
    unknown = set(args.names) - {name for each in ATTACKS for name in (each.group, each.name)}
    if unknown:
        parser.error(f"no such attack: {', '.join(sorted(unknown))}")
    args.attacks = [each for each in ATTACKS if not args.names or {each.group, each.name} & set(args.names)]
    return args


def run(attack: Attack, master: Master) -> Figures:
    folder = master.folder / "service"
    folder.mkdir(exist_ok=True)
    with master.copy() as database, serving(master.project, database, folder, attack.settings) as service:
        notes = attack.prepare(service).responses if attack.prepare else {}
        with watched_by_others(service) as others:
            pid = service.process.pid
            disk, log, cpu = database.bytes(), service.log.stat().st_size, service.server.cpu_seconds()
            started = time.monotonic()
            with attacking(attack, service) as receive:
                received = receive()
                seconds = time.monotonic() - started
                figures: Figures = {
                    "attack": attack.name,
                    "title": attack.title,
                    "seconds": seconds,
                    "cpu_seconds": service.server.cpu_seconds() - cpu,
                    "log_mib": (service.log.stat().st_size - log) / MIB,
                    **others(),
                }
                if attack.holds:  # its connections until the service has ended
                    figures["exit"] = service.stop()
            time.sleep(REST)
            figures["after_mib"] = memory_mib(pid, "VmRSS")
            figures["disk_mib"] = (database.bytes() - disk) / MIB
            figures["audit_records"] = database.value("SELECT count(*) FROM audit_record")
            figures.setdefault("exit", service.stop() if not attack.holds else None)
    figures |= {"responses": received.responses, "bytes": received.bytes, "notes": received.notes}
    if set(notes) - {"200"}:
        figures["notes"]["prepared"] = notes
    figures["bars"] = bars_of(figures)
    figures["beyond"] = [name for name, value in figures["bars"].items() if value > BARS[name]]
    return figures


def bars_of(figures: Figures) -> dict[str, float]:
    failed = sum(figures["reads"]["failed"].values()) + sum(figures["livez"]["failed"].values())
    return {
        "livez_ms": figures["livez"]["worst_ms"],
        "reads_p99_ms": figures["reads"]["p99_ms"],
        "failed": failed,
        "grown_mib": max(figures["peak_mib"], figures["after_mib"]) - figures["before_mib"],
        "disk_mib_per_minute": figures["disk_mib"] * 60 / max(figures["seconds"], 10),
    }


@contextmanager
def watched_by_others(service: Service) -> Iterator[Callable[[], Figures]]:
    """The block starts when the others are measured; calling its value ends that."""
    command = [sys.executable, HERE / "others.py", str(service.port), str(service.process.pid), token(OTHER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield lambda: json.loads(process.communicate("end\n")[0])
        finally:
            process.kill()


@contextmanager
def attacking(attack: Attack, service: Service) -> Iterator[Callable[[], Received]]:
    """The attack in a process of low priority. Its connections last as long as the block."""

    def work() -> None:
        os.nice(10)
        theirs.send(attack.run(service))
        theirs.recv()

    ours, theirs = FORKED.Pipe()
    process = FORKED.Process(target=work)
    process.start()
    theirs.close()
    try:
        yield ours.recv
    finally:
        process.kill()
        process.join()


HEAD = (
    f"{'attack':<24} {'s':>5} {'livez ms':>15} {'reads ms':>23} {'failed':>12} {'memory MiB':>16}"
    f" {'disk MiB':>8} {'log MiB':>7} {'cpu s':>5} {'exit':>8}  received"
)


def row_of(row: Figures) -> str:
    livez, reads, ended = row["livez"], row["reads"], row["exit"]
    failed = f"{row['bars']['failed']:.0f}/{livez['count'] + reads['count']}"
    received = ", ".join(f"{count} x {status}" for status, count in sorted(row["responses"].items()))
    received += f", {row['bytes'] / MIB:.1f} MiB"
    more = "".join(f"; {name} {value}" for name, value in row["notes"].items())
    beyond = f"  BEYOND: {', '.join(row['beyond'])}" if row["beyond"] else ""
    return (
        f"{row['attack']:<24} {row['seconds']:5.1f} {livez['median_ms']:7.1f} {livez['worst_ms']:7.0f}"
        f" {reads['median_ms']:7.1f} {reads['p99_ms']:7.0f} {reads['worst_ms']:7.0f} {failed:>12}"
        f" {row['before_mib']:4.0f} {row['peak_mib']:5.0f} {row['after_mib']:5.0f}"
        f" {row['disk_mib']:8.1f} {row['log_mib']:7.2f} {row['cpu_seconds']:5.1f}"
        f" {ended['code']!s:>2} {ended['seconds']:4.1f}s  {received}{more}{beyond}"
    )


if __name__ == "__main__":
    sys.exit(main())
