"""`make clients`: runs the tests of third-party GraphQL clients, each file against its own service.

Prints one line per test and exits with 1 if a test fails. Arguments are names of test files to run.
TEST_DATABASE_URL=postgresql://... uses databases of this server, which may be behind PgBouncer.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory

from clients.service import HERE, World, copied, demo_world, run_command, serving

CONCURRENCY = os.cpu_count() or 2
NODE = ["node", "--test-reporter=./clients/helpers/sentences.js", "--test-timeout=60000", "--test-force-exit"]
PYTEST = [sys.executable, "-m", "pytest", "-oaddopts=", "-pno:terminal", "-pclients.helpers.sentences"]

MADE = HERE / "made"  # what the clients' compilers generate from schema.graphql
APOLLO_MANIFEST = MADE / "apollo-manifest.json"
MANIFEST = MADE / "manifest.json"


def enforced(manifest: Path) -> dict[str, str]:
    return {"trusted_documents": "enforce", "trusted_manifest": str(manifest)}


# The test files, and settings of the service of each.
FILES: dict[str, dict[str, str]] = {
    "graphql-sse.test.js": {},  # the slowest first
    "resuming.test.js": {"token_leeway": "0"},
    "audits.test.js": {},
    "apollo.test.js": {},
    "apollo-cache.test.js": {},
    "apollo-trusted.test.js": enforced(APOLLO_MANIFEST),
    "urql.test.js": {},
    "urql-graphcache.test.js": {},
    "relay.test.js": {},
    "trusted.test.js": enforced(MANIFEST),
    "signing-in.test.js": {},
    "graphql-request.test.js": {},
    "statuses.test.js": {},
    "graphql-ws.test.js": {},
    "cors.test.js": {"cors_origins": "https://app.example.test"},
    "types.test.js": {},
    "lint.test.js": {},
    "test_gql.py": {},
    "test_react.py": {"token_leeway": "0"},
}


async def compile_documents() -> tuple[int, str]:
    """Runs the clients' compilers; returns their exit code and output."""
    relay, persisted = MADE / "relay", MADE / "relay-persisted"
    shutil.rmtree(MADE, ignore_errors=True)
    for folder in (relay, persisted):
        folder.mkdir(parents=True)
        (folder / "package.json").write_text(
            '{ "type": "commonjs" }\n'
        )  # the format of relay-compiler's output
    (persisted / "queries.json").write_text("{}\n")  # relay-compiler adds to an existing file
    code, output = await run_command(["npm", "run", "--silent", "made"], os.environ, HERE)
    if code == 0:
        files = (persisted / "queries.json", MADE / "typescript" / "persisted-documents.json")
        first, second = (json.loads(path.read_text()) for path in files)
        MANIFEST.write_text(json.dumps(first | second, indent=2))
    return code, output


async def run_all(folder: Path, names: Collection[str]) -> bool:
    code, output = await compile_documents()
    if code:
        print(f"the documents cannot be compiled:\n{output}")
        return False
    world = await demo_world(folder / "world")
    slots = asyncio.Semaphore(CONCURRENCY)

    async def run_one(name: str, settings: dict[str, str]) -> bool:
        async with slots:
            return await run_file(name, world, folder / name, settings)

    return all(await asyncio.gather(*(run_one(name, care) for name, care in FILES.items() if name in names)))


async def run_file(name: str, world: World, folder: Path, settings: dict[str, str]) -> bool:
    started = time.monotonic()
    command = [*(PYTEST if name.endswith(".py") else NODE), str(HERE / "tests" / name)]
    async with copied(world, folder) as own, serving(world, folder, **own, **settings) as variables:
        code, output = await run_command(command, os.environ | variables)
    is_passed = code == 0 and ("  ok  " in output or "  skip  " in output)
    if not is_passed:
        output += f"log of the service:\n{(folder / 'log').read_text()}"
    print(f"{name}: {verdict(is_passed)}, {time.monotonic() - started:.1f} s\n{output}", flush=True)
    return is_passed


def verdict(is_passed: bool) -> str:
    return "PASSED" if is_passed else "FAILED"


async def main(names: Collection[str]) -> int:
    """SIGTERM and Ctrl-C cancel the task, so that no process is left."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    started = time.monotonic()
    with TemporaryDirectory(prefix="care-gateway-clients-") as folder:
        is_passed = await run_all(Path(folder), names)
    print(f"{verdict(is_passed)}: {time.monotonic() - started:.0f} s")
    return 0 if is_passed else 1


if __name__ == "__main__":
    if unknown := set(sys.argv[1:]) - FILES.keys():
        sys.exit(f"unknown test files: {', '.join(sorted(unknown))}")
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # contains Node
    try:
        sys.exit(asyncio.run(main(sys.argv[1:] or FILES)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit("cancelled")
