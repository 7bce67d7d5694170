"""The pages promise times and numbers, and the code has them as constants: both say the same.

Other tests use the constants themselves, so they would pass with any value.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.auth import keys, rejections, tokens
from app.auth.authenticator import ACCOUNT_CACHE_SECONDS as ACCOUNT_SECONDS
from app.care import bounds, budgets, homework, new_sessions, questions
from app.care import feedback as feedbacks
from app.cli import serve
from app.db.audit import chain, recorder
from app.db.interchange import import_format
from app.db.moments import is_storable
from app.events import deliveries, dispatcher, notifications, outbox, retention, webhook
from app.http import idempotency
from app.schema.transport import event_stream, subscriptions, trusted_documents, websockets
from app.server import admission, listener, protocol, sockets, turns
from app.telemetry import logs
from app.telemetry.metrics import backlog
from app.telemetry.metrics import server as metrics
from app.usage import counts, report

DOCS = Path(__file__).parent.parent / "docs"
SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=n) for n in (1, 60, 3600, 86_400))
KIB, MIB = 1024, 1024**2
STORABLE = [year for year in range(1, 10_000) if is_storable(datetime(year, 7, 1, tzinfo=UTC))]
YEARS = (STORABLE[0], STORABLE[-1])

# A sentence of a page, what the code has, and what the sentence says.
PROMISES: dict[str, list[tuple[str, Any, Any]]] = {
    "decisions/0009-tokens-and-keys.md": [
        ("Key files are read again after 5 s", keys.KEY_FILE_SECONDS, 5),
        ("key set URLs after 300 s", keys.KEY_SET_SECONDS, 300),
        ("valid for at most 60 s during a fetch", keys.KEY_SET_GRACE, 60),
        ("At most 16 requests wait, for up to 6 s", (keys.MAX_WAITING, keys.WAIT_SECONDS), (16, 6)),
        ("Fetches are 10 s apart and last at most 5 s", (keys.KEY_SET_PAUSE, keys.FETCH_SECONDS), (10, 5)),
        ("stops working within 10 s (file)", keys.KEY_FILE_SECONDS + ACCOUNT_SECONDS, 10),
        ("365 s (URL;", keys.KEY_SET_SECONDS + keys.KEY_SET_GRACE + ACCOUNT_SECONDS, 365),
    ],
    "security.md": [("(effective within 5 s)", ACCOUNT_SECONDS, 5)],
    "settings.md": [
        ("tokens cached for up to 60 s", tokens.TOKEN_CACHE_SECONDS + ACCOUNT_SECONDS, 60),
        ("with their accounts for 5 s", ACCOUNT_SECONDS, 5),
        ("every 2,048 characters of a token count as one", tokens.USUAL_LENGTH, 2048),
    ],
    "audit.md": [
        ("first 20 refused reads in a minute", recorder.MAX_REJECTIONS, 20),
        ("first 20 refused reads in a minute", recorder.WINDOW_SECONDS, 60),
        ("Every second the dispatcher seals new records", dispatcher.PAUSE_SECONDS, 1),
        ("first seals up to 250 waiting ones", chain.MAX_SEALED, 250),
    ],
    "domain.md": [
        ("titles: 200 characters", bounds.MAX_TITLE, 200),
        ("descriptions, answers and feedback: 10,000", bounds.MAX_TEXT, 10_000),
        ("moments: the years 1900 to 2999, in UTC", YEARS, (1900, 2999)),
        ("a request: 50 books, 50 reminders", (homework.MAX_BOOKS, homework.MAX_REMINDERS), (50, 50)),
        ("and 500 answers", questions.MAX_ANSWERS, 500),
        ("`repeat`: 1 to 52 sessions", new_sessions.MAX_SESSIONS, 52),
        ("1 to 366 days apart", new_sessions.MAX_DAYS, 366),
        ("at most 200 assignments in total", new_sessions.MAX_PLANNED, 200),
        ("the score of a feedback: 0 to 1,000,000", feedbacks.MAX_SCORE, 1_000_000),
        ("or has more than 64 KiB, a repetition", idempotency.MAX_STORED, 64 * KIB),
    ],
    "import.md": [
        ("`attempt` and `revision` lie between 1 and 1,000,000", import_format.LARGEST_COUNT, 1_000_000),
        ("`score` between 0 and 2,147,483,647", import_format.LARGEST_INTEGER, 2**31 - 1),
        ("integers between -1,000,000 and 1,000,000", import_format.LARGEST_WEIGHT, 1_000_000),
    ],
    "leaving-the-legacy-paths.md": [
        ("A process counts 100 applications a day separately", counts.MAX_APPLICATIONS, 100),
        ("are kept for 400 days", counts.KEPT_DAYS, 400 * DAY),
        ("a day if at most 60 minutes are missing", report.MISSED_MINUTES, 60),
        ("The five newest gaps", report.MAX_GAPS, 5),
    ],
    "legacy-contract.md": [
        ("for at least 24 hours", retention.IDEMPOTENCY_KEY_PERIOD / 2, 24 * HOUR),
        ("Years: 1900 to 2999, in UTC", YEARS, (1900, 2999)),
    ],
    "limits.md": [
        ("A viewer may have 100 subscriptions per process", notifications.MAX_LISTENERS, 100),
        ("costs 32 points more for every full 1,024 bytes", budgets.POINTS_PER_STORED_KIB, 32),
        ("100 bytes an answer, 200 a reminder", (bounds.ANSWER_BYTES, bounds.REMINDER_BYTES), (100, 200)),
        ("500 a session or an assignment", bounds.ROW_BYTES, 500),
        ("16 of a viewer, 64 of an address", (budgets.MOST_POLITE, budgets.MOST_OF_ADDRESS), (16, 64)),
        ("over 250 ms, or over 25 ms if", (admission.MAX_WAIT, admission.MAX_STANDING_WAIT), (0.25, 0.025)),
        ("would wait for over a second", admission.MAX_POLITE_WAIT, 1),
        ("8 MiB; 12 MiB", (admission.REJECTING_UNSENT, budgets.MAX_UNSENT), (8 * MIB, 12 * MIB)),
        ("events of subscriptions that are being made and sent | 2", budgets.MAX_DELIVERIES, 2),
        ("2.5 ms a turn", turns.TURN_SECONDS, 0.0025),
        ("more than 50 ms is logged", turns.LONG_SECONDS, 0.05),
        ("defers a request for 250 ms before it rejects it", protocol.DEFERRED_SECONDS, 0.25),
    ],
    "observability.md": [
        ("Each process logs at most 10 of them a minute", logs.MAX_LINES, 10),
        ("at most 60 refusals a minute", (rejections.MAX_LOGGED, rejections.MINUTE), (60, 60)),
        ("up to 100 names of `CARE_TRUSTED_MANIFEST`", trusted_documents.MAX_NAMES, 100),
        ("without a webhook they wait a day", outbox.WAIT_FOR_WEBHOOK, DAY),
        ("counts the workers that responded within 3 s", metrics.WORKER_SECONDS, 3),
        ("Backlogs are counted up to 10,000", backlog.MAX_COUNTED, 10_000),
    ],
    "operations.md": [
        ("respond for 30 s, or do not start within 5 minutes", serve.HEALTHCHECK_SECONDS, 30),
        ("respond for 30 s, or do not start within 5 minutes", listener.START_SECONDS, 300),
        ("it tries every 5 s to start the others", listener.RETRY_SECONDS, 5),
        ("completes running requests for up to 5 s", serve.STOP_SECONDS, 5),
        ("input is discarded for up to 2 s", protocol.LINGER_SECONDS, 2),
        ("burst of 200, then read", sockets.MESSAGES_AT_ONCE, 200),
        ("then read at 100 a second", sockets.MESSAGES_PER_SECOND, 100),
        ("burst of 64, then 32 a second", (sockets.FRAMES_AT_ONCE, sockets.FRAMES_PER_SECOND), (64, 32)),
        ("Websocket frames before sign-in | 32", sockets.PENDING_FRAMES, 32),
        ("64 KiB before sign-in", sockets.PENDING_BYTES, 64 * KIB),
        ("each 4 KiB counts as one more", sockets.MESSAGE_BYTES, 4 * KIB),
        ("128 per process; one more closes the oldest", sockets.MAX_PENDING, 128),
        ("Delivered ones: after 7 days", deliveries.DELIVERED_PERIOD, 7 * DAY),
        ("The dispatcher removes data hourly", dispatcher.CLEANUP_PAUSES * dispatcher.PAUSE_SECONDS, 3600),
    ],
    "subscriptions.md": [
        ("no first message within ten seconds", websockets.INIT_SECONDS, 10),
        ("A comment line (`:`) is sent every twelve seconds", event_stream.HEARTBEAT_SECONDS, 12),
        ("polls every five seconds", subscriptions.POLL_SECONDS, 5),
    ],
    "webhook.md": [
        ("Respond with a 2xx within ten seconds", webhook.RESPONSE_SECONDS, 10),
        ("repeated a minute after it began", deliveries.LEASE, MINUTE),
        ("are 5 s, 30 s,", deliveries.PAUSES[:2], (5 * SECOND, 30 * SECOND)),
        ("5 min, 30 min,", deliveries.PAUSES[2:4], (5 * MINUTE, 30 * MINUTE)),
        ("2, 5, 10, 14, 20 and 24 h", deliveries.PAUSES[4:], tuple(n * HOUR for n in (2, 5, 10, 14, 20, 24))),
    ],
}


@pytest.mark.parametrize("page", PROMISES)
def test_the_numbers_of_a_page_are_those_of_the_code(page: str) -> None:
    text = " ".join((DOCS / page).read_text().split())

    assert [sentence for sentence, _, _ in PROMISES[page] if sentence not in text] == []
    assert [(sentence, kept) for sentence, kept, promised in PROMISES[page] if kept != promised] == []
