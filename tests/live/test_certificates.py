"""A server of PostgreSQL whose certificate is not valid is rejected with the reason."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from app.db.drivers.factory import open_database
from app.db.drivers.interface import DatabaseError

pytestmark = pytest.mark.live


def write_certificate(path: Path, name: str) -> None:
    """A key and its own certificate for a host."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )


async def refused(own: Path, trusted: Path) -> str:
    """The error of a client that connects to a server which accepts TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)  # the request for TLS
        writer.write(b"S")
        try:
            await writer.start_tls(context)
        except OSError:  # the client has rejected the certificate
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        url = f"postgresql://care@127.0.0.1:{port}/care?sslmode=verify-full&sslrootcert={trusted}"
        with pytest.raises(DatabaseError) as error:
            await open_database(url)
    assert error.type is DatabaseError  # and no DatabaseAway: another attempt would fail too
    return str(error.value).replace(str(port), "PORT")


def test_a_certificate_that_is_not_valid_is_rejected_with_the_reason(tmp_path: Path) -> None:
    one, other = tmp_path / "one.pem", tmp_path / "other.pem"
    for path in (one, other):
        write_certificate(path, "db.internal")

    reasons = [asyncio.run(refused(one, trusted)) for trusted in (other, one)]

    begins = "the PostgreSQL database cannot be opened: 127.0.0.1:PORT has a certificate that is not valid: "
    assert reasons == [
        f"{begins}self-signed certificate (check sslrootcert)",
        f"{begins}IP address mismatch, certificate is not valid for '127.0.0.1'. (check sslrootcert)",
    ]
