"""Every statement that the service's changes run: one session's whole life, undone at its end."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from sqlalchemy import select

from app.care.answers import Answers, saving, submitting
from app.care.assignment_changes import extending, reopening, setting_reminders, withdrawing
from app.care.feedback import FeedbackInput, giving_feedback
from app.care.homework import Homework, assigning
from app.care.new_sessions import NewSession, opening
from app.care.questions import GivenAnswer
from app.care.sessions import SessionChange, closing, updating
from app.db.answers import read_json
from app.db.reader.selection import AccessScope
from app.db.sql import Bulk, Statement, Step, Steps
from app.db.statements.books import ADD
from app.db.tables import Question, SaveType, table_of
from tests.callers import collecting
from tests.db.conftest import OpenWorld
from tests.db.everything import Ran, ran
from tests.factories import DAY, HOUR, NOW

CAREGIVER, CLIENT = AccessScope(NOW, caregiver=1), AccessScope(NOW, client=2)
LATER = replace(CAREGIVER, now=NOW + timedelta(minutes=2))  # what is assigned together has one moment
QUESTION = table_of(Question).c
BOOK = 7  # it has three questions


@dataclass
class Written:
    """What ran so far: statements by the verb that they belong to, and rows that were put in by the table."""

    statements: list[Ran] = field(default_factory=list)
    bulks: list[Bulk] = field(default_factory=list)

    def by(self, verb: str, steps: Steps[Any]) -> Steps[Any]:
        seen: list[Step] = []
        result = yield from collecting(steps, seen)
        self.statements += ran(verb, seen)
        self.bulks += [step for step in seen if isinstance(step, Bulk)]
        return result


def everything_written(world: OpenWorld) -> Written:
    written = Written()
    with suppress(Undone):
        world.runner.run(world.db.write(undone(a_whole_life(written))))
    return written


class Undone(Exception):
    pass


def undone(steps: Steps[Any]) -> Steps[None]:
    yield from steps
    raise Undone


def a_whole_life(written: Written) -> Steps[None]:
    """Each verb in each of the ways that ask for other statements."""
    by = written.by
    new_book = {"module": 1, "name": "Never assigned", "is_test": False, "retired": None}
    unused: int = (yield ADD["book"], new_book)[0][0]
    work = Homework(None, (1, BOOK, unused), NOW - DAY, NOW + DAY, (NOW - HOUR, NOW + HOUR))
    asked = NewSession(None, "OPPT-2", "Title", "Description", NOW - DAY, work)
    session: int = (yield from by("caregiver: opening", opening(CAREGIVER, [asked])))[0]
    yield from by("caregiver: opening by id", opening(CAREGIVER, [NewSession(2, None, "Title", "", NOW)]))
    yield from by("caregiver: updating", updating(CAREGIVER, SessionChange(session, title="Another")))
    to_come = NewSession(2, None, "Title", "", work.start_date + 2 * DAY, replace_window(work, 2 * DAY))
    later: int = (yield from by("caregiver: opening one to come", opening(CAREGIVER, [to_come])))[0]
    moved = SessionChange(later, start_date=NOW + 9 * DAY)
    yield from by("caregiver: moving one to come", updating(CAREGIVER, moved))
    more = Homework(session, (BOOK, 2), work.start_date, work.end_date, work.remind_dates)
    for verb, within in (("assigning", None), ("assigning again", timedelta(minutes=1))):
        first, second = yield from by(f"caregiver: {verb}", assigning(LATER, more, within))
    yield from by("caregiver: extending", extending(CAREGIVER, first, NOW + 2 * DAY))
    yield from by("caregiver: reminding", setting_reminders(CAREGIVER, first, (NOW + 2 * HOUR,)))
    yield from by("caregiver: withdrawing", withdrawing(CAREGIVER, second))
    said = yield from what_is_said()
    for these, revision in ((said[:1], 0), (said, 1), (said, 1)):
        draft = Answers(first, these, revision)
        yield from by("client: saving", saving(CLIENT, draft, SaveType.DRAFT))
    answers = Answers(first, said, 2)
    answer_set: int = (yield from by("client: submitting", submitting(CLIENT, answers)))[1]
    yield from by("client: submitting again", submitting(CLIENT, answers))
    for score in (None, 7):
        yield from by(
            "caregiver: giving_feedback feedback",
            giving_feedback(CAREGIVER, FeedbackInput(answer_set, "Good", score)),
        )
    yield from by("caregiver: reopening", reopening(CAREGIVER, first))
    yield from by("caregiver: closing", closing(CAREGIVER, session))


def replace_window(homework: Homework, by: timedelta) -> Homework:
    return replace(
        homework,
        start_date=homework.start_date + by,
        end_date=homework.end_date + by,
        remind_dates=tuple(moment + by for moment in homework.remind_dates),
    )


def what_is_said() -> Steps[tuple[GivenAnswer, ...]]:
    questions = yield Statement(select(*QUESTION["id", "options"]).where(QUESTION.book_id == BOOK)), {}
    return tuple(GivenAnswer(id, read_json(options)[0]) for id, options in questions)
