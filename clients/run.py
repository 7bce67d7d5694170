"""`make clients`: GraphQL clients of others, each against a service of its own with the demo world in it.

Every sentence that is tried is one line; the exit code is 1 when one of them is not so. Ctrl-C leaves nothing
running. With names of files, only these are tried.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory

from clients.made import APOLLO_MANIFEST, MANIFEST, make_all
from clients.service import HERE, World, demo_world, ran, serving

AT_ONCE = os.cpu_count() or 2

NODE = ["node", "--test-reporter=./clients/helpers/sentences.js", "--test-timeout=60000", "--test-force-exit"]
PYTEST = [
    sys.executable,
    "-m",
    "pytest",
    "-o",
    "addopts=",
    "-p",
    "no:terminal",
    "-p",
    "clients.helpers.sentences",
]


def trusting(manifest: Path) -> dict[str, str]:
    return {"trusted_documents": "enforce", "trusted_manifest": str(manifest)}


# The files of tests, and what is set for the service of each.
FILES: dict[str, dict[str, str]] = {
    "graphql-sse.test.js": {},  # the longest first
    "resuming.test.js": {"token_leeway": "0"},
    "audits.test.js": {},
    "apollo.test.js": {},
    "apollo-trusted.test.js": trusting(APOLLO_MANIFEST),
    "urql.test.js": {},
    "relay.test.js": {},
    "trusted.test.js": trusting(MANIFEST),
    "signing-in.test.js": {},
    "graphql-request.test.js": {},
    "graphql-ws.test.js": {},
    "cors.test.js": {"cors_origins": "https://app.example.test"},
    "types.test.js": {},
    "test_gql.py": {},
}


async def try_all(folder: Path, names: Collection[str]) -> bool:
    code, said = await make_all()
    if code:
        print(f"not made of schema.graphql:\n{said}")
        return False
    world = await demo_world(folder / "world")
    at_once = asyncio.Semaphore(AT_ONCE)

    async def one(name: str, care: dict[str, str]) -> bool:
        async with at_once:
            return await try_file(name, world, folder / name, care)

    return all(await asyncio.gather(*(one(name, care) for name, care in FILES.items() if name in names)))


async def try_file(name: str, world: World, folder: Path, care: dict[str, str]) -> bool:
    began = time.monotonic()
    command = [*(PYTEST if name.endswith(".py") else NODE), str(HERE / "tests" / name)]
    async with serving(world, folder, **care) as known:
        code, said = await ran(command, os.environ | known)
    is_good = code == 0 and "  ok  " in said
    if not is_good:
        said += f"what its service said:\n{(folder / 'log').read_text()}"
    print(f"{name}: {'so' if is_good else 'NOT SO'}, {time.monotonic() - began:.1f} s\n{said}", flush=True)
    return is_good


async def main(names: Collection[str]) -> int:
    here = asyncio.current_task()
    assert here is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, here.cancel)
    began = time.monotonic()
    with TemporaryDirectory(prefix="care-gateway-clients-") as folder:
        is_good = await try_all(Path(folder), names)
    print(f"{'All of it is so' if is_good else 'NOT all of it is so'}: {time.monotonic() - began:.0f} s")
    return 0 if is_good else 1


if __name__ == "__main__":
    if strangers := set(sys.argv[1:]) - FILES.keys():
        sys.exit(f"no file of tests: {', '.join(sorted(strangers))}")
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # Node is there
    try:
        sys.exit(asyncio.run(main(sys.argv[1:] or FILES)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit("ended")
