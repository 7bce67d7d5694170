"""The page envelope: its numbers, and the parameters that choose a page. Invalid parameters mean the
defaults."""

from urllib.parse import parse_qs

import pytest

from app.rest_compat.routes import read_page
from tests.callers import Gateway
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS

TOTAL = 45  # sessions 101 to 145 of client 3, assignments 1001 to 1045 of caregiver 3


def envelope(
    content: list[int], first: bool, last: bool, pages: int, size: int, number: int
) -> dict[str, object]:
    """The envelope around the items with these ids."""
    return {
        "content": content,
        "first": first,
        "last": last,
        "totalElements": TOTAL,
        "totalPages": pages,
        "numberOfElements": len(content),
        "size": size,
        "number": number,
        "sort": None,
    }


def newest(count: int, skipped: int = 0) -> list[int]:
    """Positions in the list, as the last two digits of ids: the newest is 45."""
    return list(range(TOTAL - skipped, TOTAL - skipped - count, -1))


PAGES = {
    "": envelope(newest(20), True, False, 3, 20, 0),
    "page=0": envelope(newest(20), True, False, 3, 20, 0),
    "page=1": envelope(newest(20, skipped=20), False, False, 3, 20, 1),
    "page=2": envelope(newest(5, skipped=40), False, True, 3, 20, 2),
    "page=3": envelope([], False, True, 3, 20, 3),
    "page=2&size=15": envelope(newest(15, skipped=30), False, True, 3, 15, 2),
    "page=3&size=15": envelope([], False, True, 3, 15, 3),
    "size=44": envelope(newest(44), True, False, 2, 44, 0),
    "size=45": envelope(newest(45), True, True, 1, 45, 0),
    "size=46": envelope(newest(45), True, True, 1, 46, 0),
    "size=1&page=44": envelope([1], False, True, 45, 1, 44),
    # past what an offset of 32 bits reaches
    "page=107374183": envelope([], False, True, 3, 20, 107374183),
    "page=2147483648&size=1": envelope([], False, True, 45, 1, 2147483647),
    "page=999999999999999999&size=100": envelope([], False, True, 1, 100, 2147483647),
    "page=00000000000000000002&size=00000000000000000015": envelope(
        newest(15, skipped=30), False, True, 3, 15, 2
    ),
    "page=-1&size=-99999999999999999999": envelope([45], True, False, 45, 1, 0),
    "page=two&size=101": envelope(newest(45), True, True, 1, 100, 0),
}


@pytest.mark.parametrize("query", PAGES, ids=[query or "nothing" for query in PAGES])
def test_a_page_of_sessions_is_chosen_by_page_and_size(standing: Gateway, query: str) -> None:
    response = standing.as_client(3).get(f"{SESSIONS}?time-state=RUNNING&{query}")

    page = response.json()
    page["content"] = [item["id"] - 100 for item in page["content"]]
    assert response.status_code == 200
    assert page == PAGES[query]
    assert list(page) == list(PAGES[query])


@pytest.mark.parametrize("query", PAGES, ids=[query or "nothing" for query in PAGES])
def test_a_page_of_assignments_is_chosen_by_page_and_size(standing: Gateway, query: str) -> None:
    response = standing.as_caregiver(3).get(f"{ASSIGNMENTS}?time-state=RUNNING&{query}")

    page = response.json()
    page["content"] = [item["id"] - 1000 for item in page["content"]]
    assert response.status_code == 200
    assert page == PAGES[query]
    assert list(page) == list(PAGES[query])


@pytest.mark.parametrize(
    ("query", "first", "number"), [("", True, 0), ("page=0", True, 0), ("page=1", False, 1)]
)
def test_every_page_of_an_empty_list_is_the_last(
    standing: Gateway, query: str, first: bool, number: int
) -> None:
    sessions = standing.as_client(4).get(f"{SESSIONS}?time-state=RUNNING&{query}").json()
    assignments = standing.as_caregiver(4).get(f"{ASSIGNMENTS}?time-state=RUNNING&{query}").json()

    nothing = envelope([], first, True, 0, 20, number) | {"totalElements": 0}
    assert sessions == nothing
    assert assignments == nothing


PARAMETERS = {
    "": (0, 20),
    "page=3&size=15": (3, 15),
    # clamped
    "size=100": (0, 100),
    "size=101": (0, 100),
    "size=2147483648": (0, 100),
    "size=0&page=1": (1, 1),
    "size=-5": (0, 1),
    "page=-1": (0, 20),
    "page=-2147483649": (0, 20),
    "page=2147483647": (2147483647, 20),
    "page=2147483648": (2147483647, 20),
    f"page={10**30}": (2147483647, 20),
    f"size={10**30}": (0, 100),
    # unusable
    "page=&size=": (0, 20),
    "page=two&size=many": (0, 20),
    "page=1.0&size=5.5": (0, 20),
    "page=%2B1&size=%2B5": (0, 20),
    "page=1_0&size=1_0": (0, 20),
    "page=0x1&size=1e1": (0, 20),
    "page=%201&size=5%0A": (0, 20),
    "page=%D9%A1&size=%D9%A5": (0, 20),
    "page=--1&size=-": (0, 20),
    "page=null&size=1": (0, 1),
    "page=1&size=null": (1, 20),
    # the last of repeated values counts, and other names are ignored
    "page=1&page=2&size=5&size=many": (2, 20),
    "Page=1&pageSize=5&number=2&limit=3&sort=id": (0, 20),
}


@pytest.mark.parametrize("query", PARAMETERS, ids=[query or "nothing" for query in PARAMETERS])
def test_page_and_size_are_clamped_or_default(query: str) -> None:
    assert read_page(parse_qs(query, keep_blank_values=True)) == PARAMETERS[query]
