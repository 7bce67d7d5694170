"""The recorded responses of the legacy paths as pydantic models, with moments as `import` reads them."""

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel

from app.care.context import Role
from app.db.interchange.lines import (
    Attempt,
    Flag,
    Id,
    LineRejected,
    Score,
    Text,
    check_status_dates,
    null_means,
)
from app.db.interchange.recorded import Members, members_of
from app.db.moments import is_storable
from app.db.tables import AssignmentStatus, FeedbackStatus, SaveType, TimeState
from app.http.paths import ASSIGNMENTS, ROOT, SESSIONS
from moving_over.recorded_calls import Call

ASSIGNMENT = re.compile(rf"{ASSIGNMENTS}/[0-9]+")
LOCAL_TIME = re.compile(r"([0-9]{4})/([0-9]{2})/([0-9]{2}) ([0-9]{2}):([0-9]{2})")

Ignored = Counter[str]  # how often something in the recording is not imported


@dataclass(frozen=True)
class Reading:
    """What the models need: the time zone of local times, and where to count what is not imported."""

    zone: ZoneInfo
    ignored: Ignored = field(default_factory=Counter)


# --- moments --------------------------------------------------------------------------------------


def read_local_time(text: str, info: ValidationInfo) -> str:
    return as_utc(text, info.context.zone)  # type: ignore[union-attr]


@lru_cache(maxsize=8192)
def as_utc(text: str, zone: ZoneInfo) -> str:
    """Takes the first moment of a local time that a clock change repeats."""
    local = utc = None
    if found := LOCAL_TIME.fullmatch(text):
        with suppress(ValueError, OverflowError):
            local = datetime(*map(int, found.groups()), tzinfo=zone)  # type: ignore[misc,arg-type]
            utc = local.astimezone(UTC)
    if utc is None or not is_storable(utc):
        raise ValueError("must be a date like 2026/11/21 09:00, of the years 1900 to 2999")
    if utc.astimezone(zone) != local:  # datetimes of one zone compare by their local time
        raise ValueError(
            f"is skipped by a clock change in {zone.key}: is CARE_TIME_ZONE that of the old service?"
        )
    return utc.isoformat()


LocalTime = Annotated[str, AfterValidator(read_local_time)]


# --- items ----------------------------------------------------------------------------------------


class RecordedObject(BaseModel):
    """Counts unknown members, and values of members that are always empty according to the contract."""

    model_config = ConfigDict(strict=True, alias_generator=to_camel)
    kind: ClassVar[str]
    always_empty: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def count_ignored(cls, given: Any, info: ValidationInfo) -> Any:
        if isinstance(given, dict):
            known = {member.alias for member in cls.model_fields.values()}
            for name in sorted(given.keys() - known):
                if name not in cls.always_empty:
                    info.context.ignored[f"{name} of the {cls.kind}: unknown member"] += 1  # type: ignore[union-attr]
                elif given[name] not in (None, []):
                    info.context.ignored[f"{name} of the {cls.kind}: not empty"] += 1  # type: ignore[union-attr]
        return given


class SessionItem(RecordedObject):
    kind = "session"
    always_empty = ("documents", "assignments", "feedbacks")

    id: Id
    title: Text
    description: Text
    caregiver_id: Id
    caregiver_name: Text
    caregiver_position: Text
    client_id: Id
    client_oppt_id: Text
    client_name: Text
    create_date: LocalTime
    start_date: LocalTime
    chat_id: Text
    assignment_id: Id | None = None
    assignment_name: str | None = None
    book_id: Id | None = None
    assignment_count: Score = 0
    completed_assignment_count: Score = 0
    pending_assignment_count: Score = 0
    last_assignment_score: int | None = None
    is_closed: Flag = False
    running_status: Annotated[TimeState, null_means(TimeState.RUNNING)] = TimeState.RUNNING


class RecordedAnswer(RecordedObject):
    kind = "answer"
    always_empty = ("metadata", "highlights")

    question_text: Text
    answer: Text


class RecordedAnswerSet(RecordedObject):
    kind = "answer set"
    always_empty = ("metadata",)

    id: Id
    assignment_id: Id = Field(exclude=True)
    save_type: Annotated[SaveType, null_means(SaveType.FINAL), Field(exclude=True)] = SaveType.FINAL
    submit_date: LocalTime | None = None
    answers: list[RecordedAnswer]


