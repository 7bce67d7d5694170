"""A damaged recording is imported completely or rejected with one sentence."""

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
from tests.moving_over.recordings import Line, write_lines

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

WRONG_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2, 2**31, 2**63, 1.5, "", "x", "\0", "1", [], [[]], [None], {}, {"id": 1},
    "COMPLETE", "PENDING", "DRAFT", "2026/11/21 09:00", "2026/02/30 10:00", "0001/01/01 00:00",
)  # fmt: skip


def damage(value: Any, rng: Random) -> Any:
    """Replaces, removes or doubles one random part."""
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
    return rng.choice(WRONG_VALUES)


@pytest.mark.parametrize(
    "seeds",
    [pytest.param(range(40), id="some"), pytest.param(range(40, 3000), marks=pytest.mark.soak, id="many")],
)
def test_a_damaged_recording_is_imported_or_rejected(
    settings: Settings, command: Command, tmp_path: Path, complete: list[Line], seeds: range
) -> None:
    empty = raw.row_counts(settings.database)
    for seed in seeds:
        rng = Random(seed)
        lines = deepcopy(complete)
        for _ in range(rng.choice((1, 1, 2, 4))):
            line = rng.choice(lines)
            line["answer"] = orjson.dumps(damage(orjson.loads(line["answer"]), rng)).decode()
        if rng.random() < 0.2:
            lines[-1] = damage(lines[-1], rng)

        result = command("import", str(write_lines(tmp_path / "recording.jsonl", lines)), "--partial")

        assert result.exception is None or isinstance(result.exception, SystemExit), (seed, result.exc_info)
        if result.exit_code == 2:
            assert result.stderr.splitlines()[-1].startswith("care-gateway: "), seed
            assert raw.row_counts(settings.database) == empty, seed
        else:
            assert run_read(settings.database, differences()) == []
            delete_everything(settings)


def delete_everything(settings: Settings) -> None:
    care = (
        "imported_row",
        "answer_set",
        "assignment",
        "relationship",
        "session",
        "book_word",
        "book",
        "module",
    )
    raw.run(settings.database, *(f"DELETE FROM {table}" for table in (*care, "client", "caregiver")))
