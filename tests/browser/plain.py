"""`python -m tests.browser.plain serve`: the service with the plain page, even if the full page is built."""

from pathlib import Path

from app.cli import main
from app.dev import building

if __name__ == "__main__":
    building.BUILT = Path(__file__).parent / "missing"
    main()
