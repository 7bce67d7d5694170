"""Content negotiation of GraphQL responses: the media type, and the status of failed requests."""

import orjson

from app.http.headers import JSON
from app.http.messages import Reply

RESPONSE_JSON = "application/graphql-response+json"
EVENT_STREAM = "text/event-stream"
JSON_TYPES = ("application/json", RESPONSE_JSON, "*/*")
NOT_EXECUTED = b'{"data":null,"errors":'


def accepted_types(accept: str | None) -> set[str]:
    """The accepted media types if they include event streams; else empty."""
    if accept is None or EVENT_STREAM not in accept.lower():
        return set()
    return {each.partition(";")[0].strip() for each in accept.lower().split(",")}


def accepts_only_events(types: set[str]) -> bool:
    """Many clients accept event streams with every request; they get a single result as JSON."""
    return EVENT_STREAM in types and types.isdisjoint(JSON_TYPES)


def as_preferred(accept: str | None, reply: Reply) -> Reply:
    """With the newer type, a request that was not executed gets a 400 without `data`.

    With `application/json` it gets a 200, because another status could come from a proxy.
    """
    if accept is None or RESPONSE_JSON not in accept.lower() or not is_preferred(accept.lower()):
        return reply
    if reply.status == 200 and reply.body.startswith(NOT_EXECUTED):
        response = orjson.loads(reply.body)
        if not any("path" in error for error in response["errors"]):
            del response["data"]
            reply = reply._replace(body=orjson.dumps(response), status=400)
    return reply._replace(content_type=(b"content-type", RESPONSE_JSON.encode()))


def is_preferred(accept: str) -> bool:
    return quality(accept, RESPONSE_JSON) >= max(quality(accept, JSON[1].decode()), 0.001)


def quality(accept: str, media_type: str) -> float:
    """The quality of this media type; a malformed quality means 1."""
    for one in accept.split(","):
        name, *parameters = (part.strip() for part in one.split(";"))
        if name == media_type:
            text = next((each.removeprefix("q=") for each in parameters if each.startswith("q=")), "1")
            try:
                return float(text)
            except ValueError:
                return 1.0
    return 0.0
