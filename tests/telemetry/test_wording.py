"""Messages name numbers with their nouns, and show texts of people on one line."""

import pytest

from app.telemetry.wording import counted, entry_for, printable


@pytest.mark.parametrize(
    ("count", "plural", "text"),
    [
        (0, "entries", "0 entries"),
        (1, "", "1 entry"),
        (1, "entries", "1 entry"),
        (1500, "entries", "1,500 entries"),
    ],
)
def test_a_number_has_its_noun(count: int, plural: str, text: str) -> None:
    assert counted(count, "entry", plural) == text


def test_a_text_is_printed_on_one_line() -> None:
    assert printable("  Zoë\r\n\tof\x00the  \u202emoor\u2028 ") == "Zoë of the moor"


def test_the_nearest_class_of_an_exception_decides() -> None:
    table: dict[type[BaseException], str] = {OSError: "file", Exception: "any", FileNotFoundError: "missing"}

    faults = (FileNotFoundError(), PermissionError(), ValueError(), KeyboardInterrupt())

    assert [entry_for(fault, table) for fault in faults] == ["missing", "file", "any", None]
