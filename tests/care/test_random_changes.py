"""Random changes: the outcome of each and the stored rows are compared with the model."""

import asyncio
from collections import Counter
from datetime import datetime
from random import Random
from typing import Any

import pytest

from app.care.answers import save_answers, submit_answers
from app.care.assignment_changes import (
    extend_assignment,
    reopen_assignment,
    set_reminders,
    withdraw_assignment,
)
from app.care.errors import CareError
from app.care.feedback import FeedbackInput, give_feedback
from app.care.homework import Homework, assign_homework
from app.care.new_sessions import NewSession, create_session
from app.care.sessions import SessionChange, close_session, update_session
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database
from app.db.reader.selection import Selection
from tests.callers import load
from tests.care.actions import OPTIONS, a_catalogue, answers_of, as_caregiver, as_client, consistent_rows
from tests.care.model import Model
from tests.care.model_rows import compare
from tests.db import raw
from tests.factories import DAY, HOUR, NOW

STEPS = 800
NUMBER = Selection(frozenset({"id"}))
VERBS = (
    "open",
    "assign",
    "move",
    "close",
    "extend",
    "remind",
    "withdraw",
    "save",
    "submit",
    "give",
    "reopen",
)
HOW_OFTEN = (5, 12, 6, 2, 6, 6, 3, 22, 22, 12, 10)
REFUSALS = ("NOT_FOUND", "NOT_RUNNING", "WRONG_STATE", "UNREADABLE", "DRAFT_CONFLICT")


