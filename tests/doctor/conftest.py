"""Runs `care-gateway doctor` as an operator does, on a service without problems."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.settings import Settings
from tests import keys

Findings = list[tuple[str, str]]  # verdict and message
Diagnose = Callable[..., Findings]


@pytest.fixture(autouse=True)
def ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name in os.environ:
        if name.startswith("CARE_"):
            monkeypatch.delenv(name)


@pytest.fixture
def healthy(settings: Settings, tmp_path: Path) -> dict[str, str]:
    """Settings of a production service without problems."""
    pem = tmp_path / "issuer.pem"
    pem.write_text(keys.public_pem())
    pem.chmod(0o644)
    if settings.database.startswith("sqlite:"):
        Path(settings.database.removeprefix("sqlite:///")).chmod(0o600)
    tmp_path.chmod(0o700)
    return {
        "database_url": settings.database_url,
        "var": str(tmp_path),
        "token_key": str(pem),
        "token_issuer": "issuer",
        "token_audience": "care",
    }


def run(care: dict[str, str], *words: str, **changed: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *words], env=as_variables(care | changed))


def as_variables(care: dict[str, str]) -> dict[str, str]:
    return {f"CARE_{name.upper()}": value for name, value in care.items()}


@pytest.fixture
def diagnose(healthy: dict[str, str]) -> Diagnose:
    def diagnose(about: str, **changed: str) -> Findings:
        """The findings about a subject, in order. Every finding that is not ok has advice."""
        result = run(healthy, "--json", **changed)
        found = json.loads(result.stdout)["findings"]
        assert result.stderr == ""
        assert result.exit_code == int(any(one["verdict"] == "failed" for one in found))
        assert [one for one in found if (one["verdict"] == "ok") is not (one["advice"] == "")] == []
        return [(one["verdict"], one["message"]) for one in found if one["about"] == about]

    return diagnose
