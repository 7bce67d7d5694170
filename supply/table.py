"""Writes the second table of docs/dependencies.md: what the lock holds that we do not name ourselves."""

from supply.lock import LOCK, PROJECT, ROOT, licence_of, named_packages, named_requirements, read_lock

PAGE = ROOT / "docs" / "dependencies.md"
BEGIN, END = "<!-- written by `make lock` -->\n", "<!-- until here -->\n"
HEAD = "| Package | Brought by | Licence |\n|---|---|---|\n"


def brought_rows(lock: str, named: set[str], page: str) -> str:
    """A package that is not installed on this machine keeps what the page said of its licence."""
    rows = []
    for one in read_lock(lock):
        if one.name not in named:
            known = licence_of(one.name) or licence_in(page, one.name)
            rows.append(f"| {one.name} | {', '.join(one.brought_by)} | {known} |\n")
    return HEAD + "".join(rows)


def licence_in(page: str, name: str) -> str:
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith(f"| {name} | ")]
    return rows[0][2].removesuffix(" |") if rows else "look it up"


def rewritten(page: str, lock: str, named: set[str]) -> str:
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{brought_rows(lock, named, page)}{END}{after}"


if __name__ == "__main__":
    ours = named_packages(named_requirements(PROJECT.read_text()))
    PAGE.write_text(rewritten(PAGE.read_text(), LOCK.read_text(), ours))
