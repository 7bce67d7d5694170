"""Only the two people of a relationship can read its data, by any path through the schema. Other people get
nothing of it by any id, and people without an account get nothing at all."""

import pytest

from app.schema.types.scalars import global_id
from tests.access.documents import SCHEMA, document, links_from_roots, links_of, target, walks
from tests.access.table import BOTH, LINKS, OBJECT_WITH, OBJECTS, QUESTIONS, is_for
from tests.access.viewers import (
    MINE,
    PEOPLE_WITH_DATA,
    assert_rejects_outsiders,
    assert_shows_only_known,
    is_known,
    post,
    shared_with,
    sign_in,
    write_in,
)
from tests.access.world import OF, PEOPLE, SHARED, Numbers
from tests.callers import Gateway

LINKS_FROM_ROOTS = list(links_from_roots())


@pytest.mark.parametrize(
    ("root", "name", "link"),
    LINKS_FROM_ROOTS,
    ids=[".".join(filter(None, each)) for each in LINKS_FROM_ROOTS],
)
def test_a_query_shows_only_the_viewers_own_data(world: Gateway, root: str, name: str, link: str) -> None:
    query = document(root, name, link)
    if root == "nodes":
        check_all_at_once(world, name, link, query)
    elif QUESTIONS[root].ids:
        check_objects(world, root, name, link, query)
    else:
        check_list(world, root, name, link, query)
    number = PEOPLE["X"] if name == "Client" else OF["AX"].main
    named = global_id(name, number)
    assert_rejects_outsiders(world, lambda caller: post(caller, query, {"id": named, "ids": [named]}))


def check_list(world: Gateway, root: str, kind: str, link: str, query: str) -> None:
    question = QUESTIONS[root]
    for viewer in PEOPLE_WITH_DATA:
        answer = post(sign_in(world, viewer), query)

        shown = assert_shows_only_known(answer, viewer)
        found = (answer.json()["data"] or {}).get(root)
        assert (found is not None) == is_for(question.who, viewer)
        if found is not None and question.shows:
            assert write_in(question.shows, MINE[viewer]) in shown
        elif found is not None:
            check_shown(shown, viewer, MINE[viewer], kind, link)


def check_objects(world: Gateway, root: str, kind: str, link: str, query: str) -> None:
    question = QUESTIONS[root]
    named = OBJECT_WITH.get(f"{kind}.{link}", question.ids[kind])
    for viewer in PEOPLE_WITH_DATA:
        caller = sign_in(world, viewer)
        for shared in SHARED:
            number = write_in(named, shared)
            for text in forms(root, question.named or kind, number, shared):
                answer = post(caller, query, {"id": text})

                shown = assert_shows_only_known(answer, viewer)
                [found] = (answer.json()["data"] or {root: None}).values()
                is_read = is_known(viewer, number) and is_for(question.who, viewer)
                is_read = is_read and (text != number or root != "node")
                is_found = found is not None and found.get("totalCount") != 0  # or an empty list
                assert is_found == is_read, (viewer, shared, text)
                if is_read and "Z" not in shared:
                    check_shown(shown, viewer, shared_with(viewer, shared, number), kind, link)


def check_all_at_once(world: Gateway, kind: str, link: str, query: str) -> None:
    """Own and foreign ids together in one list."""
    named = OBJECT_WITH.get(f"{kind}.{link}", OBJECTS[kind])
    numbers = [write_in(named, shared) for shared in SHARED]
    for viewer in PEOPLE_WITH_DATA:
        ids = [*(global_id(kind, int(number)) for number in numbers), numbers[0]]
        answer = post(sign_in(world, viewer), query, {"ids": ids})

        shown = assert_shows_only_known(answer, viewer)
        found = [each is not None for each in answer.json()["data"]["nodes"]]
        assert found == [*(is_known(viewer, number) for number in numbers), False]
        check_shown(shown, viewer, MINE[viewer], kind, link)


