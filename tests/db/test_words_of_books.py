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
        pytest.param("हिन्दी की किताब", ["हिन्दी", "की", "किताब"], id="vowels as marks"),
        pytest.param("İYİ iyi", ["iyi"], id="a dot above"),
        pytest.param("q\u0307 q", ["q\u0307", "q"], id="a dot above another letter"),
        pytest.param("U\u0308ber \u00dcber", ["über"], id="composed or not"),
        pytest.param("ｗｉｄｅ ﬁne", ["wide", "fine"], id="other forms of letters"),
        pytest.param("℡ \u01f0", ["tel", "\u01f0"], id="forms that folding changes"),
        pytest.param("می\u200cروم co\u00adop", ["میروم", "coop"], id="joiners and soft hyphens"),
        pytest.param("e\u200dmail e\u2060mail", ["email"], id="other joiners"),
        pytest.param("\u0301 a\u20dd", ["a\u20dd"], id="a mark alone is no word"),
        pytest.param("50% _a%", ["50", "_a"], id="no wildcards"),
        pytest.param("x" * 100, ["x" * LONGEST_WORD], id="truncated"),
        pytest.param("x" * 70 + "y " + "x" * 70 + "z", ["x" * LONGEST_WORD], id="equal when truncated"),
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
