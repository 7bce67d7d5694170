"""The recorded responses of the legacy paths as pydantic models, with moments as `import` reads them."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel

from app.care.context import Role
from app.db.interchange.import_format import (
    LARGEST_ID,
    Flag,
    Id,
    LineRejected,
    Score,
    Text,
    check_status_dates,
    mistakes_in,
    null_means,
)
from app.db.interchange.recorded import Members, from_local_time, members_of
from app.db.tables import AssignmentStatus, FeedbackStatus, SaveType, TimeState
from app.http.paths import ASSIGNMENTS, ROOT, SESSIONS
from moving_over import LegacyMigrationError
from moving_over.recorded_calls import Call

ASSIGNMENT = re.compile(rf"{ASSIGNMENTS}/[0-9]+")

Ignored = Counter[str]  # how often something in the recording is not imported
Values = Mapping[str, Mapping[str, Any]]  # by member: values of the old service with their replacements
VALUES: TypeAdapter[Values] = TypeAdapter(Values)


@dataclass(frozen=True)
class Reading:
    """What the models need, and where to count what is not imported."""

    zone: ZoneInfo  # of local times
    values: Values = field(default_factory=dict)
    ignored: Ignored = field(default_factory=Counter)

    def replaced(self, name: str, value: Any) -> Any:
        if name not in self.values:
            return value
        key = value if isinstance(value, str) else json.dumps(value)
        return self.values[name].get(key, value)


def read_values(file: Path | None) -> Values:
    try:
        return {} if file is None else VALUES.validate_json(file.read_bytes())
    except (OSError, ValidationError):
        example = '{"status": {"EXPIRED": "PENDING"}, "title": {"null": ""}}'
        raise LegacyMigrationError(f"{file} cannot be read: it must be like {example}") from None


def read_json(body: bytes) -> Any:
    """Accepts lone surrogates, which are errors of their item. Raises ValueError with what the body is."""
    if body.startswith(b"\x1f\x8b"):
        raise ValueError("is compressed with gzip, which was not requested")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 (byte {error.start})") from None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    raise ValueError("begins with a byte order mark" if text.startswith("\ufeff") else "is not JSON")


def read_local_time(text: str, info: ValidationInfo) -> str:
    return from_local_time(text, info.context.zone)  # type: ignore[union-attr]


LocalTime = Annotated[str, AfterValidator(read_local_time)]
Running = Annotated[TimeState, Field(strict=False), null_means(TimeState.RUNNING)]
Saved = Annotated[SaveType, Field(strict=False), null_means(SaveType.FINAL), Field(exclude=True)]
Status = Annotated[AssignmentStatus, Field(strict=False), null_means(AssignmentStatus.PENDING)]
Feedback = Annotated[FeedbackStatus, Field(strict=False), null_means(FeedbackStatus.WAITING)]


# --- items ----------------------------------------------------------------------------------------


class RecordedObject(BaseModel):
    """Counts unknown members, and values of members that are always empty according to the contract.

    Replaces values of the old service before.
    """

    model_config = ConfigDict(strict=True, alias_generator=to_camel)
    kind: ClassVar[str]
    always_empty: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def count_ignored(cls, given: Any, info: ValidationInfo) -> Any:
        if isinstance(given, dict):
            given = {name: info.context.replaced(name, value) for name, value in given.items()}  # type: ignore[union-attr]
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
    assignment_name: Text | None = None
    book_id: Id | None = None
    assignment_count: Score = 0
    completed_assignment_count: Score = 0
    pending_assignment_count: Score = 0
    last_assignment_score: int | None = None
    is_closed: Flag = False
    running_status: Running = TimeState.RUNNING


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
    save_type: Saved = SaveType.FINAL
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
    feedback_status: Feedback = FeedbackStatus.WAITING
    feedback_submit_date: LocalTime | None = None
    start_date: LocalTime
    status: Status = AssignmentStatus.PENDING
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
        if any(each.submit_date is None for each in self.answers):
            raise ValueError("answers contains a submission without submitDate")
        if len({each.id for each in self.answers}) < len(self.answers):
            raise ValueError("answers contains two submissions with one id")
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
    size: Score = 0
    number: Score = 0
    content: Annotated[list[Any], null_means([])]


@dataclass(frozen=True)
class InvalidItem:
    id: int | None
    session: int | None  # of an assignment
    person: int | None  # whose token was used
    text: str  # which item it is, and its mistakes


@dataclass(frozen=True)
class RecordedResponse:
    role: Role  # of the user whose token was used
    items: dict[int, Members]  # by their index
    aside: list[InvalidItem]
    state: TimeState | None = None  # of a list, like the page
    page: Page | None = None


def read_response(call: Call, reading: Reading) -> RecordedResponse | None:
    """None if the call is not a read of a legacy path, or of an assignment that was deleted meanwhile."""
    address = urlsplit(call.path)
    path = address.path[address.path.rfind(f"{ROOT}/") :]  # the old service may have a path prefix
    is_list = path in (SESSIONS, ASSIGNMENTS)
    if call.method != "GET" or not (is_list or ASSIGNMENT.fullmatch(path)):
        return None
    if call.status == 404 and not is_list:
        return None
    if call.status != 200:
        raise LineRejected(f"status is {call.status}: only responses with 200 can be imported")
    if (body := call.response_body()) is None:
        raise LineRejected("answer and file are missing")
    if call.user is None:
        raise LineRejected("userName is missing: whose token was used?")
    try:
        given = read_json(body)
    except ValueError as error:
        raise LineRejected(f"the response {error}") from None
    role = Role.CLIENT if path == SESSIONS else Role.CAREGIVER
    if not is_list:
        return RecordedResponse(role, *read_items(AssignmentItem, [given], call, reading))
    states = parse_qs(address.query).get("time-state", [])
    if len(states) != 1 or states[0] not in list(TimeState):
        raise LineRejected("path must have one valid time-state")
    try:
        page = Page.model_validate(given)
    except ValidationError as error:
        raise LineRejected(f"in the response, {LineRejected.of(error, has_kind=False)}") from None
    items = read_items(SessionItem if path == SESSIONS else AssignmentItem, page.content, call, reading)
    return RecordedResponse(role, *items, TimeState(states[0]), page)


def read_items(
    model: type[RecordedObject], given: list[Any], call: Call, reading: Reading
) -> tuple[dict[int, Members], list[InvalidItem]]:
    items, aside = {}, []
    for index, item in enumerate(given):
        try:
            items[index] = model.model_validate(item, context=reading).model_dump(by_alias=True)
        except ValidationError as error:
            number = id_in(item, "id")
            person = id_in(item, "clientId" if model is SessionItem else "caregiverId")
            name = f"{model.kind} {'without a valid id' if number is None else number}"
            text = f"{name}, line {call.line}, item {index + 1}: {mistakes_in(error)}"
            aside.append(InvalidItem(number, id_in(item, "sessionId"), person, text))
    return items, aside


def id_in(item: Any, name: str) -> int | None:
    value = item.get(name) if isinstance(item, dict) else None
    is_id = isinstance(value, int | str) and re.fullmatch("[0-9]{1,19}", str(value))
    return int(value) if is_id and int(value) <= LARGEST_ID else None  # type: ignore[arg-type]
