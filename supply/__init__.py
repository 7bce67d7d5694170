"""What the project is built from: `python -m supply.audit`, `python -m supply.table`."""
