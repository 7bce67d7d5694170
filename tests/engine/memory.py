"""How much a process grows by documents that come and go; by hand, from the folder of the project:

python -m tests.engine.memory once 100000     100,000 documents, each executed once (some minutes)
python -m tests.engine.memory twice 5000      each executed twice, and so prepared
python -m tests.engine.memory long 600        of 16 kB each, executed twice
python -m tests.engine.memory met 100000      only looked up
"""

import asyncio
import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from app.engine.operations import MAX_DOCUMENT_LENGTH
from tests.engine.library import LibraryContext, a_volume, library

STATM = Path("/proc/self/statm")
PAGE = 4096
WARM = {"long": 2}  # documents before the first look; of the others 20
COLLECTS = (700, 10, 10)  # often, and in every Python the same: what waits to be collected is no growth


def taken() -> int:
    """Bytes in memory; where the system does not tell, those that Python has given out."""
    gc.collect()
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * PAGE
    return tracemalloc.get_traced_memory()[0]


def documents(number: int, is_long: bool) -> Iterator[str]:
    """Each another; a long one is as long as a document that is prepared may be."""
    for index in range(number):
        start = (
            f"query Q{index} {{ volume {{ title pages author {{ name }} b{index}: excerpt(length: {index}) "
        )
        if is_long:
            start += "openedAt(pages: [" + "1," * ((MAX_DOCUMENT_LENGTH - len(start) - 24) // 2) + "2]) "
        yield start + "} }"


async def run(how: str, number: int) -> dict[str, float]:
    schema = library(prepares=True)
    times, warm = 1 if how == "once" else 2, WARM.get(how, 20)
    started, before = time.perf_counter(), 0
    for index, text in enumerate(documents(number + warm, how == "long")):
        if index == warm:
            before = taken()
        if how == "met":
            schema.operations.find(text, None)
            continue
        for _ in range(times):
            result = await schema.execute(text, context_value=LibraryContext({"volume": a_volume}))
            assert result.errors is None
    return {
        "documents": number,
        "grown_mib": round((taken() - before) / 2**20, 2),
        "seconds": round(time.perf_counter() - started, 2),
    }


def main(how: str, number: str) -> None:
    if not STATM.exists():
        tracemalloc.start()
    gc.set_threshold(*COLLECTS)
    print(json.dumps(asyncio.run(run(how, int(number)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
