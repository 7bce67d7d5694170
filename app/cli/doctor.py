"""The command that looks whether the service is in order, and says what to do: `doctor`."""

import asyncio

import click
import orjson

from app.doctor.results import Finding, Verdict, wrong
from app.settings import SettingsError, read_settings


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as a JSON object.")
def doctor(as_json: bool) -> None:
    """Look whether settings, keys, database, webhook and clocks are in order, and say what to do if not."""
    found = findings()
    click.echo(in_json(found) if as_json else in_text(found))
    if any(one.verdict is Verdict.WRONG for one in found):
        raise SystemExit(1)


def findings() -> list[Finding]:
    from app.doctor.run_checks import go_round

    try:
        settings = read_settings()
    except SettingsError as refusal:
        return [wrong("settings", str(refusal), "`care-gateway settings` lists them all; then look again")]
    return asyncio.run(go_round(settings))


def in_text(found: list[Finding]) -> str:
    lines = []
    for one in found:
        lines.append(f"{one.verdict:<6} {one.about}: {one.said}")
        if one.do:
            lines.append(f"{'':<6}   -> {one.do}")
    counts = [sum(one.verdict is verdict for one in found) for verdict in (Verdict.WRONG, Verdict.LOOK)]
    return "\n".join([*lines, f"{counts[0]} wrong, {counts[1]} to look at"])


def in_json(found: list[Finding]) -> str:
    said = [{"about": one.about, "verdict": one.verdict, "said": one.said, "do": one.do} for one in found]
    return orjson.dumps({"findings": said}).decode()
