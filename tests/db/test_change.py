"""Parents of a row that never change: a different one means that the id is of another row here. The number of
rows that an update removes without a confirmation."""

from contextlib import nullcontext
from typing import Any

import pytest

from app.db.interchange.change import ChangeRejected, changing_assignment, changing_row
from app.db.interchange.merge import Update
from app.db.interchange.recorded import RecordedRow, StoredRow
from app.db.interchange.rows import ImportRows
from app.telemetry.wording import OperatorError
from tests.factories import NOW

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


@pytest.mark.parametrize(
    ("counts", "is_rejected"),
    [
        ([(20, 1000)], False),
        ([(21, 2000)], True),
        ([(1, 50), (1, 50)], False),
        ([(1, 49), (0, 1000)], True),
        ([(10, 500), (11, 500)], True),
    ],
    ids=str,
)
def test_more_than_20_rows_or_2_percent_of_a_caregiver_need_a_confirmation(
    counts: list[tuple[int, int]], is_rejected: bool
) -> None:
    """Each pair has the rows of a caregiver that are gone, and all of them. Every second one is a session."""
    update = Update(NOW, {}, ImportRows())
    for caregiver, (gone, total) in enumerate(counts, 1):
        keys = [(("session", "assignment")[each % 2], caregiver * 10_000 + each) for each in range(total)]
        for kind, number in keys:
            update.rows.known[kind][number] = (caregiver, 1)
        update.gone += keys[:gone]

    of_all = f"{sum(one for one, _ in counts)} of {sum(all for _, all in counts):,} rows are gone"
    with pytest.raises(OperatorError, match=of_all) if is_rejected else nullcontext():
        update.check_limit()
