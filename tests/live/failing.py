"""`python -m app`, except that worker processes cannot start: the first fails at once, the others later."""

import os
import sys
import time
from pathlib import Path

if __name__ == "__mp_main__":
    try:
        Path(os.environ["CARE_VAR"], "first").mkdir()
    except FileExistsError:
        time.sleep(2)
    sys.exit(1)

if __name__ == "__main__":
    from app.cli import main
    from app.server import listener

    listener.RETRY_SECONDS = 0
    main(prog_name="python -m app")
