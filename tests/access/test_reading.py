"""A query returns the viewer's own data only, by whichever id and through whichever fields. A caller without
an account receives no data."""

import pytest

from app.schema.types.node import global_id
from tests.access.documents import SCHEMA, document, links_of, random_paths, reads, target
from tests.access.table import BOTH, LINKS, OBJECT_WITH, OBJECTS, QUERIES, is_allowed
from tests.access.viewers import (
    OWN_PAIR,
    VIEWERS,
    assert_known_only,
    assert_outsiders_rejected,
    caller_of,
    fill_for,
    is_known,
    pair_at,
    post,
)
from tests.access.world import OF, PEOPLE, SHARED, Numbers
from tests.callers import Gateway

READS = list(reads())


@pytest.mark.parametrize(
    ("root", "name", "link"),
    READS,
    ids=[".".join(filter(None, each)) for each in READS],
)
def test_a_query_returns_the_viewers_own_data_only(world: Gateway, root: str, name: str, link: str) -> None:
    query = document(root, name, link)
    if root == "nodes":
        check_nodes(world, name, link, query)
    elif QUERIES[root].ids:
        check_objects(world, root, name, link, query)
    else:
        check_list(world, root, name, link, query)
    number = PEOPLE["X"] if name == "Client" else OF["AX"].main
    named = global_id(name, number)
    assert_outsiders_rejected(world, lambda caller: post(caller, query, {"id": named, "ids": [named]}))


def check_list(world: Gateway, root: str, kind: str, link: str, query: str) -> None:
    row = QUERIES[root]
    for viewer in VIEWERS:
        response = post(caller_of(world, viewer), query)

        content = assert_known_only(response, viewer)
        found = (response.json()["data"] or {}).get(root)
        assert (found is not None) == is_allowed(row.who, viewer)
        if found is not None and row.shows:
            assert fill_for(row.shows, OWN_PAIR[viewer]) in content
        elif found is not None:
            check_links(content, viewer, OWN_PAIR[viewer], kind, link)


def check_objects(world: Gateway, root: str, kind: str, link: str, query: str) -> None:
    row = QUERIES[root]
    named = OBJECT_WITH.get(f"{kind}.{link}", row.ids[kind])
    for viewer in VIEWERS:
        caller = caller_of(world, viewer)
        for shared in SHARED:
            number = fill_for(named, shared)
            for text in forms(root, row.id_of or kind, number, shared):
                response = post(caller, query, {"id": text})

                content = assert_known_only(response, viewer)
                [found] = (response.json()["data"] or {root: None}).values()
                is_read = is_known(viewer, number) and is_allowed(row.who, viewer)
                is_read = is_read and (text != number or root != "node")
                is_found = found is not None and found.get("totalCount") != 0  # or an empty list
                assert is_found == is_read, (viewer, shared, text)
                if is_read and "Z" not in shared:
                    check_links(content, viewer, pair_at(viewer, shared, number), kind, link)


def check_nodes(world: Gateway, kind: str, link: str, query: str) -> None:
    """Own and foreign objects side by side in one list."""
    named = OBJECT_WITH.get(f"{kind}.{link}", OBJECTS[kind])
    numbers = [fill_for(named, shared) for shared in SHARED]
    for viewer in VIEWERS:
        ids = [*(global_id(kind, int(number)) for number in numbers), numbers[0]]
        response = post(caller_of(world, viewer), query, {"ids": ids})

        content = assert_known_only(response, viewer)
        found = [each is not None for each in response.json()["data"]["nodes"]]
        assert found == [*(is_known(viewer, number) for number in numbers), False]
        check_links(content, viewer, OWN_PAIR[viewer], kind, link)


def forms(root: str, kind: str, number: str, shared: str) -> list[str]:
    """Both forms of an id; for most pairs only the form that this query accepts."""
    both = [number, global_id(kind, int(number))]
    if root == "node":
        both.reverse()
    return both if shared in ("AX", "BY") else both[:1]


def check_links(content: str, viewer: str, shared: str, kind: str, link: str) -> None:
    """The link has data, and so have the links of objects that no query returns."""
    if not link:
        return
    found = target(SCHEMA.type_map[kind], link)
    below_link = [] if found.name in OBJECTS else [f"{found.name}.{name}" for name in links_of(found)]
    for name in (f"{kind}.{link}", *below_link):
        row = LINKS[name]
        assert (fill_for(row.shows, shared) in content) == is_allowed(row.who, viewer), name


def test_own_data_as_csv_contains_the_clients_own_data_only(world: Gateway) -> None:
    for viewer in VIEWERS:
        response = post(caller_of(world, viewer), "{ ownData(format: CSV) }")

        content = assert_known_only(response, viewer)
        assert (fill_for("zq-{0}d-draft", OWN_PAIR[viewer]) in content) == (viewer in "XY")


RANDOM_PATHS = list(random_paths())


@pytest.mark.parametrize(("name", "below"), RANDOM_PATHS, ids=range(len(RANDOM_PATHS)))
def test_a_deep_query_returns_known_data_only(world: Gateway, name: str, below: str) -> None:
    query = f"query($id: ID!) {{ node(id: $id) {{ __typename ... on {name} {{ {below} }} }} }}"
    for viewer in VIEWERS:
        for shared in SHARED:
            number = fill_for(OBJECTS[name], shared)
            response = post(caller_of(world, viewer), query, {"id": global_id(name, int(number))})

            assert_known_only(response, viewer)
            assert (response.json()["data"]["node"] is not None) == is_known(viewer, number)


HOMEWORK_OF = {("A", "X"): 9, ("B", "X"): 9, ("X", "X"): 18, ("B", "Y"): 9, ("Y", "Y"): 9, ("A", "Z"): 9}


@pytest.mark.parametrize(("viewer", "client"), HOMEWORK_OF)
def test_progress_counts_the_assignments_that_the_viewer_shares(
    world: Gateway, viewer: str, client: str
) -> None:
    """The client shares all of them."""
    query = """query($id: ID!) { node(id: $id) { ... on Client {
        progress { assignmentCount completedAssignmentCount completion { assigned completed } }
        scoreHistory(bookId: 3) { score } } } }"""

    response = post(caller_of(world, viewer), query, {"id": global_id("Client", PEOPLE[client])})

    shared = [one for one in SHARED if client in one and (viewer in one)]
    count = HOMEWORK_OF[viewer, client]
    progress = response.json()["data"]["node"]["progress"]
    scores = {point["score"] for point in response.json()["data"]["node"]["scoreHistory"]}
    assert (progress["assignmentCount"], progress["completedAssignmentCount"]) == (count, count // 3)
    assert progress["completion"][-1] == {"assigned": count, "completed": count // 3}
    assert scores == {OF[one].base + number for one in shared for number in (201, 202, 203)}


def test_totals_count_the_viewers_own_rows_only(world: Gateway) -> None:
    query = "{ sessions { totalCount } assignments { totalCount } submissions { totalCount } }"
    for viewer, pairs in {"A": 2, "B": 2, "X": 2, "Y": 1}.items():
        found = post(caller_of(world, viewer), query).json()["data"]

        assert [each["totalCount"] for each in found.values()] == [4 * pairs, 9 * pairs, 3 * pairs], viewer


def test_every_number_of_the_world_is_unique() -> None:
    named = [name for name, what in vars(Numbers).items() if isinstance(what, property)]
    numbers = [getattr(one, name) for one in OF.values() for name in named]

    assert len(numbers) == len(set(numbers))
    assert BOTH in {row.who for row in LINKS.values()}
