"""The commands `doctor` and `settings`."""

import os

import click
import orjson

from app.cli.common import main
from app.doctor.findings import Finding, Verdict, failed
from app.settings import Settings, SettingsError, read_settings, variable
from app.telemetry.wording import counted


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as a JSON object.")
def doctor(as_json: bool) -> None:
    """Check settings, keys, database, webhook and clocks, and print advice."""
    from app.doctor.run_checks import run_checks  # slow to import

    try:
        findings = run_checks(read_settings())
    except SettingsError as error:
        advice = "`care-gateway settings` lists all settings; fix them, then run doctor again"
        findings = [failed("settings", str(error), advice)]
    click.echo(orjson.dumps({"findings": findings}) if as_json else to_text(findings))
    if any(finding.verdict is Verdict.FAILED for finding in findings):
        raise SystemExit(1)


def to_text(findings: list[Finding]) -> str:
    lines = []
    for finding in findings:
        lines.append(f"{finding.verdict.upper():<7} {finding.about}: {finding.message}")
        if finding.advice:
            lines.append(f"{'':<7}   -> {finding.advice}")
    verdicts = [finding.verdict for finding in findings]
    warnings = counted(verdicts.count(Verdict.WARNING), "warning")
    return "\n".join([*lines, f"{verdicts.count(Verdict.FAILED)} failed, {warnings}"])


@main.command("settings")
def list_settings() -> None:
    """Print every setting: variable, default, description and current value."""
    for name, field in Settings.model_fields.items():
        default = str(field.default)
        default = {"True": "on", "False": "off", "None": "unset", "": "empty"}.get(default, default)
        here = current_value(os.environ.get(variable(name), ""), bool(field.repr))
        click.echo(f"{variable(name)} (default: {default}{here})\n    {field.description}")


def current_value(value: str, is_public: bool) -> str:
    """Hides secrets. An inline key is hidden as well, because it may be the private one by mistake."""
    if not value:
        return ""
    return f"; set to {value}" if is_public and "-----BEGIN" not in value else "; set, not shown"
