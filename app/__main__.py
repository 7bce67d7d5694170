"""`python -m app` is the command line `care-gateway`."""

from app.cli import main

main()
