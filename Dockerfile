# The service as an image: docker build -t care-gateway .
# Without GraphiQL, which only development serves.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
ARG EXTRAS=postgres
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY pyproject.toml requirements.lock README.md ./
COPY supply/ supply/
# The very versions that were tested, each by its hash; none of what tests need.
RUN python3 -m supply.lock build > build.lock \
    && python3 -m supply.lock run ${EXTRAS} > run.lock \
    && python3 -m venv tools && tools/bin/python -m pip install --quiet --require-hashes --requirement build.lock \
    && python3 -m venv /opt/care && /opt/care/bin/python -m pip install --quiet --require-hashes --requirement run.lock
COPY app/ app/
COPY moving_over/ moving_over/
RUN tools/bin/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/care/bin/python -m pip install --quiet --no-deps --no-index dist/*.whl \
    && /opt/care/bin/python -m pip uninstall --quiet --yes pip

FROM ${BASE}
RUN groupadd --gid 10001 care \
    && useradd --uid 10001 --gid care --no-create-home --home-dir /var/lib/care --shell /usr/sbin/nologin care \
    && install --directory --owner care --group care --mode 700 /var/lib/care
COPY --from=build /opt/care /opt/care
# Within its own network; CARE_METRICS_PORT says whether metrics are told at all.
ENV PATH=/opt/care/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    CARE_VAR=/var/lib/care CARE_HOST=0.0.0.0 CARE_METRICS_HOST=0.0.0.0
WORKDIR /var/lib/care
VOLUME /var/lib/care
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python3", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ.get('CARE_PORT') or 8000), timeout=2); c.request('GET', '/livez'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["care-gateway"]
CMD ["serve"]
