"""The yardstick: do this project and its peers answer eight operations and a mixture rightly, and how fast?

python bench/run.py check                  compare every answer with the right one
python bench/run.py bench                  the same, then time each operation under load and print tables
python bench/run.py report --json FILE     print the tables of an earlier `bench --json FILE` again
python bench/run.py peers                  install the peers that need it
"""

import argparse
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import expected
from comparison import EVENING, WRITES, what_is_wrong
from evening import CALLERS, Evening
from expected import Values
from load import Pace, has_wrk, measure
from postgres import running_postgres
from report import OPERATIONS, PROJECT, Figures, Round, print_report
from servers import (
    BENCH,
    HOME,
    WORK,
    Request,
    Server,
    Target,
    data_folder,
    filled,
    free_port,
    master_database,
    new_request,
    on_core,
    read_targets,
    running,
)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a started server is ended first
    args = read_arguments()
    if args.command == "report":
        stored = json.loads(args.json.read_text())
        targets, bars = read_targets(stored.get("on", "sqlite"))
        print_report(stored["rounds"], labels_of(targets), bars)
        return 0
    targets, bars = read_targets(args.on)
    if args.command == "bench" and not has_wrk():
        print("wrk is not installed: timing needs it, `check` does not.", file=sys.stderr)
        return 2
    WORK.mkdir(parents=True, exist_ok=True)
    if args.command == "peers":
        return install_peers()
    copy_node_peers()

    with ExitStack() as stack:
        server = None
        if args.on == "postgresql":
            server = stack.enter_context(running_postgres(HOME / "postgres", free_port(), on_core(0)))
        wanted = args.target or default_targets(targets, bars)
        rounds = all_rounds([replace(targets[name], postgres=server) for name in wanted], args)
    if args.command == "bench":
        print_report(rounds, labels_of(targets), bars)
        if args.json:
            settings = {
                name: getattr(args, name) for name in ("on", "scale", "connections", "seconds", "warm")
            }
            args.json.write_text(json.dumps({**settings, "rounds": rounds}, indent=1))
    return int(any("wrong" in r or any("wrong" in f for f in r["operations"].values()) for r in rounds))


def all_rounds(targets: list[Target], args: argparse.Namespace) -> list[Round]:
    if args.command == "bench" and args.turns:
        return rounds_by_turns(targets, args)
    return [
        one_round(target, args, fresh=args.fresh and repetition == 0)
        for repetition in range(args.reps if args.command == "bench" else 1)
        for target in targets
    ]


def labels_of(targets: dict[str, Target]) -> dict[str, str]:
    return {name: target.spec["label"] for name, target in targets.items()}


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["check", "bench", "report", "peers"])
    parser.add_argument(
        "-t",
        "--target",
        action="append",
        help=f"may be repeated; default {PROJECT} and its peers",
    )
    parser.add_argument(
        "-o", "--op", action="append", choices=list(OPERATIONS), help="may be repeated; default all"
    )
    parser.add_argument("--on", choices=["sqlite", "postgresql"], default="sqlite", help="the database")
    parser.add_argument("--scale", type=int, default=1, help="N times the sessions and assignments")
    parser.add_argument("--reps", type=int, default=3, help="rounds, the targets taking turns")
    parser.add_argument("--seconds", type=int, default=8, help="timed, per operation")
    parser.add_argument("--warm", type=int, default=2, help="seconds of load before that")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument(
        "--turns", action="store_true", help="all servers are up, and take turns in each operation"
    )
    parser.add_argument("--fresh", action="store_true", help="import the data set again")
    parser.add_argument("--json", type=Path, help="file that keeps the figures")
    args = parser.parse_args()
    if args.command == "report" and not args.json:
        parser.error("report needs --json FILE")
    if unknown := set(args.target or []) - set(targets := read_targets(args.on)[0]):
        parser.error(f"unknown target on {args.on}: {', '.join(unknown)}; known are {', '.join(targets)}")
    args.op = args.op or list(OPERATIONS)
    return args


def default_targets(targets: dict[str, Target], bars: dict[str, Any]) -> list[str]:
    """The project and the peers it has bars against, as far as they are installed."""
    missing = [
        name for name in bars if not Path(filled(targets[name].spec["needs"], {"home": HOME})).exists()
    ]
    if missing:
        print(f"left out, as not installed: {', '.join(missing)}; `bench/run.py peers` installs what it can")
    return [PROJECT, *(name for name in bars if name not in missing)]


class Started(NamedTuple):
    """A target that is up, with what it is asked and the truth it is compared with."""

    target: Target
    server: Server
    truth: sqlite3.Connection
    values: dict[str, list[Values]]
    requests: dict[str, list[Request]]
    evening: Evening
    operations: list[str]  # reads first

    def next_requests(self, operation: str, number: int) -> list[tuple[str, Request]]:
        if operation == EVENING:
            return list(self.evening.requests(number))
        return [(operation, each) for each in self.requests[operation]]


