"""Subscriptions receive only events of the viewer's own relationships, by websocket and by event stream."""

import json
from typing import Any

import pytest
from httpx2 import Response

from app.schema.types.scalars import global_id
from tests.access.documents import SCHEMA, links_of, members_of, scalars_of, step, target
from tests.access.table import LINKS, SUBSCRIPTIONS, is_for
from tests.access.test_foreign_is_missing import listen
from tests.access.viewers import (
    PEOPLE_WITH_DATA,
    assert_rejects_outsiders,
    assert_shows_only_known,
    sign_in,
    write_in,
)
from tests.access.world import OF, PEOPLE, SHARED, owners_in
from tests.callers import Gateway
from tests.schema.listening import insert_event, listening, streaming, wait_for, wait_for_subscription

EVENT_OF = {"assignmentChanged": "ASSIGNED", "reminderDue": "REMINDER_DUE"}


def document(name: str, given: str = "") -> str:
    """A subscription that selects everything."""
    kind = target(SCHEMA.subscription_type, name)
    below = " ".join([scalars_of(kind), *(step(kind, link, members_of) for link in links_of(kind))])
    head = "($id: ID!) " if given else ""
    return f"subscription{head} {{ {name}{given} {{ {below} }} }}"


@pytest.mark.parametrize("name", SUBSCRIPTIONS)
def test_missed_events_are_sent_only_to_the_two_people(world: Gateway, name: str) -> None:
    row = SUBSCRIPTIONS[name]
    query = document(name, row.given)
    kind = target(SCHEMA.subscription_type, name)

    for viewer in PEOPLE_WITH_DATA:
        for shared in SHARED:
            seen = {"id": global_id("Event", int(write_in(row.ids["Event"], shared)))}
            if not (is_for(row.who, viewer) and viewer in shared):
                shown = assert_shows_only_known(listen(sign_in(world, viewer), query, seen), viewer)
                assert '"errors"' in shown
                continue
            with streaming(sign_in(world, viewer), query, **seen) as stream:
                event, payload = stream.receive()
            assert event == "next"
            shown = assert_shows_only_known(Response(200, json=payload), viewer)
            if "Z" not in shared:
                for link in links_of(kind):
                    assert write_in(LINKS[f"{kind.name}.{link}"].shows, shared) in shown
    seen = {"id": global_id("Event", OF["AX"].assigned_event)}
    assert_rejects_outsiders(world, lambda caller: listen(caller, query, seen))


@pytest.mark.parametrize("name", SUBSCRIPTIONS)
def test_events_of_other_relationships_are_not_sent(changing: Gateway, name: str) -> None:
    """Everyone subscribes, and every relationship gets an event. Each person receives only their own."""
    row, url = SUBSCRIPTIONS[name], changing.settings.database
    for viewer in PEOPLE_WITH_DATA:
        with listening(sign_in(changing, viewer)) as listener:
            listener.subscribe(document(name))
            if not is_for(row.who, viewer):
                assert owners_in(json.dumps(listener.receive())) == set()
                continue
            wait_for_subscription(changing)
            own = [shared for shared in SHARED if viewer in shared]
            for shared in [*(one for one in SHARED if one not in own), *own]:
                add_events(url, name, shared)
            for shared in own:
                shown = assert_shows_only_known(Response(200, json=listener.receive()), viewer)
                assert f"Assignment:{OF[shared].to_extend}" in shown
        wait_for(lambda: not changing.client.app_state["notifier"].wakeups)


def add_events(url: str, name: str, shared: str) -> None:
    of = OF[shared]
    between: dict[str, Any] = {"caregiver": PEOPLE[shared[0]], "client": PEOPLE[shared[1]]}
    insert_event(url, EVENT_OF[name], of.to_extend, of.main, reminder=of.reminder, **between)
