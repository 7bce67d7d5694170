"""Two response bodies differ in bytes, formatting, order of members or values; masks exclude named values."""

import orjson
import pytest

from moving_over import LegacyMigrationError
from moving_over.body_diff import MISSING, Difference, Likeness, compare_bodies, read_masks, shown_values

DEEP = b"[" * 1000 + b"%d" + b"]" * 1000
ALIKE = {
    "equal bytes": (b"\xff not JSON", b"\xff not JSON", Likeness.SAME),
    "whitespace": (b'{"a":1}', b'{"a": 1}', Likeness.WRITING),
    "escapes": ('"ü"'.encode(), b'"\\u00fc"', Likeness.WRITING),
    "order": (b'{"a":1,"b":2}', b'{"b":2,"a":1}', Likeness.ORDER),
    "order and whitespace": (b'[{"a":1,"b":2}]', b'[{"b":2, "a":1}]', Likeness.ORDER),
    "not JSON": (b"<a>", b"<b>", Likeness.BYTES),
    "an empty body": (b"", b"{}", Likeness.BYTES),
    "JSON that is cut off": (b'{"a":1}', b'{"a":', Likeness.BYTES),
    "nested too deeply": (DEEP % 1, DEEP % 2, Likeness.BYTES),
}


@pytest.mark.parametrize("masks", [(), ("a", "[0].b")], ids=["without masks", "with masks"])
@pytest.mark.parametrize("case", ALIKE)
def test_bodies_with_the_same_values_differ_in_formatting_order_or_bytes(
    case: str, masks: tuple[str, ...]
) -> None:
    old, new, likeness = ALIKE[case]

    assert compare_bodies(old, new, read_masks(masks)) == (likeness, [])


