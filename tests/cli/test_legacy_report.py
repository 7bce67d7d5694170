"""Promise: `legacy report` states, in text and by its exit code, whether the legacy paths may be switched
off, and never calls a path unused on days that were not counted."""

from datetime import UTC, datetime, timedelta

import orjson
import pytest

from app.care.context import utc_now
from app.cli.usage import header_of
from app.db.admin.migrate import newest_version
from app.db.moments import moment_as_text
from app.db.sql import Steps
from app.db.statements.usage import (
    SERVED,
    Counted,
    StoredUsage,
    adding_minutes,
    adding_usage,
    day_of,
    minutes_between,
    next_minute,
    reading_usage,
)
from app.http.paths import (
    ASSIGN_HOMEWORK,
    GET_CAREGIVER_ASSIGNMENT,
    LIST_CAREGIVER_ASSIGNMENTS,
    LIST_CLIENT_SESSIONS,
    PATHS,
)
from app.settings import Settings
from app.usage.report import Line, Report, State, report_of
from tests.callers import run_read, run_write
from tests.cli.conftest import Command, assert_rejected
from tests.factories import DAY
from tests.test_main import set_version


@pytest.fixture
def now() -> datetime:
    """The command uses the real clock."""
    return utc_now()


def storing_usage(calls: list[Counted], days: list[tuple[datetime, datetime]]) -> Steps[None]:
    for since, until in days:
        yield from adding_minutes(minutes_between(since, until))
    yield from adding_usage(calls)


def calls(path: str, application: str, requests: int, last: datetime, role: str = "CAREGIVER") -> Counted:
    return Counted(day_of(last), path, role, application, requests, last)


def days_since(now: datetime, days: int) -> list[tuple[datetime, datetime]]:
    """Without a gap up to now."""
    return [(now - days * DAY, now + timedelta(minutes=2))]


def midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def test_a_minute_is_counted_once_it_is_complete() -> None:
    at = datetime(2026, 11, 22, 9, 58, 30, tzinfo=UTC).replace

    assert minutes_between(at(), at(minute=59, second=59)) == {}
    assert minutes_between(at(), at(hour=10, minute=0, second=0)) == {"2026-11-22T09": 1 << 59}
    assert minutes_between(at(second=0), at(hour=10, minute=2, second=0)) == {
        "2026-11-22T09": 0b11 << 58,
        "2026-11-22T10": 0b11,
    }


def test_counting_began_with_the_first_hour_whichever_was_written_last(database_url: str) -> None:
    first, minute = datetime(2026, 11, 20, 7, 5, tzinfo=UTC), timedelta(minutes=1)

    for since in (first + DAY, first, first + 2 * DAY, first + 2 * minute):
        run_write(database_url, storing_usage([], [(since, since + minute)]))

    assert run_read(database_url, reading_usage()).since == first


def verdicts(result: str) -> list[str]:
    """The sentence below each path."""
    lines = result.splitlines()
    return [lines[lines.index(path) + 1].strip() for path in PATHS]


@pytest.mark.sqlite_only
def test_without_counts_the_state_is_unknown(command: Command) -> None:
    result = command("legacy", "report")

    assert result.exit_code == 3
    assert result.stdout.startswith(
        "Calls of the legacy paths have not been counted for a complete minute yet. "
    )
    assert verdicts(result.stdout) == ["not known: calls have not been counted yet"] * 4


@pytest.mark.sqlite_only
def test_a_new_installation_does_not_report_unused_paths(
    command: Command, settings: Settings, now: datetime
) -> None:
    run_write(settings.database, storing_usage([], days_since(now, 4)))

    result = command("legacy", "report")

    again = day_of(now + 26 * DAY)
    sentence = f"not known: no calls, but counted only for 4 days; check again on {again}"
    assert result.exit_code == 3
    assert verdicts(result.stdout) == [sentence] * 4
    last = "\nUnknown: no calls, but the period was not counted completely.\n"
    assert result.stdout.endswith(last)
    assert [command("legacy", "report", "--days", days).exit_code for days in ("4", "5")] == [0, 3]


