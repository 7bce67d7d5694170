"""`sessions` and `session`: the viewer's own care sessions."""

from tests.callers import Gateway
from tests.factories import a_world, starting_with

pytestmark = starting_with(a_world)


def test_a_client_lists_their_running_sessions(gateway: Gateway) -> None:
    query = "{ sessions(timeState: RUNNING) { totalCount nodes { legacyId title runningStatus } } }"

    response = gateway.as_client(1).data(query)

    assert response == {
        "sessions": {
            "totalCount": 1,
            "nodes": [{"legacyId": "1", "title": "Session 1", "runningStatus": "RUNNING"}],
        }
    }
