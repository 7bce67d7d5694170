"""Test data in which every text and number names its owner, and a search for owners in a response.

Caregivers A and B, clients X and Y: X is the client of both, Y of B only. Caregiver D and client W are
disabled, and Z, a former client of A, is erased. Each pair owns what it shares: AX, BX, BY, AZ, DW.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass

from httpx2 import Response

from app.db.admin.erasing import erasing
from app.db.sql import Bulk, Operation
from tests.callers import load, run_write
from tests.db import raw
from tests.factories import (
    DAY,
    HOUR,
    NOW,
    Record,
    a_caregiver,
    a_client,
    a_complete_assignment,
    a_session,
    an_answer_set,
    an_assignment,
    catalogue,
)
from tests.schema.listening import happened

PEOPLE = {"A": 710001, "B": 710002, "D": 710003, "X": 711001, "Y": 711002, "Z": 711003, "W": 711004}
SHARED = {"AX": 701000, "BX": 702000, "BY": 703000, "AZ": 704000, "DW": 705000}
MISSING = 709000  # this number and those above it name no object

# The owners that each viewer may read. AXd owns the drafts of X, which only X may read.
KNOWN = {
    "A": {"A", "X", "Z", "AX", "AZ"},
    "B": {"B", "X", "Y", "BX", "BY"},
    "X": {"X", "A", "B", "AX", "AXd", "BX", "BXd"},
    "Y": {"Y", "B", "BY", "BYd"},
}


@dataclass(frozen=True)
class Numbers:
    """The numbers of a pair's objects: three running sessions, a closed one, an assignment per mutation."""

    base: int

    # sessions
    main = property(lambda self: self.base + 1)
    to_close = property(lambda self: self.base + 2)
    to_update = property(lambda self: self.base + 3)
    closed = property(lambda self: self.base + 4)
    # assignments
    to_extend = property(lambda self: self.base + 11)  # with a reminder and an event
    to_withdraw = property(lambda self: self.base + 12)
    to_remind = property(lambda self: self.base + 13)
    to_draft = property(lambda self: self.base + 14)
    to_submit = property(lambda self: self.base + 15)
    submitted = property(lambda self: self.base + 16)
    to_review = property(lambda self: self.base + 17)
    reviewed = property(lambda self: self.base + 18)
    drafted = property(lambda self: self.base + 19)
    # objects below them
    set_to_review = property(lambda self: self.base + 202)
    reviewed_set = property(lambda self: self.base + 203)
    feedback = property(lambda self: self.base + 301)
    draft = property(lambda self: self.base + 801)
    reminder = property(lambda self: self.base + 411)
    assigned_event = property(lambda self: self.base + 901)
    due_event = property(lambda self: self.base + 903)


LOADED_NUMBERS = {*range(1, 5), *range(11, 20), *range(201, 204), 301, 411, 777, 801, *range(901, 905)}
OF = {shared: Numbers(base) for shared, base in SHARED.items()}


def text(whose: str, what: str) -> str:
    return f"zq-{whose}-{what}"


def load_world(url: str) -> None:
    load(url, [*catalogue(), *people(), *(record for shared in SHARED for record in records(shared))])
    raw.run(
        url,
        "UPDATE answer_set SET score = id WHERE save_type = 'FINAL'",
        "UPDATE reminder SET id = assignment_id + 400",
    )
    run_write(url, giving_feedback())
    for shared, number in OF.items():
        between = {"caregiver": PEOPLE[shared[0]], "client": PEOPLE[shared[1]], "session": number.main}
        at = number.to_extend
        happened(url, "ASSIGNED", at, number=number.assigned_event, **between)
        happened(url, "EXTENDED", at, number=number.assigned_event + 1, **between)
        happened(url, "REMINDER_DUE", at, number=number.due_event, reminder=number.reminder, **between)
        happened(url, "REMINDER_DUE", at, number=number.due_event + 1, reminder=number.reminder, **between)
    run_write(url, erasing(PEOPLE["Z"], NOW))
    raw.run(
        url,
        "UPDATE caregiver SET is_disabled = true WHERE id = 710003",
        "UPDATE client SET is_disabled = true WHERE id = 711004",
    )