@pytest.mark.sqlite_only
def test_days_on_which_the_service_did_not_run_make_the_state_unknown(
    command: Command, settings: Settings, now: datetime
) -> None:
    """An hour of a day may be missing, because updates take minutes; one call a day is not enough."""
    today, minute = midnight(now), timedelta(minutes=1)
    lost = today - 4 * DAY + timedelta(hours=9)
    ran = [
        (now - 40 * DAY, lost),
        (lost + timedelta(minutes=61), today - 3 * DAY),
        (today - 3 * DAY, today - 3 * DAY + minute),
        (today - 2 * DAY, today - DAY),
        (today - DAY + timedelta(minutes=60), now + 2 * minute),
    ]
    run_write(settings.database, storing_usage([], ran))

    result = command("legacy", "report")

    assert result.exit_code == 3
    sentence = "not known: no calls, but on 2 of these days calls were counted for less than 23 hours"
    assert [line.strip() for line in result.stdout.splitlines()[1:4]] == [
        f"not counted: {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
        for start, end in (
            (lost, lost + timedelta(minutes=61)),
            (today - 3 * DAY + minute, today - 2 * DAY),
            (today - DAY, today - DAY + timedelta(minutes=60)),
        )
    ]
    assert verdicts(result.stdout) == [sentence] * 4
    assert command("legacy", "report", "--days", "3").exit_code == 0


def test_the_days_of_a_report_are_those_of_utc() -> None:
    began, moment = (datetime(2026, 11, day, 23, 30, tzinfo=UTC) for day in (12, 21))
    counted = minutes_between(began, moment)

    report = report_of(StoredUsage([], counted), moment, 7, [GET_CAREGIVER_ASSIGNMENT])

    assert header_of(report, "The legacy paths") == (
        "Counted since 2026-11-12 23:30 UTC. From 2026-11-15 to 2026-11-21 calls were counted in 167.5 of "
        "167.5 hours, which is 7 of 7 days."
    )


@pytest.mark.sqlite_only
def test_a_day_that_has_just_begun_is_not_known_without_a_counted_minute() -> None:
    """A day counts as complete without one of its hours. Beside a path that is used."""
    counted = minutes_between(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 15, tzinfo=UTC))
    now = datetime(2026, 11, 21, 0, 50, tzinfo=UTC)
    stored = StoredUsage([calls(ASSIGN_HOMEWORK, "cron", 2, now)], counted)

    report = report_of(stored, now, 1, [GET_CAREGIVER_ASSIGNMENT, ASSIGN_HOMEWORK])

    assert [(part.state, part.verdict) for part in report.parts] == [
        (State.NOT_KNOWN, "not known: no calls were counted on these days yet"),
        (State.USED, "still 1 application: cron (2 requests, last on 2026-11-21)"),
    ]
    assert report.state is State.USED


def test_the_five_newest_gaps_are_listed(command: Command, settings: Settings, now: datetime) -> None:
    days = [midnight(now) - number * DAY for number in range(8, 0, -1)]
    hour, end = timedelta(hours=1), now + timedelta(minutes=2)
    ran = [*((day + hour, day + DAY) for day in days[:-1]), (days[-1] + hour, end)]
    run_write(settings.database, storing_usage([], ran))

    result, as_json = command("legacy", "report"), command("legacy", "report", "--json")

    assert [line.strip() for line in result.stdout.splitlines() if "not counted:" in line] == [
        f"not counted: {day:%Y-%m-%d} 00:00 to {day:%Y-%m-%d} 01:00" for day in days[-5:]
    ]
    assert orjson.loads(as_json.stdout)["notCounted"] == [
        [f"{day:%Y-%m-%d}T00:00:00.000000Z", f"{day:%Y-%m-%d}T01:00:00.000000Z"] for day in days[-5:]
    ]


