"""Checks the servers of PostgreSQL: the role of each host, and commits that wait for a standby."""

from collections.abc import Iterator

from app.db.drivers.waiting_commits import reading_waiting_commits
from app.doctor.findings import Finding, Installation, failed, ok, warning
from app.telemetry.wording import counted

MAX_WAIT = 5  # seconds; a commit waits some milliseconds for a standby that works
REBUILD = "stop the server with the older data, and rebuild it as a standby: docs/scale.md, A standby"


def check_hosts(installation: Installation) -> Iterator[Finding]:
    url = installation.settings.database
    if url.startswith("sqlite:"):
        return
    from app.db.drivers.connections import look_at_each_host  # imports an optional dependency

    hosts = installation.runner.run(look_at_each_host(url))
    if installation.db is None and len(hosts) == 1:
        return  # the reason is reported
    primaries = {host.server for host in hosts if host.server.timeline}
    for host in hosts:
        if host.fault:
            yield warning("hosts", f"{host.name} {host.fault}", "start it again as a standby, if it was one")
        elif len(primaries) > 1 and host.server in primaries:
            yield failed("hosts", f"{host} is one of {len(primaries)} primaries", REBUILD)
        elif host.server in primaries:
            yield ok("hosts", f"{host} is the primary")
        else:
            yield ok("hosts", f"{host.name} is {'a standby' if host.server.system else 'of an unknown role'}")


def check_standby(installation: Installation) -> Iterator[Finding]:
    number, seconds = installation.read(reading_waiting_commits())
    if seconds > MAX_WAIT:
        waiting = counted(number, "change waits", "changes wait")
        message = f"{waiting} for a synchronous standby, the first for {seconds:,.0f} seconds"
        advice = "start the standby, or remove it from synchronous_standby_names: docs/scale.md, A standby"
        yield failed("database", message, advice)
