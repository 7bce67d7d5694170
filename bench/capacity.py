"""What many caregivers and clients need: requests, cores, bytes and machines.

    python bench/capacity.py [--caregivers N] [--clients N] [--gateways N]

The figures follow from the measured costs and the assumptions below. The queue of the busiest second is
simulated: each request waits for a gateway process chosen at random, which has one core, and then for a core
of PostgreSQL. Networks and the disk's wait at a commit are left out.
"""

import argparse
from heapq import heapreplace
from math import ceil
from random import Random

# --- measured costs -------------------------------------------------------------------------------------

# Microseconds of processor time per request: gateway, PostgreSQL; as measured by `bench/run.py bench --on
# postgresql` apart for the two, with G4 for changes. An audit record adds 40 to all but G1. A subscription's
# check is assumed to be half of G3.
COSTS = {"G1": (359, 257), "G2": (529, 392), "G3": (290, 98), "change": (680, 571), "check": (145, 49)}
CITUS_FACTOR = 0.67 / 0.13  # milliseconds of a page on Citus and on one PostgreSQL, on the same two cores
# Bytes per row with indexes: pg_total_relation_size of `bench/dataset.py` and of 300 requests of each kind.
SESSION, ASSIGNMENT, ANSWER_SET, REMINDER, EVENT, AUDIT = 813, 351, 1062, 328, 382, 365
# Bytes of write-ahead log, from pg_current_wal_insert_lsn: a read with its audit record; a change among many
# of the same pages; the first change after a checkpoint, which writes whole pages, as in a large database.
READ_LOG, WARM_LOG, COLD_LOG = 700, 17_000, 97_000

# --- assumptions ----------------------------------------------------------------------------------------

ACTIVE = 0.5  # of the clients have a running session
SESSIONS = 1.2  # per client, ever
ASSIGNMENTS = 1  # per active client and week, two in a request, each with one reminder
SAVES, SUBMISSIONS = 2, 0.6  # per assignment; every submission gets feedback
CLIENT_OPENINGS, CAREGIVER_OPENINGS = 4 / 7, 25 / 5  # of the application per day; caregivers work five days
CLIENT_READS, CAREGIVER_READS = {"G1": 1, "G3": 2}, {"G2": 3, "G3": 4}  # per opening
CLIENT_MINUTES, CAREGIVER_MINUTES = 6, 20  # that the application stays open
SUBSCRIBED = 0.2  # of the open applications
CHECKS = 2.5 / 5  # reads per second of a subscription (docs/decisions/0017)
CLIENT_HOURS = (0, 0, 0, 0, 0, 1, 2, 4, 4, 3, 3, 4, 5, 4, 4, 5, 6, 8, 10, 12, 11, 8, 4, 2)  # percent of a day
CAREGIVER_HOURS = (0, 0, 0, 0, 0, 0, 1, 4, 10, 12, 12, 10, 6, 9, 11, 10, 7, 4, 2, 1, 1, 0, 0, 0)
BUSIEST_SECOND = 2  # times the mean of its hour
UTILIZATION = 0.6  # of a core in the busiest second
YEARS = 5  # of care data and audit log; events are kept for one
CONNECTIONS = 6  # per gateway process: CARE_READ_THREADS, one for audit records and one that listens
MACHINE = {"cores": 32, "storage": 4e12, "write-ahead log": 200e6}  # what one PostgreSQL can have

Rates = dict[str, float]


def rates(caregivers: int, clients: int, client_share: float, caregiver_share: float) -> Rates:
    """Requests of each kind while these shares of a working day's requests arrive."""
    by_client = clients * ACTIVE * CLIENT_OPENINGS * client_share
    by_caregiver = caregivers * CAREGIVER_OPENINGS * caregiver_share
    reads = {
        name: by_client * CLIENT_READS.get(name, 0) + by_caregiver * CAREGIVER_READS.get(name, 0)
        for name in ("G1", "G2", "G3")
    }
    assigned = clients * ACTIVE * ASSIGNMENTS
    changes = assigned / 7 * (SAVES + SUBMISSIONS) * client_share
    changes += assigned / 5 * (1 / 2 + SUBMISSIONS) * caregiver_share
    minutes = by_client * CLIENT_MINUTES + by_caregiver * CAREGIVER_MINUTES
    return {**reads, "change": changes, "check": minutes * 60 * SUBSCRIBED * CHECKS}


def cores_in_use(each: Rates, side: int) -> float:
    return sum(rate * COSTS[name][side] for name, rate in each.items()) / 1e6


