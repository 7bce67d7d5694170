"""The service as it is where the full page is not built: `python -m tests.browser.plain serve`."""

from pathlib import Path

from app.cli import main
from app.dev.ide import building

if __name__ == "__main__":
    building.BUILT = Path(__file__).parent / "nothing"
    main()
