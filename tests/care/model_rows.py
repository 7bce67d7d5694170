"""Compares the stored rows with the model."""

from tests.care.model import Model
from tests.database_rows import Stored


def compare(model: Model, rows: Stored) -> None:
    events = ("kind", "actor", "caregiver_id", "client_id", "session_id", "assignment_id", "moment")
    assert [tuple(each[name] for name in events) for each in rows["event"]] == model.events
    assert {each["id"]: (each["start_date"], each["close_date"]) for each in rows["session"]} == {
        number: (session.start, session.close_date) for number, session in model.sessions.items()
    }
    columns = (
        "start_date",
        "end_date",
        "attempt",
        "score",
        "submit_date",
        "feedback_submit_date",
        "withdraw_date",
    )
    assert {each["id"]: tuple(each[name] for name in columns) for each in rows["assignment"]} == {
        number: (
            one.start,
            one.end,
            one.attempt,
            one.score,
            one.submit_date,
            one.feedback_date,
            one.withdraw_date,
        )
        for number, one in model.homework.items()
    }
    assert {each["id"]: (each["status"], each["feedback_status"]) for each in rows["assignment"]} == {
        number: (
            "COMPLETE" if one.submit_date else "PENDING",
            "SUBMITTED" if one.feedback_date else "WAITING",
        )
        for number, one in model.homework.items()
    }
    assert sorted(
        (each["assignment_id"], each["remind_date"], each["state"]) for each in rows["reminder"]
    ) == [
        (number, *reminder)
        for number, one in sorted(model.homework.items())
        for reminder in sorted(one.reminders)
    ]
    answers = {each["id"]: answer for each in rows["answer_set"] for _, _, answer in each["answers"]}
    assert {
        each["assignment_id"]: (each["revision"], answers[each["id"]])
        for each in rows["answer_set"]
        if each["save_type"] == "DRAFT"
    } == {number: one.draft for number, one in model.homework.items() if one.draft}
    feedback = {each["answer_set_id"]: each for each in rows["feedback"]}
    assert {
        each["id"]: (
            each["attempt"],
            answers[each["id"]],
            each["own_score"],
            each["score"],
            each["id"] in feedback,
        )
        for each in rows["answer_set"]
        if each["save_type"] == "FINAL"
    } == {
        number: (of.attempt, of.answer, of.own_score, of.score, of.feedback is not None)
        for one in model.homework.values()
        for number, of in one.submissions.items()
    }
    assert {
        number: (each["text"], each["score"], each["submit_date"]) for number, each in feedback.items()
    } == {
        number: of.feedback
        for one in model.homework.values()
        for number, of in one.submissions.items()
        if of.feedback
    }
