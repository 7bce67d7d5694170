"""Promise: concurrent requests do not share state of a prepared operation."""

import asyncio

from tests.engine.library import (
    PLAIN,
    PREPARING,
    Library,
    LibraryContext,
    Outcome,
    a_volume,
    an_author,
    outcome_of,
    ready,
    run,
)


def test_concurrent_requests_do_not_share_state() -> None:
    ready(PREPARING)
    query = "query($n: Int!) { volume { title slow excerpt(length: $n) editor { name } } }"

    def desk(number: int) -> LibraryContext:
        editor = ValueError(f"editor {number}") if number % 3 == 0 else an_author(name=f"E{number}")
        return LibraryContext({"volume": lambda: a_volume(title=f"Volume {number}", editor=editor)})

    async def together(schema: Library) -> list[Outcome]:
        asking = [outcome_of(schema, query, desk(n), variable_values={"n": n % 7}) for n in range(60)]
        outcomes: list[Outcome] = await asyncio.gather(*asking)
        return outcomes

    prepared, plain = run(together(PREPARING)), run(together(PLAIN))

    assert [(each.data, each.errors) for each in prepared] == [(each.data, each.errors) for each in plain]
