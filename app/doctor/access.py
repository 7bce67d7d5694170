"""Checks what the user of this process may do to the file of an embedded database."""

import os
from pathlib import Path
from stat import S_IMODE

from app.doctor.results import Finding, failed

OF_OTHERS = 0o077
OTHERS_WRITE = 0o022
OWNER = "let it belong to the user of the service: chown USER"


def barred(path: Path) -> list[Finding]:
    """What is not allowed, and has to be; nothing is opened. SQLite also makes files beside its own."""
    path = path.absolute()
    for folder in reversed(path.parents):
        if not os.access(folder, os.X_OK):
            if not os.access(folder, os.F_OK):
                return []  # there is none
            do = "let the user of the service enter it, or keep the database elsewhere"
            return [failed("files", f"this user may not enter the folder {folder}", do)]
    if not os.access(path, os.F_OK):
        return []
    found = []
    if not os.access(path, os.R_OK):
        found.append(failed("files", f"this user may not read {path}", f"{OWNER} {path}"))
    elif not os.access(path, os.W_OK):
        do = f"{OWNER} {path}, and chmod 600; or the disk is mounted to be read alone"
        found.append(failed("files", f"this user may not write {path}", do))
    if not os.access(path.parent, os.W_OK):
        do = f"SQLite makes files beside its own: {OWNER} {path.parent}"
        found.append(failed("files", f"this user may not write the folder {path.parent}", do))
    return found


def open_to_others(path: Path) -> list[Finding]:
    """What SQLite makes beside its file may be read by those who may read the file."""
    path = path.absolute()
    found = []
    if S_IMODE(path.stat().st_mode) & OF_OTHERS:
        found.append(failed("files", f"others may read {path}", f"chmod 600 {path}"))
    if S_IMODE(path.parent.stat().st_mode) & OTHERS_WRITE:
        message = f"others may write the folder {path.parent}"
        found.append(failed("files", message, f"chmod 700 {path.parent}"))
    return found
