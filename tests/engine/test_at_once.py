"""Promise: requests that run at the same time do not meet in what is prepared."""

import asyncio

from tests.engine.library import (
    PLAIN,
    PREPARING,
    Answer,
    Desk,
    Library,
    a_volume,
    an_author,
    answer_of,
    ready,
    run,
)


def test_requests_at_the_same_time_do_not_meet() -> None:
    ready(PREPARING)
    query = "query($n: Int!) { volume { title slow excerpt(length: $n) editor { name } } }"

    def desk(number: int) -> Desk:
        editor = ValueError(f"editor {number}") if number % 3 == 0 else an_author(name=f"E{number}")
        return Desk({"volume": lambda: a_volume(title=f"Volume {number}", editor=editor)})

    async def together(schema: Library) -> list[Answer]:
        asking = [answer_of(schema, query, desk(n), variable_values={"n": n % 7}) for n in range(60)]
        answers: list[Answer] = await asyncio.gather(*asking)
        return answers

    prepared, plain = run(together(PREPARING)), run(together(PLAIN))

    assert [(each.data, each.errors) for each in prepared] == [(each.data, each.errors) for each in plain]
