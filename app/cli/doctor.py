"""`doctor`: checks the installation and prints advice."""

import asyncio

import click
import orjson

from app.doctor.results import Finding, Verdict, failed
from app.settings import SettingsError, read_settings


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as a JSON object.")
def doctor(as_json: bool) -> None:
    """Check settings, keys, database, webhook and clocks, and print advice."""
    found = findings()
    click.echo(in_json(found) if as_json else in_text(found))
    if any(one.verdict is Verdict.FAILED for one in found):
        raise SystemExit(1)


def findings() -> list[Finding]:
    from app.doctor.run_checks import run_checks

    try:
        settings = read_settings()
    except SettingsError as refusal:
        return [
            failed(
                "settings",
                str(refusal),
                "`care-gateway settings` lists all settings; fix them, then run doctor again",
            )
        ]
    return asyncio.run(run_checks(settings))


def in_text(found: list[Finding]) -> str:
    lines = []
    for one in found:
        lines.append(f"{one.verdict.upper():<7} {one.about}: {one.message}")
        if one.advice:
            lines.append(f"{'':<7}   -> {one.advice}")
    counts = [sum(one.verdict is verdict for one in found) for verdict in (Verdict.FAILED, Verdict.WARNING)]
    return "\n".join([*lines, f"{counts[0]} failed, {counts[1]} warnings"])


def in_json(found: list[Finding]) -> str:
    findings = [
        {"about": one.about, "verdict": one.verdict, "said": one.message, "do": one.advice} for one in found
    ]
    return orjson.dumps({"findings": findings}).decode()
