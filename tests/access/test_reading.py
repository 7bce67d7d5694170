"""Promise: what two people share, they alone are told of; whatever way a question takes. Whoever else asks,
by whichever id, hears nothing of it, and who has no account hears nothing at all."""

import pytest

from app.schema.types.node import global_id
from tests.access.documents import SCHEMA, asked, document, links_of, target, walks
from tests.access.table import BOTH, LINKS, OBJECT_WITH, OBJECTS, QUESTIONS, is_for
from tests.access.visitors import (
    MINE,
    PEOPLE_WITH_THINGS,
    assert_not_told,
    assert_shut_out,
    come,
    is_known,
    post,
    shared_with,
    write_in,
)
from tests.access.world import OF, PEOPLE, SHARED, Numbers
from tests.callers import Gateway

ASKED = list(asked())


@pytest.mark.parametrize(
    ("root", "name", "link"),
    ASKED,
    ids=[".".join(filter(None, each)) for each in ASKED],
)
def test_a_question_tells_its_viewers_own_and_nothing_else(
    world: Gateway, root: str, name: str, link: str
) -> None:
    query = document(root, name, link)
    if root == "nodes":
        check_all_at_once(world, name, link, query)
    elif QUESTIONS[root].ids:
        check_objects(world, root, name, link, query)
    else:
        check_list(world, root, name, link, query)
    number = PEOPLE["X"] if name == "Client" else OF["AX"].main
    named = global_id(name, number)
    assert_shut_out(world, lambda caller: post(caller, query, {"id": named, "ids": [named]}))


def check_list(world: Gateway, root: str, kind: str, link: str, query: str) -> None:
    question = QUESTIONS[root]
    for viewer in PEOPLE_WITH_THINGS:
        answer = post(come(world, viewer), query)

        said = assert_not_told(answer, viewer)
        found = (answer.json()["data"] or {}).get(root)
        assert (found is not None) == is_for(question.who, viewer)
        if found is not None and question.shows:
            assert write_in(question.shows, MINE[viewer]) in said
        elif found is not None:
            check_shown(said, viewer, MINE[viewer], kind, link)


def check_objects(world: Gateway, root: str, kind: str, link: str, query: str) -> None:
    question = QUESTIONS[root]
    named = OBJECT_WITH.get(f"{kind}.{link}", question.ids[kind])
    for viewer in PEOPLE_WITH_THINGS:
        caller = come(world, viewer)
        for shared in SHARED:
            number = write_in(named, shared)
            for text in forms(root, question.named or kind, number, shared):
                answer = post(caller, query, {"id": text})

                said = assert_not_told(answer, viewer)
                [found] = (answer.json()["data"] or {root: None}).values()
                is_read = is_known(viewer, number) and is_for(question.who, viewer)
                is_read = is_read and (text != number or root != "node")
                is_found = found is not None and found.get("totalCount") != 0  # or an empty list
                assert is_found == is_read, (viewer, shared, text)
                if is_read and "Z" not in shared:
                    check_shown(said, viewer, shared_with(viewer, shared, number), kind, link)


def check_all_at_once(world: Gateway, kind: str, link: str, query: str) -> None:
    """Theirs and others' side by side in one list."""
    named = OBJECT_WITH.get(f"{kind}.{link}", OBJECTS[kind])
    numbers = [write_in(named, shared) for shared in SHARED]
    for viewer in PEOPLE_WITH_THINGS:
        ids = [*(global_id(kind, int(number)) for number in numbers), numbers[0]]
        answer = post(come(world, viewer), query, {"ids": ids})

        said = assert_not_told(answer, viewer)
        found = [each is not None for each in answer.json()["data"]["nodes"]]
        assert found == [*(is_known(viewer, number) for number in numbers), False]
        check_shown(said, viewer, MINE[viewer], kind, link)


def forms(root: str, kind: str, number: str, shared: str) -> list[str]:
    """Both forms of an id; for most of the objects the one that this root is asked by first."""
    both = [number, global_id(kind, int(number))]
    if root == "node":
        both.reverse()
    return both if shared in ("AX", "BY") else both[:1]


def check_shown(said: str, viewer: str, shared: str, kind: str, link: str) -> None:
    """The link was followed, and so were those of what has no root of its own."""
    if not link:
        return
    found = target(SCHEMA.type_map[kind], link)
    behind = [] if found.name in OBJECTS else [f"{found.name}.{name}" for name in links_of(found)]
    for name in (f"{kind}.{link}", *behind):
        row = LINKS[name]
        assert (write_in(row.shows, shared) in said) == is_for(row.who, viewer), name


def test_own_data_is_ones_own_in_every_format(world: Gateway) -> None:
    for viewer in PEOPLE_WITH_THINGS:
        answer = post(come(world, viewer), "{ ownData(format: CSV) }")

        said = assert_not_told(answer, viewer)
        assert (write_in("zq-{0}d-draft", MINE[viewer]) in said) == (viewer in "XY")


WALKED = list(walks())


@pytest.mark.parametrize(("name", "below"), WALKED, ids=range(len(WALKED)))
def test_a_long_way_leads_to_nobody_else(world: Gateway, name: str, below: str) -> None:
    query = f"query($id: ID!) {{ node(id: $id) {{ __typename ... on {name} {{ {below} }} }} }}"
    for viewer in PEOPLE_WITH_THINGS:
        for shared in SHARED:
            number = write_in(OBJECTS[name], shared)
            answer = post(come(world, viewer), query, {"id": global_id(name, int(number))})

            assert_not_told(answer, viewer)
            assert (answer.json()["data"]["node"] is not None) == is_known(viewer, number)


HOMEWORK_OF = {("A", "X"): 9, ("B", "X"): 9, ("X", "X"): 18, ("B", "Y"): 9, ("Y", "Y"): 9, ("A", "Z"): 9}


@pytest.mark.parametrize(("viewer", "client"), HOMEWORK_OF)
def test_a_client_of_two_is_counted_for_each_of_them_alone(world: Gateway, viewer: str, client: str) -> None:
    """The client themself is told of everything."""
    query = """query($id: ID!) { node(id: $id) { ... on Client {
        progress { assignmentCount completedAssignmentCount completion { assigned completed } }
        scoreHistory(bookId: 3) { score } } } }"""

    answer = post(come(world, viewer), query, {"id": global_id("Client", PEOPLE[client])})

    shared = [one for one in SHARED if client in one and (viewer in one)]
    count = HOMEWORK_OF[viewer, client]
    progress = answer.json()["data"]["node"]["progress"]
    scores = {point["score"] for point in answer.json()["data"]["node"]["scoreHistory"]}
    assert (progress["assignmentCount"], progress["completedAssignmentCount"]) == (count, count // 3)
    assert progress["completion"][-1] == {"assigned": count, "completed": count // 3}
    assert scores == {OF[one].base + number for one in shared for number in (201, 202, 203)}


def test_totals_count_the_viewers_own_alone(world: Gateway) -> None:
    query = "{ sessions { totalCount } assignments { totalCount } submissions { totalCount } }"
    for viewer, pairs in {"A": 2, "B": 2, "X": 2, "Y": 1}.items():
        found = post(come(world, viewer), query).json()["data"]

        assert [each["totalCount"] for each in found.values()] == [4 * pairs, 9 * pairs, 3 * pairs], viewer


def test_every_number_of_the_world_is_told_apart() -> None:
    named = [name for name, what in vars(Numbers).items() if isinstance(what, property)]
    numbers = [getattr(one, name) for one in OF.values() for name in named]

    assert len(numbers) == len(set(numbers))
    assert BOTH in {row.who for row in LINKS.values()}
