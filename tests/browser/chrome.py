"""A headless Chromium, controlled over the DevTools protocol; notes the page's requests and errors."""

import base64
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
from websockets.sync.client import ClientConnection, connect

TIMEOUT_SECONDS = 30
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # the sandbox needs rights that containers lack; only our own pages are opened
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--remote-debugging-port=0",
    # No host name resolves, so requests to other hosts fail with an error.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


class Navigated(Exception):
    """The document was replaced by another, or there is none for a moment."""


class Page:
    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.last_id = 0
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.sent: list[str] = []  # by websocket
        self.send("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True)
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, session: str | None = None, **params: Any) -> Any:
        number = self.post(method, session, **params)
        while (message := self.receive()).get("id") != number:
            pass
        if "error" in message and method == "Runtime.evaluate":
            raise Navigated(message)
        assert "error" not in message, (method, message)
        return message["result"]

    def post(self, method: str, session: str | None = None, **params: Any) -> int:
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        self.socket.send(json.dumps(message | ({"sessionId": session} if session else {})))
        return self.last_id

    def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.socket.recv(2 * TIMEOUT_SECONDS))  # `until` ends before
        if "method" in message:
            self.note(message["method"], message["params"])
        return message

    def note(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "Target.attachedToTarget":  # a worker
                for domain in ("Network", "Runtime", "Log"):
                    self.post(f"{domain}.enable", params["sessionId"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Network.webSocketCreated":
                self.requests.append(params["url"])
            case "Network.webSocketFrameSent":
                self.sent.append(params["response"]["payloadData"])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.errors.append(" ".join(str(each.get("value", each)) for each in params["args"]))
            case "Runtime.exceptionThrown":
                self.errors.append(str(params["exceptionDetails"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def open(self, url: str, width: int = 1440, height: int = 900) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.send("Page.navigate", url=url)

    def reload(self) -> None:
        """Waits until the old document is gone."""
        self.evaluate("globalThis.isOld = true")
        self.send("Page.reload")
        for _ in range(200):
            with suppress(Navigated):
                if not self.evaluate("globalThis.isOld"):
                    return
        raise AssertionError("the page does not reload")

    def evaluate(self, expression: str) -> Any:
        result = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, expression: str, seconds: float = TIMEOUT_SECONDS) -> None:
        """Waits until the expression is true or an object, also in the next document."""
        looking = f"""new Promise((done) => {{
          const end = performance.now() + {seconds * 1000};
          const look = () => {{
            let found = false;
            try {{ found = !!({expression}); }} catch {{ /* no such element yet */ }}
            if (found || performance.now() > end) done(found); else setTimeout(look, 25);
          }};
          look();
        }})"""
        found = None
        while found is None:
            with suppress(Navigated):
                found = self.evaluate(looking)
        assert found, f"{expression}\n{self.errors}\n{self.evaluate('document.body.innerText')[:2000]}"

    def click(self, element: str) -> None:
        """Clicks in the middle of its first line; the middle of a wrapped link can be between its lines.

        Before the style sheet is there, the element is elsewhere."""
        self.until(f"document.readyState === 'complete' && ({element})")
        x, y = self.evaluate(
            f"""(() => {{
              const element = ({element});
              element.scrollIntoView({{ block: "nearest", inline: "nearest" }});
              const box = element.getClientRects()[0];
              return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            pressed: dict[str, Any] = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    def press(self, key: str) -> None:
        """`Tab`, `Enter`, `Escape`, an arrow key or a character."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = {"Tab": 9, "Enter": 13, "Escape": 27}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if text and kind == "keyDown" else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **typed)

    def use_dark_mode(self) -> None:
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def save_screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def opened_browser(program: Path) -> Iterator[Page]:
    with tempfile.TemporaryDirectory(prefix="care-gateway-browser-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            with connect(address_of(process, Path(profile)), max_size=None) as socket:
                yield Page(socket)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # with its child processes
            process.wait()


@contextmanager
def opened_tab(page: Page) -> Iterator[Page]:
    """Another tab of the same browser."""
    host, port = page.socket.remote_address
    tab = httpx2.put(f"http://{host}:{port}/json/new?about:blank").json()
    with connect(tab["webSocketDebuggerUrl"], max_size=None) as socket:
        yield Page(socket)


def address_of(process: subprocess.Popen[bytes], profile: Path) -> str:
    port_file = profile / "DevToolsActivePort"
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            port = port_file.read_text().splitlines()[0]
            pages = httpx2.get(f"http://127.0.0.1:{port}/json/list").json()
            return next(str(one["webSocketDebuggerUrl"]) for one in pages if one["type"] == "page")
        except (OSError, IndexError, StopIteration, httpx2.TransportError):
            time.sleep(0.05)
    raise AssertionError("the browser did not start")
