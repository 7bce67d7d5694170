"""The statements that doctor explains on a distributed database."""

from app.db.sql import CompiledStatement
from app.doctor.routing import everyday_statements, with_samples


def test_doctor_explains_reads_of_every_kind_of_viewer_and_changes() -> None:
    names = {one.name for one in everyday_statements()}

    assert {"session rows of a caregiver", "session rows of a client of several", "CLOSE_SESSION"} <= names


def test_doctor_replaces_parameters_by_samples_of_their_type() -> None:
    written = CompiledStatement(
        "SELECT $1::BIGINT, $2::BIGINT[], $3::TIMESTAMP WITH TIME ZONE, $4::VARCHAR, $5::BOOLEAN",
        tuple((name, None) for name in ("caregiver", "caregivers", "now", "name", "is_test")),
    )

    assert with_samples(written, (1, 2)) == (
        "SELECT '1'::BIGINT, '{1, 2}'::BIGINT[], '2026-11-21'::TIMESTAMP WITH TIME ZONE, '1'::VARCHAR,"
        " 'true'::BOOLEAN"
    )
