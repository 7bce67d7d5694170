"""Helpers tell their failures as tests do, and `--hypothesis-profile=thorough` is known."""

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.engine.library")
settings.register_profile("thorough", print_blob=True)