@contextmanager
def started(target: Target, args: argparse.Namespace, fresh: bool) -> Iterator[Started]:
    data = data_folder(args.scale)
    master = master_database(target, data, fresh)
    with running(target, master, data) as server:
        truth = expected.open_dataset(data / "dataset.db")
        operations = sorted({*target.spec.get("measured", target.operations)} & {*args.op}, key=in_order)
        compared = [op for op in target.operations if op in OPERATIONS and {op, EVENING} & {*operations}]
        values = {op: expected.request_values(truth, op) for op in compared}
        requests = {op: [new_request(target, op, v) for v in values[op]] for op in values}
        yield Started(target, server, truth, values, requests, Evening(target, truth), operations)


def one_round(target: Target, args: argparse.Namespace, fresh: bool) -> Round:
    """One start of one target: each operation is compared first, then timed, reads before writes."""
    print(target.name, flush=True)
    result: Round = {"target": target.name, "load_before": os.getloadavg()[0], "operations": {}}
    try:
        with started(target, args, fresh) as one:
            for op in one.operations:
                result["operations"][op] = figures = compared_and_timed(one, op, args)
                print(f"  {op}  {in_words(figures)}", flush=True)
    except Exception as error:  # whatever it is, the other targets go on
        result["wrong"] = f"{type(error).__name__}: {error}"
        print(f"  FAILED: {result['wrong']}", flush=True)
    return result


def rounds_by_turns(targets: list[Target], args: argparse.Namespace) -> list[Round]:
    """The same with all of them up at once: what disturbs the machine for a while disturbs them alike."""
    with ExitStack() as stack:
        every = [stack.enter_context(started(target, args, args.fresh)) for target in targets]
        results: list[list[Round]] = [
            [{"target": one.target.name, "operations": {}} for one in every] for _ in range(args.reps)
        ]
        for op in sorted({op for one in every for op in one.operations}, key=in_order):
            for results_of_turn in results:
                for one, result in zip(every, results_of_turn, strict=True):
                    if op in one.operations:
                        result["operations"][op] = figures = compared_and_timed(one, op, args)
                        print(f"  {op}  {one.target.name:16}{in_words(figures)}", flush=True)
    return [result for results_of_turn in results for result in results_of_turn]


def in_order(operation: str) -> tuple[bool, bool, str]:
    return operation == EVENING, operation in WRITES, operation


def compared_and_timed(one: Started, op: str, args: argparse.Namespace) -> Figures:
    target, server, truth, values, requests, *_ = one
    checked = [op] if op in values else list(values)
    wrongs = [
        what_is_wrong(target, server, each, requests[each][0], truth, values[each][0]) for each in checked
    ]
    wrong = next(filter(None, wrongs), None)
    if wrong or args.command != "bench":
        return {"wrong": wrong} if wrong else {}
    connections = CALLERS if op == EVENING else args.connections
    pace = Pace(args.warm, args.seconds, connections)
    figures = measure(target, server, op, partial(one.next_requests, op), pace)
    if op not in WRITES:
        wrong = what_is_wrong(target, server, op, requests[op][-1], truth, values[op][-1])
        figures |= {"wrong": f"after the load: {wrong}"} if wrong else {}
    return figures


def in_words(figures: Figures) -> str:
    said = f"{figures['per_second']:,.0f} requests/s" if "per_second" in figures else ""
    if "wrong" in figures:
        return f"{said} WRONG: {figures['wrong']}".strip()
    return said or "right"


# --- peers -----------------------------------------------------------------------------------------------


def copy_node_peers() -> None:
    """Node looks for packages beside the program, and packages do not belong into this folder."""
    shutil.copytree(BENCH / "peers" / "node", HOME / "peers" / "node", dirs_exist_ok=True)


def install_peers() -> int:
    copy_node_peers()
    if not shutil.which("npm"):
        print("node: npm is not installed, fastify-rest, mercurius-jit and postgraphile stay out")
    else:
        subprocess.run(["npm", "install", "--no-audit", "--no-fund"], cwd=HOME / "peers" / "node", check=True)
    if not shutil.which("go"):
        print("go: the Go compiler is not installed, the target go stays out")
    else:
        build = ["go", "build", "-tags", "libsqlite3", "-o", str(HOME / "peers" / "go" / "server"), "."]
        # Debian's packages of the two libraries are found here; elsewhere GOPATH says where they are.
        environment = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", **os.environ}
        subprocess.run(build, cwd=BENCH / "peers" / "go", env=environment, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
