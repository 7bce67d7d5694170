"""Data in and out by lines (docs/import.md): load, compare and change, and dump the data of one client."""