VALUES = {
    "members": (
        b'{"a":"secret","b":{"c":[1,null]},"d":1,"e":true}',
        b'{"a":"hidden","b":{"c":[2,"?"]},"d":1.0,"f":[]}',
        [
            Difference("a", "secret", "hidden"),
            Difference("b.c[0]", 1, 2),
            Difference("b.c[1]", None, "?"),
            Difference("d", 1, 1.0),
            Difference("e", True, MISSING),
            Difference("f", MISSING, []),
        ],
    ),
    "items with ids": (
        b'{"content":[{"id":3},{"id":2,"a":"x"}]}',
        b'{"content":[{"id":2,"a":"y"},{"id":1}]}',
        [
            Difference("content[id=3]", {"id": 3}, MISSING),
            Difference("content[id=2].a", "x", "y"),
            Difference("content[id=1]", MISSING, {"id": 1}),
        ],
    ),
    "order of items": (b'[{"id":1},{"id":2}]', b'[{"id":2},{"id":1}]', [
        Difference(" (order of the items)", [1, 2], [2, 1]),
    ]),
    "order of the items that both have": (
        b'[{"id":1},{"id":2},{"id":3}]', b'[{"id":2},{"id":1}]',
        [Difference(" (order of the items)", [1, 2, 3], [2, 1]), Difference("[id=3]", {"id": 3}, MISSING)],
    ),
    "the same ids": (b'[{"id":1,"a":1}]', b'[{"id":1,"a":2}]', [Difference("[0].a", 1, 2)]),
    "ids that are lists": (b'[{"id":[1]}]', b'[{"id":[2]}]', [Difference("[0].id[0]", 1, 2)]),
    "ids that are no numbers": (
        b'[{"id":true},{"id":0}]', b'[{"id":0},{"id":true}]',
        [Difference("[0].id", True, 0), Difference("[1].id", 0, True)],
    ),
    "an id twice": (
        b'[{"id":1},{"id":1,"a":1}]', b'[{"id":1,"a":1}]',
        [Difference("[0].a", MISSING, 1), Difference("[1]", {"id": 1, "a": 1}, MISSING)],
    ),
    "an id twice among others": (
        b'[{"id":1},{"id":2},{"id":1}]', b'[{"id":2},{"id":1}]',
        [
            Difference("[0].id", 1, 2),
            Difference("[1].id", 2, 1),
            Difference("[2]", {"id": 1}, MISSING),
        ],
    ),
    "lists of different lengths": (b"[1]", b"[1,2]", [Difference("[1]", MISSING, 2)]),
    "different types": (b"[]", b"{}", [Difference("the body", [], {})]),
    "bodies that are one value": (b"1", b"2", [Difference("the body", 1, 2)]),
    "items of an empty list": (b"[]", b'[{"id":1}]', [Difference("[id=1]", MISSING, {"id": 1})]),
    "no items any more": (b'[{"id":1}]', b"[]", [Difference("[id=1]", {"id": 1}, MISSING)]),
    "ids that only the old service has": (
        b'[{"id":1}]', b'[{"a":1}]', [Difference("[0].id", 1, MISSING), Difference("[0].a", MISSING, 1)]
    ),
    "ids that only the new service has": (
        b'[{"a":1}]', b'[{"id":1}]', [Difference("[0].a", 1, MISSING), Difference("[0].id", MISSING, 1)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUES)
def test_different_values_are_listed_with_their_paths(case: str) -> None:
    old, new, differences = VALUES[case]

    assert compare_bodies(old, new, read_masks(())) == (Likeness.VALUES, differences)


def test_no_more_differences_are_listed_than_can_be_read() -> None:
    compared = compare_bodies(orjson.dumps([0] * 1001), orjson.dumps([1] * 1001), read_masks(()))

    assert (compared[0], len(compared[1])) == (Likeness.VALUES, 1000)


def test_values_are_shown_as_types_and_lengths_or_as_json() -> None:
    pairs = [
        ("1\x1b[31m", None), ("\x9b31m", 0), ("x" * 79, 1.5), ("x" * 78, 1), (2, 1), (True, MISSING),
        ([1], {}),
    ]  # fmt: skip

    assert [shown_values(*pair, False) for pair in pairs] == [
        ("text of 6", "null"),
        ("text of 4", "number"),
        ("text of 79", "number"),
        ("text of 78", "number"),
        ("number", "another number"),
        ("true or false", "nothing"),
        ("list of 1", "object"),
    ]
    assert [shown_values(*pair, True) for pair in pairs] == [
        ('"1\\u001b[31m"', "null"),
        ('"\\u009b31m"', "0"),
        (f'"{"x" * 76}...', "1.5"),
        (f'"{"x" * 78}"', "1"),
        ("2", "1"),
        ("true", "nothing"),
        ("[1]", "{}"),
    ]


# --- masks ---


def test_masked_values_may_differ_and_unmatched_masks_are_known() -> None:
    masks = read_masks(
        ("content[*].score", "content[0].answers", "at", "header:Allow", "content[*].scoer", "content[7].id")
    )

    compared = compare_bodies(
        b'{"content":[{"id":1,"score":1,"answers":[{"a":[1]}]},{"id":2,"score":null}],"at":"x, ]"}',
        b'{"content":[{"id":1,"score":2,"answers":[]},{"id":2,"score":{"b":[]}}],"at":"y"}',
        masks,
    )

    assert compared == (Likeness.SAME, [])
    assert [masks.match(masks.headers, (name,)) for name in ("allow", "date")] == [True, False]
    assert masks.unmatched == ["content[*].scoer", "content[7].id"]


def test_every_mask_of_a_value_has_matched() -> None:
    masks = read_masks(("content[*].score", "content[0].score", "header:Allow", "header:allow"))

    compared = compare_bodies(b'{"content":[{"score":1}]}', b'{"content":[{"score":2}]}', masks)

    assert compared == (Likeness.SAME, [])
    assert masks.match(masks.headers, ("allow",))
    assert masks.unmatched == []


def test_masks_match_in_equal_bodies_too() -> None:
    masks = read_masks(("a", "b", "c"))

    for body in (b'{"a":1}', b'{"b":1}', b"\xff not JSON"):
        assert compare_bodies(body, body, masks) == (Likeness.SAME, [])
    assert masks.unmatched == ["c"]


def test_a_mask_may_name_an_item_far_behind() -> None:
    assert read_masks(("a[999999]",)).bodies == {"a[999999]": ("a", 999_999)}


NAMES = {  # the masks, and the bodies
    "of any name": ("a.*.c", b'{"a":{"b":{"c":1},"d":{"c":1}}}', b'{"a":{"b":{"c":2},"d":{"c":3}}}'),
    "that is written with escapes": ("ü", b'{"\\u00fc":1}', b'{"\\u00fc":2}'),
    "beside texts with quotes": ("a", *(b'{"b":"\\"}, \\\\","a":%d}' % n for n in (1, 2))),
    "whose texts contain quotes": ("a", *(b'{"a":"\\"%d}","b":1}' % n for n in (1, 2))),
    "within a masked one": ("a a[*].b", b'{"a":[{"b":1},{"b":1}],"c":1}', b'{"a":[{"b":2}],"c":1}'),
    "of the third item": ("a[2]", b'{"a":[[1,2],{"b":1},3,4]}', b'{"a":[[1,2],{"b":1},{},4]}'),
    "that is called like headers": (
        "headers[0].a header",
        b'{"headers":[{"a":1}],"header":1}',
        b'{"headers":[{"a":2}],"header":2}',
    ),
    "of a list": ("[1][0]", b"[[1],[2],[3]]", b"[[1],[9],[3]]"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_value_is_masked_by_its_path(case: str) -> None:
    masks, old, new = NAMES[case]

    assert compare_bodies(old, new, read_masks(masks.split())) == (Likeness.SAME, [])


def test_bytes_outside_of_masks_are_compared() -> None:
    masks = read_masks(("at",))

    assert compare_bodies(b'{"at":1,"a":2}', b'{"at":2, "a":2}', masks) == (Likeness.WRITING, [])


def test_the_presence_of_a_masked_member_is_compared() -> None:
    differences = [Difference("at", None, MISSING)]

    assert compare_bodies(b'{"a":1,"at":2}', b'{"a":1}', read_masks(("at",))) == (
        Likeness.VALUES,
        differences,
    )


@pytest.mark.parametrize("mask", ["", ".a", "a[", "a[x]", "a]b", "header:", "a..b", "a[1000000]"])
def test_an_invalid_mask_is_rejected(mask: str) -> None:
    with pytest.raises(LegacyMigrationError) as error:
        read_masks((mask,))

    assert str(error.value) == (
        f"the mask {mask!r} is invalid; masks are like content[*].score or header:date"
    )
