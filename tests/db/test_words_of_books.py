"""The words of a book's name: folded, each once, searchable by prefix."""

import pytest

from app.db.statements.books import LONGEST_WORD, end_of, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", [], id="empty"),
        pytest.param(" – … !", [], id="no letters"),
        pytest.param("Sleep diary", ["sleep", "diary"], id="words"),
        pytest.param("Sleep, sleep; SLEEP", ["sleep"], id="each once"),
        pytest.param("Über-Ich", ["über", "ich"], id="accented letters"),
        pytest.param("STRASSE Straße", ["strasse"], id="case folding"),
        pytest.param("ΣΊΣΥΦΟΣ Σίσυφος", ["σίσυφοσ"], id="another script"),
        pytest.param("phase_2 4you", ["phase_2", "4you"], id="digits and underscores"),
        pytest.param("睡眠 日記", ["睡眠", "日記"], id="without case"),
        pytest.param("50% _a%", ["50", "_a"], id="no wildcards"),
        pytest.param("x" * 100, ["x" * LONGEST_WORD], id="truncated"),
    ],
)
def test_words_of(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize("word", ["sleep", "sleeping", "sleepß", "sleep睡", "sleep\U0001f634"])
def test_words_with_the_prefix_are_in_its_range(word: str) -> None:
    assert "sleep" <= word < end_of("sleep")


@pytest.mark.parametrize("word", ["sleeq", "t", "slee", "睡"])
def test_other_words_are_outside_the_range(word: str) -> None:
    assert not "sleep" <= word < end_of("sleep")
