"""What is shown without a token depends on no kind of database."""

import pytest


@pytest.fixture(scope="session", params=["sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
