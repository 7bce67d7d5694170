"""A pytest plugin that prints one line per test, and the reason of a failure."""

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    sentence = report.head_line.removeprefix("test_").replace("_", " ") if report.head_line else report.nodeid
    if report.failed:
        print(f"  FAIL  gql: {sentence}\n{report.longreprtext}")
    elif report.when == "call":
        print(f"  ok    gql: {sentence}")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        print(f"  FAIL  {report.nodeid}\n{report.longreprtext}")