@pytest.mark.sqlite_only
def test_paths_without_calls_may_be_switched_off(command: Command, settings: Settings, now: datetime) -> None:
    old = [calls(LIST_CLIENT_SESSIONS, "mobile-app", 7, now - 31 * DAY, "CLIENT")]
    run_write(settings.database, storing_usage(old, days_since(now, 40)))

    result = command("legacy", "report")

    since = f"{next_minute(now - 40 * DAY):%Y-%m-%d %H:%M}"
    hours = f"{(now - timedelta(minutes=2) - midnight(now - 29 * DAY)) // timedelta(minutes=1) / 60:.1f}"
    first, today = day_of(now - 29 * DAY), day_of(now)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == (
        f"Counted since {since} UTC. From {first} to {today} "
        f"calls were counted in {hours} of {hours} hours, which is 30 of 30 days."
    )
    assert verdicts(result.stdout) == [
        "no calls for 31 days",
        *["no calls since counting began, 40 days ago"] * 3,
    ]
    assert result.stdout.endswith("\nThe legacy paths may be switched off: no calls in this period.\n")


def test_callers_are_listed_with_their_requests_and_last_use(
    command: Command, settings: Settings, now: datetime
) -> None:
    yesterday = now - DAY
    used = [
        calls(LIST_CAREGIVER_ASSIGNMENTS, "mobile-app", 1500, now),
        calls(LIST_CAREGIVER_ASSIGNMENTS, "mobile-app", 500, yesterday),
        calls(LIST_CAREGIVER_ASSIGNMENTS, "mobile-app", 4000, now - 31 * DAY),
        calls(LIST_CAREGIVER_ASSIGNMENTS, "mobile-app", 1, yesterday, "CLIENT"),
        calls(LIST_CAREGIVER_ASSIGNMENTS, "cron", 1, yesterday),
        calls(LIST_CAREGIVER_ASSIGNMENTS, "unknown", 12, now, role=""),
        *(calls(ASSIGN_HOMEWORK, f"app-{number}", 9 - number, now) for number in range(5)),
        calls(GET_CAREGIVER_ASSIGNMENT, "unknown", 3, now, role=""),
    ]
    run_write(settings.database, storing_usage(used, days_since(now, 100)))

    result = command("legacy", "report")

    today, before = day_of(now), day_of(yesterday)
    assert result.exit_code == 1
    assert verdicts(result.stdout) == [
        "no calls since counting began, 100 days ago",
        f"still 2 applications: mobile-app (2,001 requests, last on {today}), "
        f"cron (1 request, last on {before}) (12 refused, without a valid token or an account)",
        "no calls since counting began, 100 days ago (3 refused, without a valid token or an account)",
        f"still 5 applications: app-0 (9 requests, last on {today}), app-1 (8 requests, last on {today}), "
        f"app-2 (7 requests, last on {today}) and 2 more",
    ]
    moment, earlier = f"{now:%Y-%m-%d %H:%M}", f"{yesterday:%Y-%m-%d %H:%M}"
    lines = result.stdout.splitlines()
    at = lines.index(LIST_CAREGIVER_ASSIGNMENTS)
    assert lines[at + 2 : at + 6] == [
        "    application  role       requests  before  trend  last use (UTC)",
        f"    mobile-app   caregiver     2,000   4,000   -50%  {moment}",
        f"    cron         caregiver         1       0    new  {earlier}",
        f"    mobile-app   client            1       0    new  {earlier}",
    ]
    assert result.stdout.endswith("\nThe legacy paths are in use.\n")


@pytest.mark.sqlite_only
def test_a_period_before_counting_began_is_not_compared(
    command: Command, settings: Settings, now: datetime
) -> None:
    run_write(settings.database, storing_usage([calls(ASSIGN_HOMEWORK, "cron", 2, now)], days_since(now, 9)))

    (line,) = (
        line for line in command("legacy", "report", "--days", "7").stdout.splitlines() if "cron  " in line
    )

    assert line.split()[2:5] == ["2", "-", "-"]


# --- a report of 7 days: from the 15th, after the 8th to the 14th ---

AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
LONG_AGO = AT - 60 * DAY