class Walk:
    """Runs random steps against the service and against the model."""

    def __init__(self, db: Database, seed: int) -> None:
        self.db, self.dice = db, Random(seed)
        self.model, self.now = Model(), NOW
        self.outcomes: list[tuple[str, Any]] = []

    def moment(self) -> datetime:
        return self.now + self.dice.randint(-6, 30) * HOUR

    def parties(self, own: tuple[int, int] | None) -> tuple[int, int]:
        """Usually the people of the object, sometimes random people."""
        if own is None or self.dice.random() < 0.1:
            return self.dice.randint(1, 2), self.dice.randint(1, 2)
        return own

    async def step(self) -> None:
        self.now += self.dice.choice((0, 1, 60)) * HOUR / 60
        verb = self.dice.choices(VERBS, HOW_OFTEN)[0]
        if not self.model.sessions:
            verb = "open"
        found, expected = await getattr(self, f"step_{verb}")()
        self.outcomes.append((verb, found))
        assert found == expected, self.outcomes[-10:]

    # --- sessions ---

    async def step_open(self) -> tuple[Any, Any]:
        parties, start = self.parties(None), self.moment()
        has_homework = self.dice.random() < 0.3
        homework = Homework(None, (1,), start, start + DAY) if has_homework else None
        request = NewSession(None, f"OPPT-{parties[1]}", "Title", "", start, homework)
        (row,) = await create_session(as_caregiver(self.db, parties[0], self.now), request, NUMBER)
        self.model.open(row.id, parties, start)
        self.model.add_event("SESSION_CREATED", self.now, row.id)
        if has_homework:
            (assignment,) = [
                each["id"]
                for each in (await consistent_rows(self.db))["assignment"]
                if each["session_id"] == row.id
            ]
            self.model.assign(assignment, row.id, start, start + DAY, self.now)
        return None, None

    def any_session(self) -> tuple[int, int, bool]:
        """Its number, a caregiver, and whether it is the caregiver's session."""
        number = self.dice.choice([*self.model.sessions, 999_999])
        own = self.model.sessions[number].parties if number in self.model.sessions else None
        caregiver = self.parties(own)[0]
        return number, caregiver, own is not None and own[0] == caregiver

    async def step_assign(self) -> tuple[Any, Any]:
        number, caregiver, is_own = self.any_session()
        start = self.now + self.dice.choice((-2, -1, 0, 1)) * HOUR
        end = start + self.dice.randint(0, 30) * HOUR
        request = Homework(number, (1,), start, end)
        try:
            (row,) = await assign_homework(as_caregiver(self.db, caregiver, self.now), request, NUMBER)
        except CareError as refusal:
            is_running = is_own and self.model.is_running(number, self.now)
            return refusal.code, None if is_running else "NOT_RUNNING" if is_own else "NOT_FOUND"
        assert is_own and self.model.is_running(number, self.now)
        self.model.assign(row.id, number, start, end, self.now)
        return None, None

    async def step_move(self) -> tuple[Any, Any]:
        number, caregiver, is_own = self.any_session()
        start = self.moment()
        change = SessionChange(number, start_date=start)
        request = update_session(as_caregiver(self.db, caregiver, self.now), change, None)
        return await code_of(request), self.model.move(number, start, self.now) if is_own else "NOT_FOUND"

    async def step_close(self) -> tuple[Any, Any]:
        number, caregiver, is_own = self.any_session()
        request = close_session(as_caregiver(self.db, caregiver, self.now), number, None)
        return await code_of(request), self.model.close(number, self.now) if is_own else "NOT_FOUND"

    # --- homework ---

    def any_homework(self, side: int) -> tuple[int, Any, bool]:
        """Its number, the context of a caregiver (0) or client (1), and whether it is that person's."""
        number = self.dice.choice([*list(self.model.homework)[-8:], 999_999])
        own = self.model.people_of(number)
        person = self.parties(own)[side]
        ctx = (as_caregiver, as_client)[side](self.db, person, self.now)
        return number, ctx, own is not None and own[side] == person

    async def step_extend(self) -> tuple[Any, Any]:
        number, ctx, is_own = self.any_homework(0)
        end = self.model.homework[number].end + self.dice.choice((-1, 0, 1, 9)) * HOUR if is_own else self.now
        found = await code_of(extend_assignment(ctx, number, end, None))
        return found, self.model.extend(number, end, self.now) if is_own else "NOT_FOUND"

    async def step_remind(self) -> tuple[Any, Any]:
        number, ctx, is_own = self.any_homework(0)
        start = self.model.homework[number].start if is_own else self.now
        moments = [start + self.dice.randint(0, 12) * HOUR for _ in range(self.dice.randint(0, 3))]
        found = await code_of(set_reminders(ctx, number, tuple(moments), None))
        return found, self.model.remind(number, moments, self.now) if is_own else "NOT_FOUND"

    async def step_withdraw(self) -> tuple[Any, Any]:
        number, ctx, is_own = self.any_homework(0)
        found = await code_of(withdraw_assignment(ctx, number, None))
        return found, self.model.withdraw(number, self.now) if is_own else "NOT_FOUND"

    # --- answers and feedback ---

    def any_answer(self, number: int, is_own: bool) -> tuple[str, int]:
        draft = self.model.homework[number].draft if is_own else None
        revision = draft[0] if draft and self.dice.random() < 0.8 else self.dice.randint(0, 2)
        return self.dice.choice((*OPTIONS[:2], *OPTIONS[:2], "much")), revision

    async def step_save(self) -> tuple[Any, Any]:
        number, ctx, is_own = self.any_homework(1)
        answer, revision = self.any_answer(number, is_own)
        found = await code_of(save_answers(ctx, answers_of(number, answer, revision), False, None))
        return found, self.model.save(number, answer, revision, self.now) if is_own else "NOT_FOUND"

    async def step_submit(self) -> tuple[Any, Any]:
        number, ctx, is_own = self.any_homework(1)
        answer, revision = self.any_answer(number, is_own)
        expected = self.model.submit(number, answer, revision, self.now, OPTIONS) if is_own else "NOT_FOUND"
        try:
            assignment_id, answer_set_id = await submit_answers(ctx, answers_of(number, answer, revision))
        except CareError as refusal:
            return refusal.code, expected
        submissions = self.model.homework[number].submissions
        if 0 in submissions:
            submissions[answer_set_id] = submissions.pop(0)
        return (answer_set_id == max(submissions), assignment_id), (expected is None, number)

    async def step_give(self) -> tuple[Any, Any]:
        number, ctx, is_own = self.any_homework(0)
        submissions = self.model.homework[number].submissions if number in self.model.homework else {}
        submission = self.dice.choice([*submissions, 999_999])
        text, score = self.dice.choice("ab"), self.dice.choice((None, 7))
        found = await code_of(give_feedback(ctx, FeedbackInput(submission, text, score)))
        if not is_own or submission not in submissions:
            return found, "NOT_FOUND"
        return found, self.model.give(number, submission, text, score, self.now)

    async def step_reopen(self) -> tuple[Any, Any]:
        number, ctx, is_own = self.any_homework(0)
        found = await code_of(reopen_assignment(ctx, number, None))
        return found, self.model.reopen(number, self.now) if is_own else "NOT_FOUND"


async def code_of(change: Any) -> str | None:
    try:
        await change
    except CareError as refusal:
        return refusal.code
    return None


@pytest.mark.parametrize("seed", range(2))
def test_random_changes_have_the_outcome_of_the_model(database_url: str, seed: int) -> None:
    load(database_url, a_catalogue())
    raw.begin_large_ids(database_url)

    async def run() -> None:
        db = await open_database(database_url)
        try:
            walk = Walk(db, seed)
            for number in range(STEPS):
                await walk.step()
                if number % 50 == 0:
                    compare(walk.model, await consistent_rows(db))
            compare(walk.model, await consistent_rows(db))
            seen = Counter(outcome for _, outcome in walk.outcomes)
            assert set(REFUSALS) <= seen.keys()
            assert set(VERBS) - {"submit"} <= {verb for verb, outcome in walk.outcomes if outcome is None}
        finally:
            await db.close()

    asyncio.run(run())
