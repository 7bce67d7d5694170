"""The tables: each operation's figures by target, and this project against the bars it set itself."""

import statistics
from typing import Any

PROJECT = "care-gateway"
OPERATIONS = {
    "R1": "GET a client's sessions, page of 20",
    "R2": "GET a caregiver's assignments, page of 20 with answers",
    "R3": "GET one assignment with answers",
    "R4": "PUT homework, durable",
    "G1": "GraphQL, a client's sessions, 20 x 10 fields",
    "G2": "GraphQL, a caregiver's assignments, 20 with answers",
    "G3": "GraphQL, one assignment with answers",
    "G4": "GraphQL, assign homework, durable",
    "M": "an evening: reads, drafts, submissions, homework of 64 callers",
}

Figures = dict[str, Any]  # of one operation, see load.measure
Round = dict[str, Any]  # one start of one target: {"target": name, "operations": {"R1": Figures}}


def print_report(rounds: list[Round], labels: dict[str, str], bars: dict[str, Any]) -> None:
    names = list(dict.fromkeys(round_["target"] for round_ in rounds))
    medians: dict[str, dict[str, Figures]] = {}  # operation -> target -> figures
    for operation, title in OPERATIONS.items():
        found = {name: summary(rounds, name, operation) for name in names}
        medians[operation] = {name: figures for name, figures in found.items() if figures}
        if medians[operation]:
            print(f"\n{operation}: {title}")
            print_table(medians[operation], labels)
    print_bars(medians, bars)


def summary(rounds: list[Round], name: str, operation: str) -> Figures:
    """Medians over the rounds in which the answers were right."""
    found = [round_["operations"].get(operation, {}) for round_ in rounds if round_["target"] == name]
    right = [figures for figures in found if "per_second" in figures and "wrong" not in figures]
    if not right:
        return {}
    rates = [figures["per_second"] for figures in right]
    medians = {key: statistics.median(figures[key] for figures in right) for key in right[0]}
    return {**medians, "slowest": min(rates), "fastest": max(rates)}


def print_table(found: dict[str, Figures], labels: dict[str, str]) -> None:
    print(f"  {'':54}{'req/s':>8}{'min..max':>16}{'req/CPU-s':>11}{'p50 ms':>8}{'p99 ms':>8}{'RSS MiB':>9}")
    for name, figures in sorted(found.items(), key=lambda item: -item[1]["per_second"]):
        spread = f"{figures['slowest']:,.0f}..{figures['fastest']:,.0f}"
        rates = f"{figures['per_second']:8,.0f}{spread:>16}{figures['per_cpu_second']:11,.0f}"
        rest = f"{figures['p50_ms']:8.2f}{figures['p99_ms']:8.2f}{figures['memory_mib']:9.0f}"
        print(f"  {labels[name]:54}{rates}{rest}")


def print_bars(medians: dict[str, dict[str, Figures]], bars: dict[str, Any]) -> None:
    lines = []
    for operation, found in medians.items():
        for peer, bar in bars.items():
            if PROJECT in found and peer in found:
                must, aim = (bar.get(level, {}).get(operation) for level in ("must", "aim"))
                lines.append(f"  {operation} {peer:15}{against(found[PROJECT], found[peer], must, aim)}")
    if lines:
        print(f"\n{PROJECT} against  {'req/s':>8}{'req/CPU-s':>11}{'p99':>8}{'must':>8}{'aim':>7}")
        print("\n".join(lines))


def against(ours: Figures, theirs: Figures, must: float | None, aim: float | None) -> str:
    """Our figures as multiples of a peer's, and which bar the requests per second reach."""
    ratio = {key: ours[key] / theirs[key] for key in ("per_second", "per_cpu_second", "p99_ms")}
    figures = f"{ratio['per_second']:9.2f}x{ratio['per_cpu_second']:10.2f}x{ratio['p99_ms']:7.2f}x"
    if aim and ratio["per_second"] >= aim:
        reached = "aim"
    elif must is None:
        reached = ""
    else:
        reached = "must" if ratio["per_second"] >= must else "BELOW"
    return f"{figures}{f'{must}x' if must else '-':>8}{f'{aim}x' if aim else '-':>7}  {reached}"
