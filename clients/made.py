"""What the compilers of clients make of `schema.graphql`, and manifests of it: in clients/made."""

import json
import os
import shutil

from clients.service import HERE, ran

MADE = HERE / "made"
APOLLO_MANIFEST = MADE / "apollo-manifest.json"
MANIFEST = MADE / "manifest.json"

RELAY = (MADE / "relay", MADE / "relay-persisted")
TYPESCRIPT = MADE / "typescript"
PERSISTED = "queries.json"


async def make_all() -> tuple[int, str]:
    """The exit code of the compilers, and what they said."""
    shutil.rmtree(MADE, ignore_errors=True)
    for folder in RELAY:
        folder.mkdir(parents=True)
        (folder / "package.json").write_text(
            '{ "type": "commonjs" }\n'
        )  # what relay-compiler writes for Node
    (RELAY[1] / PERSISTED).write_text("{}\n")  # it adds to this file, and wants it there
    code, said = await ran(["npm", "run", "--silent", "made"], os.environ, HERE)
    if code == 0:
        documents = [
            json.loads(path.read_text())
            for path in (RELAY[1] / PERSISTED, TYPESCRIPT / "persisted-documents.json")
        ]
        MANIFEST.write_text(json.dumps(documents[0] | documents[1], indent=2))
    return code, said