def people() -> Iterator[Record]:
    for whose in "ABD":
        position = text(whose, "position")
        yield a_caregiver(PEOPLE[whose], name=text(whose, "name"), position=position, userName=user(whose))
    for whose in "XYZW":
        oppt_id = text(whose, "oppt")
        yield a_client(PEOPLE[whose], name=text(whose, "name"), opptId=oppt_id, userName=user(whose))


def user(whose: str) -> str:
    return text(whose, "user")


def records(shared: str) -> Iterator[Record]:
    number = OF[shared]
    named = {
        "caregiver": PEOPLE[shared[0]],
        "client": PEOPLE[shared[1]],
        "description": text(shared, "description"),
        "chatId": text(shared, "chat"),
    }
    for one in (number.main, number.to_close, number.to_update):
        yield a_session(one, title=text(shared, "title"), **named)
    yield a_session(number.closed, title=text(shared, "title"), isClosed=True, closeDate=NOW - DAY, **named)
    score = number.base + 777
    for one in (number.to_withdraw, number.to_remind, number.to_draft, number.to_submit, number.drafted):
        yield an_assignment(one, session=number.main)
    yield an_assignment(number.to_extend, session=number.main, reminders=[{"remindDate": NOW + HOUR}])
    for one in (number.submitted, number.to_review, number.reviewed):
        yield a_complete_assignment(one, session=number.main, book=3, score=score)
        yield an_answer_set(one + 185, one, answers=answers(shared, "answer"))
    draft = {"saveType": "DRAFT", "submitDate": None, "revision": 3}
    yield an_answer_set(number.draft, number.drafted, answers=answers(f"{shared}d", "draft"), **draft)


def answers(whose: str, what: str) -> list[Record]:
    """Questions stay when the client is erased, because they belong to the book."""
    question = "How was it?" if "Z" in whose else text(whose, "question")
    return [{"questionText": question, "answer": text(whose, what)}]


def giving_feedback() -> Operation[None]:
    """The import has no feedback, so rows are inserted."""
    columns = ("id", "caregiver_id", "client_id", "assignment_id", "answer_set_id", "text", "submit_date")
    rows = [
        (
            number.feedback,
            PEOPLE[shared[0]],
            PEOPLE[shared[1]],
            number.reviewed,
            number.reviewed_set,
            text(shared, "feedback"),
            NOW - HOUR,
        )
        for shared, number in OF.items()
    ]
    yield Bulk("feedback", columns, rows)


# --- owners in a response ---------------------------------------------------------------------------

TEXT = re.compile(r"zq-([A-Za-z]+)-")
NUMBER = re.compile(r"(?<![0-9])7[01][0-9]{4}(?![0-9])")
CHAT = re.compile(r"\b[0-9a-f]{32}\b")  # a new chat identifier, whose random digits may contain any number
BASE64 = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
PERSON_OF = {number: whose for whose, number in PEOPLE.items()}
SHARED_OF = {base // 1000: shared for shared, base in SHARED.items()}


def readable(response: Response) -> str:
    """Headers and body of a response, with its global ids and cursors decoded."""
    content = "\n".join([*(f"{name}: {value}" for name, value in response.headers.items()), response.text])
    return "\n".join([content, *filter(None, map(decoded, BASE64.findall(content)))])


def decoded(word: str) -> str:
    try:
        return base64.b64decode(word, validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""


def owners_in(content: str) -> set[str]:
    """The owners of the texts and numbers. An erased client has numbers, but no texts."""
    texts = {"erased" if "Z" in owner else owner for owner in TEXT.findall(content)}
    numbers = {int(number) for number in NUMBER.findall(CHAT.sub("", content))}
    return texts | {whose(number) for number in numbers if not is_new(number)}


def whose(number: int) -> str:
    if number in PERSON_OF:
        return PERSON_OF[number]
    shared = SHARED_OF.get(number // 1000, "no owner")
    return f"{shared}d" if number % 1000 // 100 == 8 else shared


def is_new(number: int) -> bool:
    """Whether the database assigned the number to a new row: it follows the last loaded one."""
    return number // 1000 == SHARED["DW"] // 1000 and number % 1000 not in LOADED_NUMBERS
