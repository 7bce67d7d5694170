"""Build tools: `python -m supply.lock` selects packages from the lock, `python -m supply.audit` audits it."""
