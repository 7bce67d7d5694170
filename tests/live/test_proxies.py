"""The configurations in ops/ serve the gateway over TLS, with websockets and unbuffered event streams."""

import os
import re
import shutil
import signal
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from tests import keys
from tests.callers import load
from tests.certificates import certificate
from tests.conftest import fresh_database
from tests.crash.writers import a_world
from tests.events.receiver import receiving
from tests.live.processes import PATIENCE, ROOT, Served, serving
from tests.live.subscribers import CHANGES, assign, change, events, receive, send, token
from tests.ports import free_port

pytestmark = pytest.mark.live
OPS = ROOT / "ops"
Prepare = Callable[[Path, str, int], list[str]]


def nginx(folder: Path, service: str, port: int) -> list[str]:
    """Debian's nginx with the file as it is, but for names, ports and files."""
    text, plain = (OPS / "nginx.conf").read_text(), free_port()
    text = re.sub(r"\n *listen \[::\].*", "", text)
    text = text.replace("127.0.0.1:8000", service).replace("listen 80;", f"listen 127.0.0.1:{plain};")
    text = text.replace("listen 443", f"listen 127.0.0.1:{port}")
    text = re.sub(r"/etc/care/tls/\w+\.pem", str(certificate(folder)), text)
    (folder / "care.conf").write_text(text.replace("/var/log/nginx", str(folder)))
    user = "user root;" if os.geteuid() == 0 else ""
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"{user} daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}"
        f" http {{ {temporary} include {folder}/care.conf; }}"
    )
    return ["nginx", "-e", f"{folder}/error.log", "-p", str(folder), "-c", f"{folder}/nginx.conf"]


def caddy(folder: Path, service: str, port: int) -> list[str]:
    pem = certificate(folder)
    text = (OPS / "Caddyfile").read_text().replace("127.0.0.1:8000", service)
    text = text.replace("care.example.test {", f"https://127.0.0.1:{port} {{\n\ttls {pem} {pem}")
    text = text.replace("{\n", "{\n\tadmin off\n\tauto_https disable_redirects\n", 1)
    (folder / "Caddyfile").write_text(text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", f"{folder}/Caddyfile"]


@pytest.fixture(scope="module")
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("service")
    template = request.getfixturevalue("migrated_sqlite")
    with fresh_database("sqlite", template, request, folder / "care.db") as url:
        load(url, a_world(1))
        care = {"env": "production", "database_url": url, "token_key": keys.public_pem(), "var": str(folder)}
        with serving(folder / "serve.log", **care) as served:
            yield served


@contextmanager
def proxied(prepare: Prepare, service: str, folder: Path) -> Iterator[str]:
    name = prepare.__name__
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if program is None:
        pytest.skip(f"{name} is not installed")
    port = free_port()
    command = prepare(folder, urlsplit(service).netloc, port)
    environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            [program, *command[1:]], env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            until_it_accepts(process, f"https://127.0.0.1:{port}", folder)
            yield f"https://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # with its workers
            process.wait(PATIENCE)


def until_it_accepts(process: "subprocess.Popen[bytes]", url: str, folder: Path) -> None:
    while process.poll() is None:
        try:
            httpx2.get(f"{url}/livez", verify=False)
        except httpx2.TransportError:
            continue
        return
    raise AssertionError((folder / "output").read_text())


PROXIES = pytest.mark.parametrize("prepare", [nginx, caddy], ids=["nginx", "caddy"])


@pytest.fixture(scope="module", params=[nginx, caddy], ids=["nginx", "caddy"])
def proxy(
    request: pytest.FixtureRequest, service: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("proxy")
    with proxied(request.param, service.url, folder) as url:
        yield url


def post(url: str, query: str, **headers: str) -> httpx2.Response:
    own = {"authorization": token("caregiver"), **headers}
    return httpx2.post(f"{url}/graphql", json={"query": query}, headers=own, verify=False)


def test_requests_pass_with_a_strict_transport_security(proxy: str) -> None:
    found = post(proxy, "{ viewer { role } }")
    legacy = httpx2.get(f"{proxy}/gateway/profile/client/session?time-state=RUNNING", verify=False)

    assert (found.status_code, found.json()) == (200, {"data": {"viewer": {"role": "CAREGIVER"}}})
    assert found.headers.get_list("strict-transport-security") == ["max-age=31536000"]
    assert (legacy.status_code, legacy.json()["status"]) == (401, 401)
    assert legacy.headers.get_list("strict-transport-security") == ["max-age=31536000"]


def test_long_responses_are_compressed(proxy: str) -> None:
    found = httpx2.get(f"{proxy}/openapi.json", headers={"accept-encoding": "gzip"}, verify=False)

    assert (found.headers["content-encoding"], found.json()["openapi"][:2]) == ("gzip", "3.")


def test_the_service_itself_rejects_a_long_body(proxy: str) -> None:
    found = post(proxy, "#" * 300_000)

    assert (found.status_code, found.headers["content-type"].partition(";")[0]) == (413, "application/json")


def test_events_arrive_by_websocket(proxy: str, service: Served) -> None:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    address = proxy.replace("https", "wss") + "/graphql"
    subprotocols = [Subprotocol("graphql-transport-ws")]
    with connect(address, subprotocols=subprotocols, ssl=trusting, origin=proxy) as one:  # type: ignore[arg-type]
        send(one, type="connection_init", payload={"Authorization": token("client")})
        assert receive(one) == {"type": "connection_ack"}
        send(one, type="subscribe", id="1", payload={"query": CHANGES})
        made = assign(service.url)
        found = change(receive(one))

    assert found[1:] == ("ASSIGNED", made)


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_events_arrive_at_once_by_event_stream(proxy: str, service: Served, encoding: str) -> None:
    """A proxy that buffers or compresses would keep this short event until the stream ends."""
    headers = {
        "authorization": token("client"),
        "accept": "text/event-stream",
        "accept-encoding": encoding,
    }
    request = httpx2.stream(
        "POST", f"{proxy}/graphql", json={"query": CHANGES}, headers=headers, timeout=PATIENCE, verify=False
    )
    with request as response:
        made = assign(service.url)
        found = change(next(events(response.iter_lines())))

    assert "content-encoding" not in response.headers
    assert found[1:] == ("ASSIGNED", made)


@PROXIES
def test_the_service_sees_the_address_of_the_caller_and_not_what_a_caller_claims(
    prepare: Prepare, tmp_path: Path
) -> None:
    forged = {"x-forwarded-for": "10.9.9.9", "x-forwarded-proto": "ftp", "traceparent": "00-1-1-01"}
    with receiving() as receiver, proxied(prepare, receiver.url, tmp_path) as url:
        receiver.received.clear()
        httpx2.post(f"{url}/graphql", json={"type": ""}, headers=forged, verify=False)
        [passed] = receiver.received

    names = ("x-forwarded-for", "x-forwarded-proto", "traceparent", "host")
    shown = [passed.headers.get(name) for name in names]
    assert shown == ["127.0.0.1", "https", None, urlsplit(url).netloc]
