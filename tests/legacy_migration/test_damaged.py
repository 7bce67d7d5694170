"""Promise: whatever is in a recording, `import` takes it or refuses it in a sentence; never half of it."""

from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from app.db.session_counters import differences
from app.settings import Settings
from tests.callers import run_read
from tests.cli.conftest import Command
from tests.db import raw
from tests.legacy_migration.recordings import Line, write_lines

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

WRONG: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2, 2**31, 2**63, 1.5, "", "x", "\0", "1", [], [[]], [None], {}, {"id": 1},
    "COMPLETE", "PENDING", "DRAFT", "2026/11/21 09:00", "2026/02/30 10:00", "0001/01/01 00:00",
)  # fmt: skip


def damage(value: Any, rng: Random) -> Any:
    """The same with something in it replaced, left out or doubled."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(list(value))
        if rng.random() < 0.1:
            return {key: one for key, one in value.items() if key != name}
        return {**value, name: damage(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        index = rng.randrange(len(value))
        if rng.random() < 0.2:
            return rng.choice((value + value, value[:index]))
        return [*value[:index], damage(value[index], rng), *value[index + 1 :]]
    return rng.choice(WRONG)


@pytest.mark.parametrize(
    "seed",
    [pytest.param(range(40), id="few"), pytest.param(range(40, 3000), marks=pytest.mark.soak, id="many")],
)
def test_a_damaged_recording_is_taken_or_refused_in_a_sentence(
    settings: Settings, command: Command, tmp_path: Path, whole: list[Line], seed: range
) -> None:
    empty = raw.row_counts(settings.database)
    for number in seed:
        rng = Random(number)
        lines = deepcopy(whole)
        for _ in range(rng.choice((1, 1, 2, 4))):
            line = rng.choice(lines)
            line["answer"] = orjson.dumps(damage(orjson.loads(line["answer"]), rng)).decode()
        if rng.random() < 0.2:
            lines[-1] = damage(lines[-1], rng)

        said = command("import", str(write_lines(tmp_path / "recording.jsonl", lines)), "--partial")

        assert said.exception is None or isinstance(said.exception, SystemExit), (number, said.exc_info)
        if said.exit_code == 2:
            assert said.stderr.splitlines()[-1].startswith("care-gateway: "), number
            assert raw.row_counts(settings.database) == empty, number
        else:
            assert run_read(settings.database, differences()) == []
            return_to_empty(settings)


def return_to_empty(settings: Settings) -> None:
    tables = ("answer", "answer_set", "assignment", "relationship", "session", "book_word", "book", "module")
    raw.run(settings.database, *(f"DELETE FROM {table}" for table in (*tables, "client", "caregiver")))