def forms(root: str, kind: str, number: str, shared: str) -> list[str]:
    """Both forms of an id; for most objects, the first is the one of this root."""
    both = [number, global_id(kind, int(number))]
    if root == "node":
        both.reverse()
    return both if shared in ("AX", "BY") else both[:1]


def check_shown(shown: str, viewer: str, shared: str, kind: str, link: str) -> None:
    """Checks that the link was followed, and the links of objects without a root of their own."""
    if not link:
        return
    found = target(SCHEMA.type_map[kind], link)
    behind = [] if found.name in OBJECTS else [f"{found.name}.{name}" for name in links_of(found)]
    for name in (f"{kind}.{link}", *behind):
        row = LINKS[name]
        assert (write_in(row.shows, shared) in shown) == is_for(row.who, viewer), name


def test_own_data_contains_only_the_clients_own_data(world: Gateway) -> None:
    for viewer in PEOPLE_WITH_DATA:
        answer = post(sign_in(world, viewer), "{ ownData(format: CSV) }")

        shown = assert_shows_only_known(answer, viewer)
        assert (write_in("zq-{0}d-draft", MINE[viewer]) in shown) == (viewer in "XY")


WALKED = list(walks())


@pytest.mark.parametrize(("name", "below"), WALKED, ids=range(len(WALKED)))
def test_a_deep_query_leads_to_no_other_person(world: Gateway, name: str, below: str) -> None:
    query = f"query($id: ID!) {{ node(id: $id) {{ __typename ... on {name} {{ {below} }} }} }}"
    for viewer in PEOPLE_WITH_DATA:
        for shared in SHARED:
            number = write_in(OBJECTS[name], shared)
            answer = post(sign_in(world, viewer), query, {"id": global_id(name, int(number))})

            assert_shows_only_known(answer, viewer)
            assert (answer.json()["data"]["node"] is not None) == is_known(viewer, number)


HOMEWORK_OF = {("A", "X"): 9, ("B", "X"): 9, ("X", "X"): 18, ("B", "Y"): 9, ("Y", "Y"): 9, ("A", "Z"): 9}


@pytest.mark.parametrize(("viewer", "client"), HOMEWORK_OF)
def test_counts_of_a_shared_client_are_separate_for_each_caregiver(
    world: Gateway, viewer: str, client: str
) -> None:
    """The client sees everything."""
    query = """query($id: ID!) { node(id: $id) { ... on Client {
        progress { assignmentCount completedAssignmentCount completion { assigned completed } }
        scoreHistory(bookId: 3) { score } } } }"""

    answer = post(sign_in(world, viewer), query, {"id": global_id("Client", PEOPLE[client])})

    shared = [one for one in SHARED if client in one and (viewer in one)]
    count = HOMEWORK_OF[viewer, client]
    progress = answer.json()["data"]["node"]["progress"]
    scores = {point["score"] for point in answer.json()["data"]["node"]["scoreHistory"]}
    assert (progress["assignmentCount"], progress["completedAssignmentCount"]) == (count, count // 3)
    assert progress["completion"][-1] == {"assigned": count, "completed": count // 3}
    assert scores == {OF[one].base + number for one in shared for number in (201, 202, 203)}


def test_totals_count_only_the_viewers_own_rows(world: Gateway) -> None:
    query = "{ sessions { totalCount } assignments { totalCount } submissions { totalCount } }"
    for viewer, pairs in {"A": 2, "B": 2, "X": 2, "Y": 1}.items():
        found = post(sign_in(world, viewer), query).json()["data"]

        assert [each["totalCount"] for each in found.values()] == [4 * pairs, 9 * pairs, 3 * pairs], viewer


def test_every_value_of_the_world_is_distinct() -> None:
    named = [name for name, what in vars(Numbers).items() if isinstance(what, property)]
    numbers = [getattr(one, name) for one in OF.values() for name in named]

    assert len(numbers) == len(set(numbers))
    assert BOTH in {row.who for row in LINKS.values()}
