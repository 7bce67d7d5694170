"""Promise: a cache keeps what was used last, within the weight of its values."""

from app.caches import BoundedCache


def test_the_values_that_were_used_last_stay() -> None:
    cache: BoundedCache[str] = BoundedCache(3)
    for key in "abc":
        cache.put(key, key.upper())
    assert cache.get("a") == "A"

    assert cache.put("d", "D") == ["B"]
    assert (list(cache.values.values()), cache.weight) == (["C", "A", "D"], 3)
    assert cache.get("b") is None


def test_a_heavy_value_takes_the_room_of_many() -> None:
    cache: BoundedCache[str] = BoundedCache(10)
    for key in range(10):
        cache.put(key, str(key))

    assert cache.put("heavy", "x", 8) == [str(key) for key in range(8)]
    assert cache.weight == 10


def test_the_newest_value_stays_at_any_weight() -> None:
    cache: BoundedCache[str] = BoundedCache(10)
    cache.put("a", "A")

    assert cache.put("heavy", "x", 1000) == ["A"]
    assert cache.get("heavy") == "x"
    assert cache.put("b", "B") == ["x"]
    assert cache.weight == 1


def test_a_value_that_is_replaced_or_removed_counts_no_more() -> None:
    cache: BoundedCache[str] = BoundedCache(10)
    cache.put("a", "A", 6)
    cache.put("a", "B", 2)
    assert (cache.get("a"), cache.weight) == ("B", 2)

    assert cache.remove("a") == "B"
    assert cache.remove("a") is None
    assert (cache.values, cache.weights, cache.weight) == ({}, {}, 0)


def test_a_value_that_is_replaced_or_empty_is_used_like_any_other() -> None:
    cache: BoundedCache[str] = BoundedCache(2)
    for key, value in (("a", "A"), ("b", "B"), ("a", "")):
        cache.put(key, value)

    assert cache.put("c", "C") == ["B"]
    assert cache.get("a") == ""
    assert cache.put("d", "D") == ["C"]
