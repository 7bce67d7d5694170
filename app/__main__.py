"""The program `care-gateway`, also started by `python -m app`."""

import atexit
import gc

gc.disable()  # until everything is loaded: loading creates no garbage, and collections would double its time

from app.cli import main as run_command  # noqa: E402


def main() -> None:
    gc.freeze()
    gc.enable()
    atexit.register(gc.freeze)  # the exit would collect everything that is loaded, which takes as long again
    run_command()


if __name__ == "__main__":  # workers are started by importing this once more
    main()
