"""Measures how much a process grows with the number of documents. Run from the project folder:

python -m tests.engine.memory once 100000     100,000 documents, each executed once (some minutes)
python -m tests.engine.memory twice 5000      each executed twice, and so prepared
python -m tests.engine.memory long 600        of 16 kB each, executed twice
"""

import asyncio
import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from app.engine.prepared import MAX_DOCUMENT_LENGTH
from app.engine.schema import EngineOptions
from tests.engine.library import LibraryContext, a_volume, library
from tests.engine.test_limits import NO_LIMITS

STATM = Path("/proc/self/statm")
PAGE = 4096
WARM_UP = {"long": 2}  # documents before the first measurement; 20 for the others


def memory_used() -> int:
    """Bytes in memory; without /proc, the bytes allocated by Python."""
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * PAGE
    return tracemalloc.get_traced_memory()[0]


def documents(number: int, is_long: bool) -> Iterator[str]:
    """Different documents; a long one has the maximum length of a prepared document."""
    for index in range(number):
        start = (
            f"query Q{index} {{ volume {{ title pages author {{ name }} b{index}: excerpt(length: {index}) "
        )
        if is_long:
            start += "openedAt(pages: [" + "1," * ((MAX_DOCUMENT_LENGTH - len(start) - 24) // 2) + "2]) "
        yield start + "} }"


async def run(how: str, number: int) -> dict[str, float]:
    schema = library(True, engine_options=EngineOptions(NO_LIMITS))
    times, warm = 1 if how == "once" else 2, WARM_UP.get(how, 20)
    started, before = time.perf_counter(), 0
    for index, text in enumerate(documents(number + warm, how == "long")):
        if index == warm:
            before = memory_used()
        for _ in range(times):
            result = await schema.execute(text, context_value=LibraryContext({"volume": a_volume}))
            assert result.errors is None
    return {
        "documents": number,
        "grown_mib": round((memory_used() - before) / 2**20, 2),
        "seconds": round(time.perf_counter() - started, 2),
    }


def main(how: str, number: str) -> None:
    if not STATM.exists():
        tracemalloc.start()
    gc.disable()  # nothing is left to it
    print(json.dumps(asyncio.run(run(how, int(number)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
