"""Builds HTML from plain values. All text is escaped unless it is already `Html`."""

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

STYLE = (Path(__file__).parent / "landing.css").read_text(encoding="utf-8")
STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' "
    "height='16' rx='4' fill='%23146c63'/%3E%3Cpath d='M8 12.5 3.9 8.4a2.5 2.5 0 0 1 3.6-3.5l.5.6.5-.6a2.5 "
    "2.5 0 0 1 3.6 3.5z' fill='%23fff'/%3E%3C/svg%3E"
)
HEAD = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    '<meta name="color-scheme" content="light dark">\n'
    f'<link rel="icon" href="{ICON}">\n<style>{STYLE}</style>\n'
)


class Html(str):
    """Text that is already HTML."""


def escaped(text: object) -> Html:
    return text if isinstance(text, Html) else Html(html.escape(str(text)))


def tag(name: str, *children: object, **attributes: object) -> Html:
    """A trailing underscore avoids Python keywords (`class_`); None omits the attribute."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{written}>{join(*children)}</{name}>")


def join(*children: object) -> Html:
    return Html("".join(map(escaped, children)))


def link(target: str, text: object) -> Html:
    return tag("a", text, href=target)


def block(text: str, label: str, css_class: str | None = None) -> Html:
    """Preformatted text. It scrolls, so it needs keyboard focus, and a label for screen readers."""
    return tag("pre", tag("code", text), class_=css_class, tabindex=0, role="region", aria_label=label)


def indented_json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Html:
    """The cells may contain the markup below."""
    titles = tag("tr", *(tag("th", each, scope="col") for each in head))
    lines = (
        tag("tr", tag("th", inline(first), scope="row"), *(tag("td", inline(each)) for each in rest))
        for first, *rest in rows
    )
    return tag("table", tag("thead", titles), tag("tbody", *lines))


def document(title: str, *body: object) -> str:
    skip = tag("a", "Skip to content", class_="skip", href="#content")
    return f"{HEAD}<title>{html.escape(title)}</title>\n</head>\n{tag('body', skip, *body)}\n</html>\n"


# --- the markup in descriptions: paragraphs, `code`, **strong**, *emphasis*, [links](/path) ---

MARKUP = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*|\[([^]]+)\]\(([^)]+)\)")


def prose(text: str) -> Html:
    return join(*(tag("p", inline(" ".join(each.split()))) for each in text.strip().split("\n\n")))


def inline(text: str) -> Html:
    return join(*pieces(text))


def pieces(text: str) -> Iterator[Html]:
    position = 0
    for found in MARKUP.finditer(text):
        yield escaped(text[position : found.start()])
        code, strong, emphasis, label, target = found.groups()
        if target:
            yield link(target, label)
        else:
            yield tag("code" if code else "strong" if strong else "em", code or strong or emphasis)
        position = found.end()
    yield escaped(text[position:])
