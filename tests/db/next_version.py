"""The next version of the tables and of the program: a column has a new name, and the old one is removed."""

import shutil
from pathlib import Path

from app.db.admin.migrate import FOLDER, newest_version

NEXT = f"{int(newest_version()[:4]) + 1:04}"
EXPAND = f'''
import sqlalchemy as sa
from alembic import op

revision, down_revision = "{NEXT}", "{newest_version()}"


def upgrade() -> None:
    op.add_column("delivery", sa.Column("last_outcome", sa.Text()))
'''
CONTRACT = f'''
from alembic import op

revision, down_revision = "{NEXT}c", "{NEXT}"


def upgrade() -> None:
    op.drop_column("delivery", "last_answer")
'''


def add_migrations(folder: Path) -> Path:
    """Copies the migrations into the folder, and adds those of the next version."""
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / f"{NEXT}_last_outcome.py").write_text(EXPAND)
    (folder / "versions" / f"{NEXT}c_last_outcome.py").write_text(CONTRACT)
    return folder


def make_next_program(folder: Path) -> Path:
    """A copy of the program that uses the new column."""
    app = folder / "app"
    ignored = shutil.ignore_patterns("__pycache__", "web", "built")
    shutil.copytree(FOLDER.parent.parent, app, ignore=ignored)
    for name in ("db/tables.py", "db/statements/deliveries.py"):
        old = (app / name).read_text()
        (app / name).write_text(old.replace("last_answer", "last_outcome"))
    add_migrations(app / "db/migrations")
    return folder
