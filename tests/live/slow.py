"""`python -m app`, except that a worker process loads for longer than one that serves may take to respond."""

import time

RESPONSE_SECONDS, START_SECONDS = 3, 30

if __name__ == "__mp_main__":
    time.sleep(RESPONSE_SECONDS + 1)

if __name__ == "__main__":
    from app.cli import main, serve
    from app.server import listener

    listener.START_SECONDS = START_SECONDS
    serve.HEALTHCHECK_SECONDS = RESPONSE_SECONDS
    main(prog_name="python -m app")
