"""A subscriber receives events of their own data only, by websocket and by event stream."""

import json
from typing import Any

import pytest
from httpx2 import Response

from app.schema.types.node import global_id
from tests.access.documents import SCHEMA, fields_and_links, link_fields, links_of, scalars, target
from tests.access.table import LINKS, SUBSCRIPTIONS, is_allowed
from tests.access.test_foreign_is_missing import subscribe
from tests.access.viewers import (
    VIEWERS,
    assert_known_only,
    assert_outsiders_rejected,
    caller_of,
    fill_for,
)
from tests.access.world import OF, PEOPLE, SHARED, owners_in
from tests.callers import Gateway
from tests.schema.listening import happened, listening, streaming, wait_for, wait_until_somebody_listens

EVENT_OF = {"assignmentChanged": "ASSIGNED", "reminderDue": "REMINDER_DUE"}


def document(name: str, arguments: str = "") -> str:
    """A subscription with all fields of the event and of the objects below."""
    kind = target(SCHEMA.subscription_type, name)
    below = " ".join([scalars(kind), *(link_fields(kind, link, fields_and_links) for link in links_of(kind))])
    head = "($id: ID!) " if arguments else ""
    return f"subscription{head} {{ {name}{arguments} {{ {below} }} }}"


@pytest.mark.parametrize("name", SUBSCRIPTIONS)
def test_missed_events_are_sent_to_their_viewers_only(world: Gateway, name: str) -> None:
    row = SUBSCRIPTIONS[name]
    query = document(name, row.arguments)
    kind = target(SCHEMA.subscription_type, name)

    for viewer in VIEWERS:
        for shared in SHARED:
            position = {"id": global_id("Event", int(fill_for(row.ids["Event"], shared)))}
            if not (is_allowed(row.who, viewer) and viewer in shared):
                content = assert_known_only(subscribe(caller_of(world, viewer), query, position), viewer)
                assert '"errors"' in content
                continue
            with streaming(caller_of(world, viewer), query, **position) as stream:
                event, data = stream.hear()
            assert event == "next"
            content = assert_known_only(Response(200, json=data), viewer)
            if "Z" not in shared:
                for link in links_of(kind):
                    assert fill_for(LINKS[f"{kind.name}.{link}"].shows, shared) in content
    position = {"id": global_id("Event", OF["AX"].assigned_event)}
    assert_outsiders_rejected(world, lambda caller: subscribe(caller, query, position))


@pytest.mark.parametrize("name", SUBSCRIPTIONS)
def test_events_of_others_are_not_received(writable_world: Gateway, name: str) -> None:
    """Events of other pairs come first, so the first received event must be one of the viewer's own."""
    row, url = SUBSCRIPTIONS[name], writable_world.settings.database
    for viewer in VIEWERS:
        with listening(caller_of(writable_world, viewer)) as listener:
            listener.ask(document(name))
            if not is_allowed(row.who, viewer):
                assert owners_in(json.dumps(listener.hear())) == set()
                continue
            wait_until_somebody_listens(writable_world)
            own = [shared for shared in SHARED if viewer in shared]
            for shared in [*(one for one in SHARED if one not in own), *own]:
                insert_event(url, name, shared)
            for shared in own:
                content = assert_known_only(Response(200, json=listener.hear()), viewer)
                assert f"Assignment:{OF[shared].to_extend}" in content
        wait_for(lambda: not writable_world.client.app_state["notifier"].wakeups)


def insert_event(url: str, name: str, shared: str) -> None:
    of = OF[shared]
    between: dict[str, Any] = {"caregiver": PEOPLE[shared[0]], "client": PEOPLE[shared[1]]}
    happened(url, EVENT_OF[name], of.to_extend, of.main, reminder=of.reminder, **between)
