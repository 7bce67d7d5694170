"""The lines of an import file as pydantic models (docs/import.md)."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from app.db.moments import is_storable
from app.db.tables import MAX_ID, AssignmentStatus, FeedbackStatus, QuestionKind, ReminderState, SaveType

LARGEST_ID = MAX_ID - 1  # because there must be a next id
LARGEST_INTEGER = 2**31 - 1  # the maximum of the integer columns
LARGEST_WEIGHT = 1_000_000
LARGEST_COUNT = 1_000_000  # of attempts and revisions, which continue to count
MAX_QUESTIONS = 500  # the maximum number of answers in one request
KINDS_WITH_OPTIONS = (QuestionKind.SINGLE_CHOICE, QuestionKind.MULTIPLE_CHOICE, QuestionKind.SCALE)


def reject_nul(text: str) -> str:
    """And lone surrogates, which are no text in any encoding."""
    if "\0" in text:
        raise ValueError("must not contain NUL, because PostgreSQL cannot store it")
    if not text.isascii() and text != text.encode(errors="replace").decode():
        raise ValueError("must not contain a lone surrogate")
    return text


def read_moment(value: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None and is_storable(moment):
            return moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError("must be a moment like 2026-11-21T09:00:00Z, of the years 1900 to 2999")


def null_means(default: object) -> BeforeValidator:
    return BeforeValidator(lambda value: default if value is None else value)


Id = Annotated[int, Field(ge=1, le=LARGEST_ID)]
Text = Annotated[str, AfterValidator(reject_nul)]
UserName = Annotated[str, Field(min_length=1), AfterValidator(reject_nul)]
Moment = Annotated[datetime, PlainValidator(read_moment)]
Flag = Annotated[bool, null_means(False)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Attempt = Annotated[int, Field(ge=1, le=LARGEST_COUNT), null_means(1)]
Score = Annotated[int, Field(ge=0, le=LARGEST_INTEGER), null_means(0)]
Weight = Annotated[int, Field(ge=-LARGEST_WEIGHT, le=LARGEST_WEIGHT)]


class JsonObject(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel)


# --- people and the catalogue ---------------------------------------------------------------------


class CaregiverLine(JsonObject):
    kind: Literal["caregiver"]
    id: Id
    name: Text
    position: Text
    user_name: UserName | None = None


class ClientLine(JsonObject):
    kind: Literal["client"]
    id: Id
    name: Text
    oppt_id: Text
    user_name: UserName | None = None


class QuestionItem(JsonObject):
    """A question of a book. Questions that cannot be answered or scored are rejected."""

    text: Text
    kind: Annotated[QuestionKind, null_means(QuestionKind.TEXT)] = QuestionKind.TEXT
    options: Annotated[list[Text], null_means([])] = []
    is_required: Flag = Field(False, alias="required")
    minimum: Number | None = None
    maximum: Number | None = None
    weights: list[Weight] | None = None

    @model_validator(mode="after")
    def check_options(self) -> Self:
        """Answers contain the texts of options, one per line."""
        if self.kind in KINDS_WITH_OPTIONS and not self.options:
            raise ValueError(f"options are required for {self.kind}")
        if any(not option.strip() or option.splitlines() != [option] for option in self.options):
            raise ValueError("options must be single lines that are not blank")
        if len(set(self.options)) < len(self.options):
            raise ValueError("options must differ from each other")
        return self

    @model_validator(mode="after")
    def check_numbers(self) -> Self:
        if self.kind != QuestionKind.NUMBER and (self.minimum is not None or self.maximum is not None):
            raise ValueError("minimum and maximum are for NUMBER only")
        if self.minimum is not None and self.maximum is not None and self.maximum < self.minimum:
            raise ValueError("maximum is less than minimum")
        scored = 2 if self.kind == QuestionKind.YES_NO else len(self.options)
        if self.weights is not None and self.kind not in (*KINDS_WITH_OPTIONS, QuestionKind.YES_NO):
            raise ValueError(f"weights are not for {self.kind}")
        if self.weights is not None and len(self.weights) != scored:
            raise ValueError(f"weights must be {scored}, one for each possible answer")
        return self


class CatalogueModule(JsonObject):
    """A line of `books import`: the database assigns an id if there is none."""

    kind: Literal["module"]
    id: Id | None = None
    name: Text


class CatalogueBook(JsonObject):
    """A line of `books import`: the database assigns an id if there is none."""

    kind: Literal["book"]
    id: Id | None = None
    module_id: Id
    name: Text
    is_test: Flag = False
    retire_date: Moment | None = None
    questions: Annotated[list[QuestionItem], Field(max_length=MAX_QUESTIONS), null_means([])] = []

    @model_validator(mode="after")
    def check_weights(self) -> Self:
        weights = [question.weights for question in self.questions if question.weights is not None]
        if weights and not self.is_test:
            raise ValueError("weights are only for a book with isTest")
        if sum(abs(weight) for of_question in weights for weight in of_question) > LARGEST_INTEGER:
            raise ValueError(f"the weights of all questions exceed {LARGEST_INTEGER:,}")
        return self


class ModuleLine(CatalogueModule):
    id: Id


class BookLine(CatalogueBook):
    id: Id


# --- care -----------------------------------------------------------------------------------------


class SessionLine(JsonObject):
    kind: Literal["session"]
    id: Id
    caregiver_id: Id
    client_id: Id
    title: Text
    description: Text
    chat_id: Text
    create_date: Moment
    start_date: Moment
    is_closed: Flag = False
    close_date: Moment | None = None

    @model_validator(mode="after")
    def check_dates(self) -> Self:
        if self.close_date is not None and not self.is_closed:
            raise ValueError("closeDate requires isClosed")
        return self


class ReminderItem(JsonObject):
    remind_date: Moment
    state: Annotated[ReminderState, null_means(ReminderState.SCHEDULED)] = ReminderState.SCHEDULED


def check_status_dates(assignment: Any) -> None:
    """The rule for the lines of an import and for a recording."""
    if (assignment.status == AssignmentStatus.COMPLETE) != (assignment.submit_date is not None):
        raise ValueError("status COMPLETE requires submitDate and vice versa")
    is_submitted = assignment.feedback_status == FeedbackStatus.SUBMITTED
    if is_submitted != (assignment.feedback_submit_date is not None):
        raise ValueError("feedbackStatus SUBMITTED requires feedbackSubmitDate and vice versa")


class AssignmentLine(JsonObject):
    kind: Literal["assignment"]
    id: Id
    session_id: Id
    book_id: Id
    assign_date: Moment
    start_date: Moment
    end_date: Moment | None = None
    submit_date: Moment | None = None
    status: Annotated[AssignmentStatus, null_means(AssignmentStatus.PENDING)] = AssignmentStatus.PENDING
    attempt: Attempt = 1
    score: Score = 0
    feedback_status: Annotated[FeedbackStatus, null_means(FeedbackStatus.WAITING)] = FeedbackStatus.WAITING
    feedback_submit_date: Moment | None = None
    reminders: Annotated[list[ReminderItem], null_means([])] = []

    @model_validator(mode="after")
    def check_dates(self) -> Self:
        check_status_dates(self)
        return self


class AnswerItem(JsonObject):
    question_text: Text
    answer: Text


class AnswerSetLine(JsonObject):
    kind: Literal["answer_set"]
    id: Id
    assignment_id: Id
    save_type: Annotated[SaveType, null_means(SaveType.FINAL)] = SaveType.FINAL
    submit_date: Moment | None = None
    attempt: Attempt = 1
    revision: Attempt = 1
    answers: list[AnswerItem]

    @model_validator(mode="after")
    def check_dates(self) -> Self:
        if (self.save_type == SaveType.FINAL) != (self.submit_date is not None):
            raise ValueError("saveType FINAL requires submitDate and vice versa")
        return self


# --- reading a line -------------------------------------------------------------------------------


class LineRejected(Exception):
    """The message says which member is wrong and why."""

    @classmethod
    def of(cls, error: ValidationError, has_kind: bool = True) -> "LineRejected":
        """The first error. A location that begins with the kind of the line is shown without it."""
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"].startswith("union_tag"):  # pydantic's message would repeat the value
            return cls("kind is missing, or is not a kind of this file")
        place = place_of(first["loc"][has_kind:])
        reason = first["msg"].removeprefix("Value error, ")
        return cls(f"{place}: {reason}" if place else reason)


def place_of(location: tuple[int | str, ...]) -> str:
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in location]
    return "".join(steps).removeprefix(".")


STATE = re.compile(r"[A-Z][A-Z_]{0,30}")  # the name of a state, which is no personal data
CLASSES = {type(None): "null", str: "text", bool: "a flag", int: "a number", float: "a decimal number"}


def mistakes_in(error: ValidationError) -> str:
    """All errors, with the class of each value and not the value, which may be personal data."""
    found = []
    for each in error.errors(include_url=False, include_context=False):
        value, place = each["input"], place_of(each["loc"])
        name = CLASSES.get(type(value), "an object or a list")
        if each["type"] == "missing":
            name = "missing"
        elif each["type"] == "enum" and isinstance(value, str) and STATE.fullmatch(value):
            name = value
        reason = each["msg"].removeprefix("Value error, ")
        found.append(f"{place} is {name}: {reason}" if place else reason)
    return "; ".join(found)


ImportLine = CaregiverLine | ClientLine | ModuleLine | BookLine | SessionLine | AssignmentLine | AnswerSetLine
CatalogueLine = CatalogueModule | CatalogueBook
IMPORT_LINE: TypeAdapter[ImportLine] = TypeAdapter(Annotated[ImportLine, Discriminator("kind")])
CATALOGUE_LINE: TypeAdapter[CatalogueLine] = TypeAdapter(Annotated[CatalogueLine, Discriminator("kind")])
