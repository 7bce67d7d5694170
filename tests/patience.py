"""How long a test waits for what should happen at once."""

# Seconds. They are many, because a busy machine may give a process a twentieth of a core. They are fewer than
# the limit of a test in pyproject.toml, so a failure still shows what was awaited.
PATIENCE = 200
