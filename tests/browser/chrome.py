"""A headless Chromium and a page in it, over the DevTools protocol: what it asked for and complained of."""

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

PATIENCE = 30  # seconds until something that does not come is a failure
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it needs rights that containers do not give; it sees no page but ours
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--remote-debugging-port=0",
    # Names lead nowhere: what asks for another host fails, and complains.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


class Page:
    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.last = 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.sent: list[str] = []  # by websocket
        self.send("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True)
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, session: str | None = None, **params: Any) -> Any:
        number = self.ask(method, session, **params)
        while (said := self.hear()).get("id") != number:
            pass
        assert "error" not in said, (method, said)
        return said["result"]

    def ask(self, method: str, session: str | None = None, **params: Any) -> int:
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        self.socket.send(json.dumps(message | ({"sessionId": session} if session else {})))
        return self.last

    def hear(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.socket.recv(PATIENCE))
        if "method" in said:
            self.note(said["method"], said["params"])
        return said

    def note(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "Target.attachedToTarget":  # a worker: it is listened to as well
                for domain in ("Network", "Runtime", "Log"):
                    self.ask(f"{domain}.enable", params["sessionId"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Network.webSocketCreated":
                self.requests.append(params["url"])
            case "Network.webSocketFrameSent":
                self.sent.append(params["response"]["payloadData"])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.complaints.append(" ".join(str(each.get("value", each)) for each in params["args"]))
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

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
        """Until the old document is gone: what is looked for next is not found in it."""
        self.evaluate("globalThis.isOld = true")
        self.send("Page.reload")
        for _ in range(200):
            with suppress(AssertionError):  # asked while one makes way for the other
                if not self.evaluate("globalThis.isOld"):
                    return
        raise AssertionError("the page does not reload")

    def evaluate(self, expression: str) -> Any:
        said = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def until(self, expression: str, seconds: float = PATIENCE) -> None:
        """Waits for something that is true, or there."""
        found = self.evaluate(
            f"""new Promise((done) => {{
              const end = performance.now() + {seconds * 1000};
              const look = () => {{
                let found = false;
                try {{ found = !!({expression}); }} catch {{ /* not there yet */ }}
                if (found || performance.now() > end) done(found); else setTimeout(look, 25);
              }};
              look();
            }})"""
        )
        assert found, f"{expression}\n{self.complaints}\n{self.evaluate('document.body.innerText')[:2000]}"

    def click(self, element: str) -> None:
        """With the mouse, in the middle of what the expression names."""
        self.until(element)
        x, y = self.evaluate(
            f"""(() => {{
              const place = ({element});
              place.scrollIntoView({{ block: "nearest", inline: "nearest" }});
              const box = place.getBoundingClientRect();
              return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            pressed: dict[str, Any] = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    def dark(self) -> None:
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def keep_picture(self, path: Path) -> None:
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
            os.killpg(
                process.pid, signal.SIGKILL
            )  # with the processes that it started; none has much to lose
            process.wait()


def address_of(process: subprocess.Popen[bytes], profile: Path) -> str:
    told = profile / "DevToolsActivePort"
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        try:
            port = told.read_text().splitlines()[0]
            pages = httpx2.get(f"http://127.0.0.1:{port}/json/list", verify=False).json()
            return next(str(one["webSocketDebuggerUrl"]) for one in pages if one["type"] == "page")
        except (OSError, IndexError, StopIteration, httpx2.TransportError):
            time.sleep(0.05)  # between two questions
    raise AssertionError("the browser does not start")
