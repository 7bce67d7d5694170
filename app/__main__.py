"""`python -m app` is the command line `care-gateway`."""

from app.cli import main

if __name__ == "__main__":  # workers are started by importing this once more
    main()
