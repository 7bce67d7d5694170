"""The media type of a GraphQL answer, as the caller prefers it, and what each says of what failed."""

import orjson

from app.http.messages import JSON, Reply

RESPONSE_JSON = "application/graphql-response+json"
KIND = (b"content-type", RESPONSE_JSON.encode())
NOT_EXECUTED = b'{"data":null,"errors":'


def as_preferred(accept: str | None, reply: Reply) -> Reply:
    """With the newer type the status tells of a request that was not executed, which then has no data either.

    With `application/json` it stays a 200, because a proxy might have said anything else.
    """
    if accept is None or RESPONSE_JSON not in accept.lower() or not is_preferred(accept.lower()):
        return reply
    if reply.status == 200 and reply.body.startswith(NOT_EXECUTED):
        said = orjson.loads(reply.body)
        if not any("path" in error for error in said["errors"]):
            del said["data"]
            reply = reply._replace(body=orjson.dumps(said), status=400)
    return reply._replace(kind=KIND)


def is_preferred(accept: str) -> bool:
    return quality(accept, RESPONSE_JSON) >= max(quality(accept, JSON[1].decode()), 0.001)


def quality(accept: str, kind: str) -> float:
    """How much the caller wants this very type; what cannot be read is not wanted less for it."""
    for one in accept.split(","):
        name, *parameters = (part.strip() for part in one.split(";"))
        if name == kind:
            return next((weight(each) for each in parameters if each.startswith("q=")), 1.0)
    return 0.0


def weight(parameter: str) -> float:
    try:
        return float(parameter.removeprefix("q="))
    except ValueError:
        return 1.0
