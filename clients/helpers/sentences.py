"""A pytest plugin that prints one line per test, and the reason of a failure."""

from pathlib import Path

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    file, _, name = report.nodeid.partition("::")
    sentence = f"{Path(file).stem}: {name}".replace("test_", "").replace("_", " ")
    if report.failed:
        print(f"  FAIL  {sentence}\n{report.longreprtext}")
    elif isinstance(report.longrepr, tuple):  # skipped: file, line, reason
        print(f"  skip  {sentence}: {report.longrepr[2]}")
    elif report.when == "call":
        print(f"  ok    {sentence}")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        print(f"  FAIL  {report.nodeid}\n{report.longreprtext}")