def on(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


def report_on(used: list[Counted], *ran: tuple[datetime, datetime], are_deprecated: bool = False) -> Report:
    hours: dict[str, int] = {}
    for begin, end in ran or [(LONG_AGO, AT)]:
        for hour, bits in minutes_between(begin, end).items():
            hours[hour] = hours.get(hour, 0) | bits
    known = StoredUsage(used, dict(sorted(hours.items())))
    return report_of(known, AT, 7, [LIST_CLIENT_SESSIONS], are_deprecated)


def test_a_period_begins_at_midnight_of_its_first_day() -> None:
    """With rejected calls, which are counted only in the period."""
    moments = (on(7, 23, 59), on(8), on(14, 23, 59), on(15), AT)
    used = [
        calls(LIST_CLIENT_SESSIONS, application, 10**number, moment, role)
        for application, role in (("app", "CLIENT"), ("unknown", ""))
        for number, moment in enumerate(moments)
    ]

    served = [calls(LIST_CLIENT_SESSIONS, "", 0, on(day), SERVED) for day in range(1, 22)]

    for report in (report_on(used), report_on([*used, *served], are_deprecated=True)):
        [part] = report.parts
        assert part.lines == [Line("app", "CLIENT", 11_000, 110, AT)]
        assert (part.rejected, part.last_use) == (11_000, AT)


@pytest.mark.parametrize(
    ("ran", "before"),
    [
        ([(on(7, 23, 58), AT)], 4),
        ([(on(8, 0, 30), AT)], None),  # an hour of a day may be missing, but not before counting began
        ([(LONG_AGO, on(10)), (on(11), AT)], None),
        ([(LONG_AGO, on(10)), (on(10, 1), AT)], 4),
    ],
)
def test_only_a_complete_period_is_compared(ran: list[tuple[datetime, datetime]], before: int | None) -> None:
    """Also for a deprecated part that the schema had on all of its days."""
    used = [
        calls(LIST_CLIENT_SESSIONS, "app", number, moment) for number, moment in ((4, on(12)), (6, on(16)))
    ]
    served = [calls(LIST_CLIENT_SESSIONS, "", 0, on(day), SERVED) for day in range(1, 22)]

    for report in (report_on(used, *ran), report_on([*used, *served], *ran, are_deprecated=True)):
        [part] = report.parts
        assert [(line.requests, line.before) for line in part.lines] == [(6, before)]


@pytest.mark.parametrize(
    ("began", "state", "verdict"),
    [
        (on(14, 23, 58), State.UNUSED, "no calls since counting began, 7 days ago"),
        (
            on(15, 0, 30),
            State.NOT_KNOWN,
            "not known: no calls, but counted only for 6 days; check again on 2026-11-22",
        ),
    ],
)
def test_the_day_on_which_counting_began_is_incomplete(began: datetime, state: State, verdict: str) -> None:
    [part] = report_on([], (began, AT)).parts

    assert (part.state, part.verdict) == (state, verdict)


def test_a_single_minute_is_a_gap() -> None:
    ran = [(LONG_AGO, on(16, 8)), (on(16, 8, 1), AT)]

    assert report_on([], *ran).gaps == [(on(16, 8), on(16, 8, 1))]


def test_there_is_no_gap_if_calls_were_never_counted() -> None:
    report = report_of(StoredUsage([], {}), AT, 7, [LIST_CLIENT_SESSIONS])

    assert (report.since, report.gaps, report.counted_days) == (None, [], 0)


def test_the_time_before_counting_began_is_no_gap() -> None:
    report = report_on([], (on(16, 12), on(17)), (on(17, 3), AT))

    assert report.gaps == [(on(17), on(17, 3))]
    assert (report.since, report.counted_days) == (on(16, 12), 4)
    assert (report.minutes, report.counted_minutes) == (6 * 1440 + 568, 4 * 1440 + 540 + 568)


def test_counting_began_with_the_earliest_minute_whichever_was_stored_first(database_url: str) -> None:
    """Two processes store their minutes."""
    for began in (on(17), on(16, 12)):
        run_write(database_url, adding_minutes(minutes_between(began, began + timedelta(minutes=5))))

    stored = run_read(database_url, reading_usage())

    assert (stored.since, list(stored.hours)) == (on(16, 12), ["2026-11-16T12", "2026-11-17T00"])


def test_three_applications_are_all_named() -> None:
    used = [calls(LIST_CLIENT_SESSIONS, f"app-{number}", number, AT) for number in (1, 2, 3)]
    of_clients = calls(LIST_CLIENT_SESSIONS, "app-1", 7, AT, "CLIENT")

    [part] = report_on([*used, of_clients]).parts

    assert part.verdict == (
        "still 3 applications: app-1 (8 requests, last on 2026-11-21), "
        "app-3 (3 requests, last on 2026-11-21), app-2 (2 requests, last on 2026-11-21)"
    )


@pytest.mark.parametrize("last", [on(16), on(20)])
def test_an_application_with_two_roles_was_last_used_in_the_later_one(last: datetime) -> None:
    used = [
        calls(LIST_CLIENT_SESSIONS, "app", 5, on(18)),
        calls(LIST_CLIENT_SESSIONS, "app", 1, last, "CLIENT"),
    ]

    [part] = report_on(used).parts

    assert part.last_use == max(last, on(18))
    assert part.verdict == f"still 1 application: app (6 requests, last on {part.last_use:%Y-%m-%d})"


def test_a_call_that_was_turned_away_is_a_use() -> None:
    """Its token was not verified, so it may be that of a person."""
    [part] = report_on([calls(LIST_CLIENT_SESSIONS, "unknown", 5, AT, "UNKNOWN")]).parts

    assert (part.state, part.lines, part.rejected) == (
        State.USED,
        [Line("unknown", "UNKNOWN", 5, 0, AT)],
        0,
    )


@pytest.mark.sqlite_only
def test_the_report_as_json(command: Command, settings: Settings, now: datetime) -> None:
    used = [
        calls(ASSIGN_HOMEWORK, "cron", 2, now),
        calls(ASSIGN_HOMEWORK, "cron", 4, now - 8 * DAY),
        calls(ASSIGN_HOMEWORK, "new-app", 1, now - DAY),
        calls(ASSIGN_HOMEWORK, "unknown", 5, now, role=""),
    ]
    run_write(settings.database, storing_usage(used, days_since(now, 20)))

    result = command("legacy", "report", "--days", "7", "--json")

    found = orjson.loads(result.stdout)
    assert result.exit_code == 1
    assert datetime.fromisoformat(found.pop("moment")) - now < timedelta(minutes=1)
    moment, yesterday = moment_as_text(now), moment_as_text(now - DAY)
    since = next_minute(now - 20 * DAY).isoformat(timespec="microseconds").replace("+00:00", "Z")
    counted = (now - timedelta(minutes=2) - midnight(now - 6 * DAY)) // timedelta(minutes=1)
    unused = "no calls since counting began, 20 days ago"
    assert found == {
        "days": 7,
        "firstDay": day_of(now - 6 * DAY),
        "countedSince": since,
        "countedDays": 7,
        "countedHours": round(counted / 60, 1),
        "notCounted": [],
        "state": "USED",
        "paths": [
            *(
                {"path": path, "state": "UNUSED", "verdict": unused, "lastUse": None, "refused": 0}
                | {"applications": []}
                for path in PATHS[:3]
            ),
            {
                "path": ASSIGN_HOMEWORK,
                "state": "USED",
                "verdict": f"still 2 applications: cron (2 requests, last on {day_of(now)}), "
                f"new-app (1 request, last on {day_of(now - DAY)}) "
                "(5 refused, without a valid token or an account)",
                "lastUse": moment,
                "refused": 5,
                "applications": [
                    {"application": application, "role": "CAREGIVER", "requests": requests}
                    | {"before": before, "lastUse": last_use}
                    for application, requests, before, last_use in (
                        ("cron", 2, 4, moment),
                        ("new-app", 1, 0, yesterday),
                    )
                ],
            },
        ],
    }


def test_a_database_that_is_not_migrated_is_rejected(command: Command, settings: Settings) -> None:
    run_write(settings.database, set_version("0003"))

    assert_rejected(
        command("legacy", "report"),
        f"the tables are of version 0003, and this version needs {newest_version()}; "
        "back up, then run `care-gateway migrate`",
    )
