"""The service as it is where the full page is not built: `python -m tests.browser.plain serve`."""

from pathlib import Path

from app import ide
from app.cli import main

if __name__ == "__main__":
    ide.BUILT = Path(__file__).parent / "nothing"
    main()