class AssignmentItem(RecordedObject):
    kind = "assignment"
    always_empty = ("drafts", "autoSaveAnswers", "feedbacks")

    id: Id
    book_id: Id
    name: Text
    session_title: Text
    session_id: Id
    module_id: Id
    module_name: Text
    caregiver_id: Id
    caregiver_name: Text
    client_id: Id
    client_name: Text
    assign_date: LocalTime
    submit_date: LocalTime | None = None
    feedback_status: Annotated[FeedbackStatus, null_means(FeedbackStatus.WAITING)] = FeedbackStatus.WAITING
    feedback_submit_date: LocalTime | None = None
    start_date: LocalTime
    status: Annotated[AssignmentStatus, null_means(AssignmentStatus.PENDING)] = AssignmentStatus.PENDING
    is_test: Flag = False
    score: Score = 0
    answers: Annotated[list[RecordedAnswerSet], null_means([])] = []

    @model_validator(mode="after")
    def check_dates(self) -> Self:
        check_status_dates(self)
        return self

    @model_validator(mode="after")
    def keep_submissions(self, info: ValidationInfo) -> Self:
        """Keeps only submitted answer sets."""
        ignored: Ignored = info.context.ignored  # type: ignore[union-attr]
        if any(each.assignment_id != self.id for each in self.answers):
            raise ValueError("answers contains the assignmentId of another assignment")
        for each in self.answers:
            if each.save_type != SaveType.FINAL:
                ignored[f"answer sets with saveType {each.save_type}"] += 1
        self.answers = [each for each in self.answers if each.save_type == SaveType.FINAL]
        if len(self.answers) > (self.status == AssignmentStatus.COMPLETE):
            ignored["earlier attempts: imported, but only GraphQL shows them"] += 1
        return self


def assignment_members(read: Members) -> Members:
    """What the database must contain of it; the old service may show earlier attempts too."""
    sets = sorted(read["answers"], key=itemgetter("id"))
    is_submitted = bool(sets) and read["status"] == AssignmentStatus.COMPLETE
    return {**members_of("assignment", read), "answers": sets[-1] if is_submitted else None}


# --- responses ------------------------------------------------------------------------------------


class Page(BaseModel):
    model_config = ConfigDict(strict=True, alias_generator=to_camel)

    total_elements: Score = 0
    total_pages: Score = 0
    size: Attempt = 1
    number: Score = 0
    number_of_elements: Score = 0
    content: list[Any]

    @model_validator(mode="after")
    def check_counts(self) -> Self:
        if self.total_pages != -(-self.total_elements // self.size):
            raise ValueError("totalPages does not fit totalElements and size")
        if self.number_of_elements != len(self.content):
            raise ValueError("numberOfElements is not the number of items in content")
        return self


class SessionPage(Page):
    content: list[SessionItem]


class AssignmentPage(Page):
    content: list[AssignmentItem]


@dataclass(frozen=True)
class RecordedResponse:
    role: Role  # of the user whose token was used
    items: list[Members]
    state: TimeState | None = None  # of a list, like the page
    page: Page | None = None


def read_response(call: Call, reading: Reading) -> RecordedResponse | None:
    """None if the call is not a read of a legacy path."""
    address = urlsplit(call.path)
    path = address.path[address.path.rfind(f"{ROOT}/") :]  # the old service may have a path prefix
    is_list = path in (SESSIONS, ASSIGNMENTS)
    if call.method != "GET" or not (is_list or ASSIGNMENT.fullmatch(path)):
        return None
    if call.status != 200:
        raise LineRejected(f"status is {call.status}: only responses with 200 can be imported")
    if (body := call.response_body()) is None:
        raise LineRejected("answer and file are missing")
    if call.user is None:
        raise LineRejected("userName is missing: whose token was used?")
    try:
        if not is_list:
            item = AssignmentItem.model_validate_json(body, context=reading)
            return RecordedResponse(Role.CAREGIVER, [item.model_dump(by_alias=True)])
        states = parse_qs(address.query).get("time-state", [])
        if len(states) != 1 or states[0] not in list(TimeState):
            raise LineRejected("path must have one valid time-state")
        model = SessionPage if path == SESSIONS else AssignmentPage
        page: Page = model.model_validate_json(body, context=reading)
    except ValidationError as error:
        raise LineRejected(f"in the response, {LineRejected.of(error, has_kind=False)}") from None
    role = Role.CLIENT if path == SESSIONS else Role.CAREGIVER
    items = [item.model_dump(by_alias=True) for item in page.content]
    return RecordedResponse(role, items, TimeState(states[0]), page)
