"""Parents of a row that never change: a different one means that the id is of another row here."""

from typing import Any

import pytest

from app.db.interchange.change import ChangeRejected, changing_assignment, changing_row
from app.db.interchange.recorded import RecordedRow, StoredRow
from app.db.interchange.rows import ImportRows

ROWS: dict[str, dict[str, Any]] = {
    "session": {"caregiverId": 1, "clientId": 1, "isClosed": False},
    "assignment": {"sessionId": 1, "bookId": 1, "answers": None, "status": "PENDING"},
}
CHANGING = {"session": changing_row, "assignment": changing_assignment}


@pytest.mark.parametrize(
    ("kind", "member"),
    [
        ("session", "caregiverId"),
        ("session", "clientId"),
        ("assignment", "sessionId"),
        ("assignment", "bookId"),
    ],
)
def test_a_row_with_another_parent_is_refused(kind: str, member: str) -> None:
    row = RecordedRow(1, kind, 1, 1, ROWS[kind] | {member: 2}, [])

    with pytest.raises(ChangeRejected, match=f"^the id belongs to another row here, {member}$"):
        next(CHANGING[kind](ImportRows(), row, StoredRow(ROWS[kind], caregiver=1)))
