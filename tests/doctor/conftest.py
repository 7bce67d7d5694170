"""`care-gateway doctor` as an operator runs it, on a service that is in order."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.settings import Settings
from tests import keys

Said = list[tuple[str, str]]
Ask = Callable[..., Said]


@pytest.fixture(autouse=True)
def not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name in os.environ:
        if name.startswith("CARE_"):
            monkeypatch.delenv(name)


@pytest.fixture
def in_order(settings: Settings, tmp_path: Path) -> dict[str, str]:
    """Settings of a production service that has nothing to be mended."""
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
def ask(in_order: dict[str, str]) -> Ask:
    def ask(about: str, **changed: str) -> Said:
        """What is found about something, in the order of finding it: the verdict, and the sentence."""
        said = run(in_order, "--json", **changed)
        found = json.loads(said.stdout)["findings"]
        assert said.stderr == ""
        assert said.exit_code == int(any(one["verdict"] == "failed" for one in found))
        assert [one for one in found if (one["verdict"] == "ok") is not (one["do"] == "")] == []
        return [(one["verdict"], one["said"]) for one in found if one["about"] == about]

    return ask
