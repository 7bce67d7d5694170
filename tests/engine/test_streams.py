"""Promise: the memory of a subscription does not grow with its events."""

import asyncio
import gc
from collections.abc import AsyncGenerator

import pytest
import strawberry

from app.engine.schema import PreparingSchema

FEW, MANY = 50, 300


@strawberry.type
class Inner:
    number: int


@strawberry.type
class Outer:
    inner: Inner
    many: list[Inner]


@strawberry.type
class Query:
    nothing: int = 0


@strawberry.type
class Subscription:
    @strawberry.subscription
    async def counted(self) -> AsyncGenerator[Outer, None]:
        for number in range(MANY):
            yield Outer(inner=Inner(number=number), many=[Inner(number=number)] * 3)


@pytest.mark.parametrize("prepares", [True, False])
def test_memory_does_not_grow_with_the_events_of_a_subscription(prepares: bool) -> None:
    schema = PreparingSchema(query=Query, subscription=Subscription, prepares=prepares)

    async def run() -> tuple[list[object], int]:
        numbers, sizes = [], []
        stream = await schema.stream("subscription { counted { inner { number } many { number } } }")
        async for result in stream:
            numbers.append(result.data["counted"]["inner"]["number"])
            if numbers[-1] in (FEW, MANY - 1):
                gc.collect()
                sizes.append(len(gc.get_objects()))
        return numbers, sizes[1] - sizes[0]

    numbers, growth = asyncio.run(run())

    assert numbers == list(range(MANY))
    assert growth < FEW  # objects, after 250 more events
