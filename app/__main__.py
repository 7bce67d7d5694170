"""The program `care-gateway`, also started by `python -m app`."""

import atexit
import gc

gc.disable()  # until everything is loaded, because loading creates no garbage

from app.cli import main as run_command  # noqa: E402


def main() -> None:
    gc.freeze()
    gc.enable()
    atexit.register(gc.freeze)  # otherwise Python examines every loaded object once more when it exits
    run_command()


if __name__ == "__main__":  # workers are started by importing this once more
    main()
