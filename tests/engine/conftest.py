"""Rewrites assertions in helpers, and registers `--hypothesis-profile=thorough`."""

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.engine.library")
settings.register_profile("thorough", settings.get_profile("suite"), print_blob=True)
