"""`python -m app`, except that SIGUSR1 raises MemoryError in the thread that writes to SQLite."""

import signal
import threading


def kill_writer(number: int, frame: object) -> None:
    from tests.failing import raise_in

    for thread in threading.enumerate():
        if thread.name == "writer":
            raise_in(thread, MemoryError)


# Worker processes import this module too, before they answer the first process: it has to load quickly.
signal.signal(signal.SIGUSR1, kill_writer)

if __name__ == "__main__":
    from app.cli import main

    main(prog_name="python -m app")
