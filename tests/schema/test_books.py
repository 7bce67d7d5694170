"""The catalogue: search by the start of words, filters by module and kind.

Contract: search ignores case in every script; every searched word must start a word of the name; no
character of a search is a pattern; more than five words are rejected.
"""

from collections.abc import Iterator

import pytest

from tests.callers import Gateway
from tests.factories import a_book, a_module, people
from tests.schema.worlds import global_id, numbers, refusal

NAMES = {
    1: "Sleep diary",
    2: "The Sleeper's Handbook",
    3: "Übung macht den Meister",
    4: "Große Straße",
    5: "100% focus_group (draft)",
    6: "asleep",
    7: "Дневник сна",
    8: "睡眠日記",
    9: "Ça va – déjà vu",
    10: "De\u0301ja\u0300 lu",  # decomposed, as some systems write accents
}
SEARCHES: dict[str, list[int]] = {
    "sleep": [2, 1],
    "SLEEP": [2, 1],
    "sle": [2, 1],
    "sleeper": [2],
    "leep": [],
    "sleep diary": [1],
    "diary sleep": [1],
    "di sl": [1],
    "sleep hand": [2],
    "sleep nothing": [],
    "  sleep  ": [2, 1],
    "sleep sleep sleep sleep sleep sleep": [2, 1],
    "übung": [3],
    "ÜBUNG": [3],
    "U\u0308bung": [3],
    "ubung": [],
    "strasse": [4],
    "STRASSE": [4],
    "straße": [4],
    "дневник": [7],
    "ДНЕВ": [7],
    "睡眠": [8],
    "日記": [],  # not the start of a word
    "déjà": [10, 9],
    "100": [5],
    "100%": [5],
    "%sleep": [2, 1],
    "sl_ep": [],
    "sleep_": [],
    "focus_": [5],
    "focus_group": [5],
    "focusXgroup": [],
    "s*": [4, 2, 1],
    "(draft": [5],
    "sleeper's": [2],
    "'; DROP TABLE book; --": [],
    "\\": [],  # has no word
    "": sorted(NAMES, reverse=True),
    "   ": sorted(NAMES, reverse=True),
    "\U0010ffff": [],
    "sleep" * 40: [],
}
SEARCH = "query($search: String) { books(search: $search) { totalCount nodes { legacyId } } }"


@pytest.fixture
def shelf(gateway: Gateway) -> Iterator[Gateway]:
    books = [a_book(n, name=name, moduleId=1 + n % 2, isTest=n % 3 == 0) for n, name in NAMES.items()]
    gateway.import_records([*people(), a_module(1), a_module(2), *books])
    yield gateway


def test_a_search_matches_the_start_of_words(shelf: Gateway) -> None:
    found = {}

    for search in SEARCHES:
        page = shelf.as_client(1).data(SEARCH, search=search)["books"]
        found[search] = numbers(page)
        assert page["totalCount"] == len(page["nodes"]), search

    assert found == SEARCHES


NAMES_WITH_MARKS = {1: "हिन्दी में मन की डायरी", 2: "İyi uyku günlüğü", 3: "می\u200cخوابم"}
SEARCHES_WITH_MARKS = {
    "हिन्दी": [1],
    "हि": [1],
    "हिन्दी में मन की डायरी": [1],  # five words
    "ह": [1],
    "न्दी": [],  # not the start of a word
    "iyi": [2],
    "İYİ": [2],
    "i\u0307yi GÜNLÜ": [2],
    "می": [3],
    "میخوابم": [3],
}


def test_a_search_finds_words_with_combining_marks(gateway: Gateway) -> None:
    books = [a_book(n, name=name) for n, name in NAMES_WITH_MARKS.items()]
    gateway.import_records([*people(), a_module(1), *books])
    caller = gateway.as_client(1)

    found = {each: numbers(caller.data(SEARCH, search=each)["books"]) for each in SEARCHES_WITH_MARKS}

    assert found == SEARCHES_WITH_MARKS


def test_an_empty_search_returns_the_whole_catalogue(shelf: Gateway) -> None:
    everything = {"books": {"totalCount": 10, "nodes": [{"legacyId": str(n)} for n in range(10, 0, -1)]}}

    assert shelf.as_caregiver(1).data(SEARCH) == everything
    assert shelf.as_caregiver(1).data("{ books { totalCount nodes { legacyId } } }") == everything


@pytest.mark.sqlite_only
def test_a_search_has_at_most_five_words(shelf: Gateway) -> None:
    caller = shelf.as_client(1)

    assert caller.data(SEARCH, search="a b c d e") == {"books": {"totalCount": 0, "nodes": []}}
    assert caller.graphql(SEARCH, search="a b c d e f") == {
        "data": None,
        "errors": [refusal("UNREADABLE", "search may hold at most 5 words", "books", column=26)],
    }


@pytest.mark.sqlite_only
def test_a_search_has_at_most_320_characters(shelf: Gateway) -> None:
    """Normalizing them takes time, and can make them 18 times as many."""
    caller = shelf.as_client(1)

    assert caller.data(SEARCH, search=" " + "\ufdfa" * 320) == {"books": {"totalCount": 0, "nodes": []}}
    assert caller.graphql(SEARCH, search="a" * 321) == {
        "data": None,
        "errors": [refusal("UNREADABLE", "search may have at most 320 characters", "books", column=26)],
    }


def test_filters_of_the_catalogue_can_be_combined(shelf: Gateway) -> None:
    query = """query($search: String, $module: ID, $isTest: Boolean) {
        books(search: $search, moduleId: $module, isTest: $isTest) { totalCount nodes { legacyId } } }"""
    caller = shelf.as_caregiver(1)

    for search in (None, "s", "-"):
        for module in (None, 1, 2, 3):
            for is_test in (None, True, False):
                page = caller.data(query, search=search, module=module, isTest=is_test)["books"]
                expected = [
                    n
                    for n in sorted(NAMES, reverse=True)
                    if (search is None or (search == "s" and n in begins_with_s()))
                    and module in (None, 1 + n % 2)
                    and is_test in (None, n % 3 == 0)
                ]
                assert (numbers(page), page["totalCount"]) == (expected, len(expected)), (search, module)


def begins_with_s() -> list[int]:
    return [n for n, name in NAMES.items() if any(word.casefold().startswith("s") for word in name.split())]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    ("module", "expected"),
    [("2", 5), (global_id("Module", 2), 5), (str(2**63), 0)],
    ids=["plain", "global", "behind the largest id"],
)
def test_the_module_filter_accepts_both_forms_of_an_id(shelf: Gateway, module: str, expected: int) -> None:
    query = "query($module: ID) { books(moduleId: $module) { totalCount } }"

    assert shelf.as_client(1).data(query, module=module) == {"books": {"totalCount": expected}}


def test_a_search_continues_after_a_cursor(shelf: Gateway) -> None:
    query = """query($after: String) { books(search: "s", first: 2, after: $after) {
        totalCount nodes { legacyId } pageInfo { hasNextPage endCursor } } }"""
    caller = shelf.as_client(1)

    first = caller.data(query)["books"]
    second = caller.data(query, after=first["pageInfo"]["endCursor"])["books"]

    assert numbers(first) + numbers(second) == [4, 2, 1]
    assert (first["pageInfo"]["hasNextPage"], second["pageInfo"]["hasNextPage"]) == (True, False)
    assert first["totalCount"] == second["totalCount"] == 3