def latencies(each: Rates, gateways: int, cores: int, requests: int = 100_000) -> tuple[float, float]:
    """Median and 99th percentile in milliseconds; arrivals are random, and service times exponential."""
    rng = Random(1)
    moment, free = 0.0, [0.0] * gateways
    passed = []
    for name in rng.choices(list(each), list(each.values()), k=requests):
        moment += rng.expovariate(sum(each.values()))
        gateway = rng.randrange(gateways)
        free[gateway] = max(moment, free[gateway]) + rng.expovariate(1e6 / COSTS[name][0])
        passed.append((free[gateway], moment, name))
    busy = [0.0] * cores  # a heap: when each core is free
    found = []
    for ready, began, name in sorted(passed):
        ended = max(ready, busy[0]) + rng.expovariate(1e6 / COSTS[name][1])
        heapreplace(busy, ended)
        if name != "check":
            found.append((ended - began) * 1000)
    found.sort()
    return found[len(found) // 2], found[len(found) * 99 // 100]


def stored(caregivers: int, clients: int) -> tuple[float, float]:
    """Bytes of care data and of the audit log."""
    assignments = clients * ACTIVE * ASSIGNMENTS * 52
    events = assignments * (2 + SAVES + 2 * SUBMISSIONS) * EVENT
    rows = assignments * YEARS * (ASSIGNMENT + REMINDER + SUBMISSIONS * ANSWER_SET)
    workday, weekend = rates(caregivers, clients, 1, 1), rates(caregivers, clients, 1, 0)
    recorded = sum(5 * workday[name] + 2 * weekend[name] for name in ("G2", "G3", "change")) * 52 * YEARS
    return clients * SESSIONS * SESSION + rows + events, recorded * AUDIT


def results(caregivers: int, clients: int, chosen: int | None = None) -> dict[str, str]:
    shares = [BUSIEST_SECOND * percent / 360_000 for percent in CLIENT_HOURS + CAREGIVER_HOURS]
    seconds = [rates(caregivers, clients, *pair) for pair in zip(shares[:24], shares[24:], strict=True)]
    peak = max(seconds, key=lambda each: cores_in_use(each, 0))
    in_use = cores_in_use(peak, 0)
    gateways = chosen or ceil(in_use / UTILIZATION)
    cores = ceil(max(cores_in_use(each, 1) for each in seconds) / UTILIZATION)
    changes = max(each["change"] for each in seconds)
    logs = [changes * size + (peak["G2"] + peak["G3"]) * READ_LOG for size in (WARM_LOG, COLD_LOG)]
    care, audit = stored(caregivers, clients)
    needs = {"cores": cores * CITUS_FACTOR, "storage": care + audit, "write-ahead log": logs[1]}
    machines = {name: need / MACHINE[name] for name, need in needs.items()}
    day = rates(caregivers, clients, 1, 1)
    times = "{:.1f} and {:.1f}".format(*latencies(peak, gateways, cores))
    return {
        "requests/s, mean": f"{(sum(day.values()) - day['check']) / 86_400:,.0f}",
        "requests/s, peak": f"{sum(peak.values()) - peak['check']:,.0f}",
        "changes/s, peak": f"{changes:,.0f}",
        "open subscriptions, peak": f"{peak['check'] / CHECKS:,.0f}",
        "gateway cores, peak": f"{in_use:.1f}",
        "of these for subscriptions": f"{peak['check'] * COSTS['check'][0] / 1e6:.1f}",
        "gateway processes": f"{gateways:,}",
        "p50 and p99, ms": times if in_use < gateways else "overloaded",
        "connections": f"{gateways * CONNECTIONS:,}",
        "cores of one PostgreSQL": f"{cores:,}",
        "cores of Citus": f"{ceil(needs['cores']):,}",
        f"care data after {YEARS} years, TB": f"{care / 1e12:.1f}",
        f"audit log after {YEARS} years, TB": f"{audit / 1e12:.1f}",
        "write-ahead log, peak, MB/s": "{:.0f} to {:.0f}".format(*(each / 1e6 for each in logs)),
        "Citus workers, each with a standby": f"{ceil(max(machines.values())):,}",
        "bottlenecks, first to last": ", ".join(sorted(machines, key=lambda name: -machines[name])),
    }


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive whole number")
    return int(text)


def main() -> None:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--caregivers", type=count, default=1_000_000, metavar="N")
    parser.add_argument("--clients", type=count, default=30_000_000, metavar="N")
    parser.add_argument(
        "--gateways", type=count, metavar="N", help="gateway processes; default: as many as the peak needs"
    )
    args = parser.parse_args()
    print("| | |\n|---|---|")
    for name, value in results(args.caregivers, args.clients, args.gateways).items():
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    main()
