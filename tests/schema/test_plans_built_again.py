"""A document whose plan was removed from the cache gets the same response, and does not grow with each plan
that is built again."""

from app.db.reader.plan_cache import PLANS
from app.rest_compat import bodies
from app.rest_compat.bodies import MAX_BUILDERS, Members
from tests.callers import Gateway, schema_of

DOCUMENT = "{ sessions(first: 2) { nodes { id assignments(first: 1) { nodes { name } } } } }"
LEGACY = "/gateway/profile/client/session?time-state=RUNNING"


def remove_plans() -> None:
    PLANS.plans.clear()
    PLANS.weight = 0


def test_a_document_keeps_no_function_of_a_removed_plan(standing: Gateway) -> None:
    caller = standing.as_caregiver(1)
    first = caller.data(DOCUMENT)

    for _ in range(3):
        remove_plans()
        assert caller.data(DOCUMENT) == first

    operations = schema_of(standing.client.app).operations
    [prepared] = [each for (text, _), each in operations.recent.values.items() if text == DOCUMENT]
    assert prepared.compiled is not None
    functions = [len(each.known) for each in prepared.compiled.generator.objects.values()]
    assert max(functions) == 1


def test_a_body_keeps_a_bounded_number_of_builders(standing: Gateway) -> None:
    caller = standing.as_client(1)
    first = caller.get(LEGACY)
    assert (first.status_code, len(first.json()) > 0) == (200, True)

    for _ in range(MAX_BUILDERS + 3):
        remove_plans()
        assert caller.get(LEGACY).json() == first.json()

    builders = [len(each.builders) for each in vars(bodies).values() if isinstance(each, Members)]
    assert 1 < max(builders) <= MAX_BUILDERS
