"""The words of a book's name: folded, each once, in a form that can be searched by how it begins."""

import pytest

from app.db.statements.books import LONGEST_WORD, end_of, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param(" – … !", [], id="no letters"),
        pytest.param("Sleep diary", ["sleep", "diary"], id="words"),
        pytest.param("Sleep, sleep; SLEEP", ["sleep"], id="each once"),
        pytest.param("Über-Ich", ["über", "ich"], id="letters with marks"),
        pytest.param("STRASSE Straße", ["strasse"], id="folded, not lowered"),
        pytest.param("ΣΊΣΥΦΟΣ Σίσυφος", ["σίσυφοσ"], id="another script"),
        pytest.param("phase_2 4you", ["phase_2", "4you"], id="digits and underscores"),
        pytest.param("睡眠 日記", ["睡眠", "日記"], id="without case"),
        pytest.param("50% _a%", ["50", "_a"], id="nothing is a pattern"),
        pytest.param("x" * 100, ["x" * LONGEST_WORD], id="cut where it is too long"),
    ],
)
def test_words_of(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize("word", ["sleep", "sleeping", "sleepß", "sleep睡", "sleep\U0001f634"])
def test_every_word_with_a_beginning_lies_before_its_end(word: str) -> None:
    assert "sleep" <= word < end_of("sleep")


@pytest.mark.parametrize("word", ["sleeq", "t", "slee", "睡"])
def test_other_words_lie_outside(word: str) -> None:
    assert not "sleep" <= word < end_of("sleep")
