"""A world in which every text and number shows whose it is, and the owners that appear in a response.

Caregivers A and B, clients X and Y: X is the client of both, Y of B alone. Caregiver D and client W are
disabled, and Z, once a client of A, is erased. The relationships are AX, BX, BY, AZ and DW.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass

from httpx2 import Response

from app.db.admin.erasing import erasing
from app.db.sql import Bulk, Steps
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
from tests.schema.listening import insert_event

PEOPLE = {"A": 710001, "B": 710002, "D": 710003, "X": 711001, "Y": 711002, "Z": 711003, "W": 711004}
SHARED = {"AX": 701000, "BX": 702000, "BY": 703000, "AZ": 704000, "DW": 705000}
MISSING = 709000  # no object has this number or a higher one

# The relationships that each person may see. A lower-case letter marks drafts, which only the client sees.
KNOWN = {
    "A": {"A", "X", "Z", "AX", "AZ"},
    "B": {"B", "X", "Y", "BX", "BY"},
    "X": {"X", "A", "B", "AX", "AXd", "BX", "BXd"},
    "Y": {"Y", "B", "BY", "BYd"},
}


@dataclass(frozen=True)
class Numbers:
    """The numbers of a relationship: three running sessions and a closed one, and homework for every
    change."""

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
    to_judge = property(lambda self: self.base + 17)
    judged = property(lambda self: self.base + 18)
    drafted = property(lambda self: self.base + 19)
    # what hangs below them
    set_to_judge = property(lambda self: self.base + 202)
    judged_set = property(lambda self: self.base + 203)
    feedback = property(lambda self: self.base + 301)
    draft = property(lambda self: self.base + 801)
    reminder = property(lambda self: self.base + 411)
    assigned_event = property(lambda self: self.base + 901)
    due_event = property(lambda self: self.base + 903)


PLANTED = {*range(1, 5), *range(11, 20), *range(201, 204), 301, 411, 777, 801, *range(901, 905)}
OF = {shared: Numbers(base) for shared, base in SHARED.items()}


def text(person: str, what: str) -> str:
    return f"zq-{person}-{what}"


def plant(url: str) -> None:
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
        insert_event(url, "ASSIGNED", at, number=number.assigned_event, **between)
        insert_event(url, "EXTENDED", at, number=number.assigned_event + 1, **between)
        insert_event(url, "REMINDER_DUE", at, number=number.due_event, reminder=number.reminder, **between)
        insert_event(
            url, "REMINDER_DUE", at, number=number.due_event + 1, reminder=number.reminder, **between
        )
    run_write(url, erasing(PEOPLE["Z"], NOW))
    raw.run(
        url,
        "UPDATE caregiver SET is_disabled = true WHERE id = 710003",
        "UPDATE client SET is_disabled = true WHERE id = 711004",
    )


def people() -> Iterator[Record]:
    for person in "ABD":
        position = text(person, "position")
        yield a_caregiver(PEOPLE[person], name=text(person, "name"), position=position, userName=user(person))
    for person in "XYZW":
        oppt_id = text(person, "oppt")
        yield a_client(PEOPLE[person], name=text(person, "name"), opptId=oppt_id, userName=user(person))


def user(person: str) -> str:
    return text(person, "user")


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
    for one in (number.submitted, number.to_judge, number.judged):
        yield a_complete_assignment(one, session=number.main, book=3, score=score)
        yield an_answer_set(one + 185, one, answers=answers_of(shared, "answer"))
    draft = {"saveType": "DRAFT", "submitDate": None, "revision": 3}
    yield an_answer_set(number.draft, number.drafted, answers=answers_of(f"{shared}d", "draft"), **draft)


def answers_of(person: str, what: str) -> list[Record]:
    """The questions stay when the client is erased, since they belong to the book."""
    question = "How was it?" if "Z" in person else text(person, "question")
    return [{"questionText": question, "answer": text(person, what)}]


def giving_feedback() -> Steps[None]:
    """Only the service itself writes feedback."""
    columns = ("id", "caregiver_id", "client_id", "assignment_id", "answer_set_id", "text", "submit_date")
    rows = [
        (
            number.feedback,
            PEOPLE[shared[0]],
            PEOPLE[shared[1]],
            number.judged,
            number.judged_set,
            text(shared, "feedback"),
            NOW - HOUR,
        )
        for shared, number in OF.items()
    ]
    yield Bulk("feedback", columns, rows)


# --- what an answer tells ---------------------------------------------------------------------------

TEXT = re.compile(r"zq-([A-Za-z]+)-")
NUMBER = re.compile(r"(?<![0-9])7[01][0-9]{4}(?![0-9])")
DRAWN = re.compile(r"\b[0-9a-f]{32}\b")  # a new chat's name: among random digits may stand anybody's number
BASE64 = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
PERSON_OF = {number: person for person, number in PEOPLE.items()}
SHARED_OF = {base // 1000: shared for shared, base in SHARED.items()}


def readable(response: Response) -> str:
    """A whole response as text, with decoded global ids and cursors."""
    whole = "\n".join([*(f"{name}: {value}" for name, value in response.headers.items()), response.text])
    return "\n".join([whole, *filter(None, map(decoded, BASE64.findall(whole)))])


def decoded(word: str) -> str:
    try:
        return base64.b64decode(word, validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""


def owners_in(shown: str) -> set[str]:
    """The relationships that appear in a text. Of the erased client only numbers are left."""
    texts = {"erased" if "Z" in named else named for named in TEXT.findall(shown)}
    numbers = {int(number) for number in NUMBER.findall(DRAWN.sub("", shown))}
    return texts | {owner_of(number) for number in numbers if not is_new(number)}


def owner_of(number: int) -> str:
    if number in PERSON_OF:
        return PERSON_OF[number]
    shared = SHARED_OF.get(number // 1000, "nobody's")
    return f"{shared}d" if number % 1000 // 100 == 8 else shared


def is_new(number: int) -> bool:
    """Whether the database assigned the number after the world was loaded."""
    return number // 1000 == SHARED["DW"] // 1000 and number % 1000 not in PLANTED
