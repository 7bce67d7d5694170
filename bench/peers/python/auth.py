"""Bearer token -> (user id, role), shared by the Python peers."""

import os

import jwt

SECRET = os.environ["BENCH_JWT_SECRET"]


class Unauthorized(Exception):
    pass


def user(header: str | None) -> tuple[int, str]:
    if not header or header[:7].lower() != "bearer ":
        raise Unauthorized
    try:
        claims = jwt.decode(header[7:], SECRET, algorithms=["HS256"])
    except jwt.PyJWTError:
        raise Unauthorized from None
    return int(claims["sub"]), claims["role"]
