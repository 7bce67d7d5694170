"""Content negotiation of GraphQL responses: the media type, and the status of failed requests."""

import orjson

from app.http.messages import JSON, Reply

RESPONSE_JSON = "application/graphql-response+json"
KIND = (b"content-type", RESPONSE_JSON.encode())
NOT_EXECUTED = b'{"data":null,"errors":'


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
    return reply._replace(kind=KIND)


def is_preferred(accept: str) -> bool:
    return quality(accept, RESPONSE_JSON) >= max(quality(accept, JSON[1].decode()), 0.001)


def quality(accept: str, kind: str) -> float:
    """The quality of this media type; a malformed quality means 1."""
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
