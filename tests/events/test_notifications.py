"""The notifier wakes only the people whom an event concerns, follows the event log only while a subscription
waits, and restarts after an error."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any

import pytest

import app.events.notifications
from app.care.context import Role, Viewer
from app.care.errors import TooManyListening
from app.db.drivers.event_feed import Notify, Parties
from app.events.notifications import Notifier
from app.telemetry import counters
from app.telemetry.logs import REQUEST_ID
from tests.patience import PATIENCE

CAREGIVER, CLIENT = Viewer(Role.CAREGIVER, 1), Viewer(Role.CLIENT, 2)
OTHERS = [Viewer(Role.CAREGIVER, 2), Viewer(Role.CLIENT, 1)]


async def follow_nothing(tell: Notify) -> None:
    await asyncio.Event().wait()


def notified(notify: Callable[[Notifier], None]) -> list[bool]:
    """Which wakeups are set: the caregiver's, the client's, and those of two others."""

    async def run() -> list[bool]:
        notifier = Notifier(follow_nothing)
        with (
            notifier.listener(CAREGIVER) as caregiver,
            notifier.listener(CAREGIVER) as second,  # subscription of the same caregiver
            notifier.listener(CLIENT) as client,
            notifier.listener(OTHERS[0]) as other,
            notifier.listener(OTHERS[1]) as another,
        ):
            notify(notifier)
            assert second.is_set() == caregiver.is_set()
            return [wakeup.is_set() for wakeup in (caregiver, client, other, another)]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("parties", "woken"),
    [
        ([(1, 2)], [True, True, False, False]),
        ([(1, 3), (4, 1)], [True, False, False, True]),
        ([(7, 8)], [False] * 4),
        ([], [False] * 4),
        (None, [True] * 4),
    ],
)
def test_an_event_wakes_the_people_it_concerns(parties: Parties, woken: list[bool]) -> None:
    assert notified(lambda notifier: notifier.notify(parties)) == woken


def test_the_end_of_a_subscription_leaves_the_others_of_its_viewer() -> None:
    """Also the end of the one that began first."""

    async def run() -> list[bool]:
        notifier, first = Notifier(follow_nothing), ExitStack()
        first.enter_context(notifier.listener(CAREGIVER))
        with notifier.listener(CAREGIVER) as second, notifier.listener(CLIENT) as client:
            first.close()
            with notifier.listener(CAREGIVER):
                pass
            notifier.notify([(CAREGIVER.id, CLIENT.id)])
            return [second.is_set(), client.is_set()]

    assert asyncio.run(run()) == [True, True]


def test_shutdown_wakes_everyone() -> None:
    assert notified(lambda notifier: notifier.stop()) == [True] * 4


def run_soon(what: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(what, PATIENCE))


def test_the_event_log_is_followed_only_while_a_subscription_waits() -> None:
    async def run() -> list[Any]:
        notifier = Notifier(follow_nothing)
        before = notifier.follower
        with notifier.listener(CAREGIVER), notifier.listener(CAREGIVER):
            with notifier.listener(CLIENT):
                meanwhile = notifier.follower
            is_same = notifier.follower is meanwhile
        after = notifier.follower
        with notifier.listener(CLIENT):
            again = notifier.follower
            await notifier.close()
        assert meanwhile is not None
        assert again is not None
        ended = [meanwhile.cancelled(), again.cancelled()]
        return [before, is_same, after, ended, notifier.follower, notifier.wakeups]

    assert run_soon(run()) == [None, True, None, [True, True], None, {}]


def test_the_event_log_is_not_followed_for_the_request_of_the_first_subscription() -> None:
    """The feed serves all later subscriptions too, so its log lines name no request."""

    async def run() -> tuple[str, str]:
        seen: asyncio.Future[str] = asyncio.Future()

        async def follow(tell: Notify) -> None:
            seen.set_result(REQUEST_ID.get())
            await asyncio.Event().wait()

        outside = REQUEST_ID.get()
        REQUEST_ID.set("the first")
        with Notifier(follow).listener(CAREGIVER):
            return outside, await seen

    outside, of_feed = run_soon(run())
    assert of_feed == outside


def test_the_subscriptions_of_a_viewer_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.events.notifications, "MAX_LISTENERS", 2)

    counted = counters.limits["subscriptions of a viewer"]

    async def run() -> list[Any]:
        notifier = Notifier(follow_nothing)
        with notifier.listener(CAREGIVER):
            with notifier.listener(CAREGIVER), notifier.listener(CLIENT):
                with pytest.raises(TooManyListening) as refused, notifier.listener(CAREGIVER):
                    pass
                meanwhile = {viewer: len(wakeups) for viewer, wakeups in notifier.wakeups.items()}
            with notifier.listener(CAREGIVER):
                return [refused.value.message, meanwhile]

    assert run_soon(run()) == [
        "there are 2 subscriptions already, and no more are allowed",
        {CAREGIVER: 2, CLIENT: 1},
    ]
    assert counters.limits["subscriptions of a viewer"] == counted + 1


def test_following_restarts_after_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app.events.notifications, "PAUSE_SECONDS", 0)
    begun = []

    async def follow(tell: Notify) -> None:
        begun.append(1)
        if len(begun) < 3:
            raise ConnectionError("secret")
        tell(None)
        await asyncio.Event().wait()

    async def run() -> None:
        notifier = Notifier(follow)
        with notifier.listener(CAREGIVER) as wakeup:
            await wakeup.wait()

    run_soon(run())

    assert caplog.messages == ["the event feed waits for what it depends on: ConnectionError"] * 2
