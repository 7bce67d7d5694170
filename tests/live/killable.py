"""`python -m app`, except that SIGUSR1 raises MemoryError in the thread that writes to SQLite, and SIGUSR2
blocks the event loop forever."""

import os
import signal
import threading


def kill(number: int, frame: object) -> None:
    from tests.fault_injection import kill_writer

    [writer] = [thread for thread in threading.enumerate() if thread.name == "writer"]
    kill_writer(writer)
    os.write(1, b"killed\n")  # print may not run within another print, which the signal may interrupt


def hang(number: int, frame: object) -> None:
    from app.cli import worker
    from app.server import signals

    signals.END_SECONDS = worker.END_SECONDS = 1  # so long the test waits
    print("the event loop is blocked", flush=True)
    threading.Event().wait()


def install() -> None:
    signal.signal(signal.SIGUSR1, kill)
    signal.signal(signal.SIGUSR2, hang)


# A worker process of `serve` imports this module before it answers the first process: it has to load quickly.
if __name__ in ("__main__", "__mp_main__"):
    install()

if __name__ == "__main__":
    from app.cli import main

    main(prog_name="python -m app")
