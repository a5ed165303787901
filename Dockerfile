# Tidegate, compiled, in a small image that runs as nobody in particular.
#   docker build -t tidegate .
#   docker build -t tidegate-audit --target audit .

FROM python:3.13-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements.lock requirements-dev.lock ./
RUN python -m venv /tools \
    && /tools/bin/pip install --no-cache-dir --require-hashes -r requirements.lock -r requirements-dev.lock \
    && python -m venv --without-pip /opt/tidegate \
    && pip --python /opt/tidegate install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml setup.py README.md LICENSE ./
COPY protocol protocol
COPY routing routing
COPY proxy proxy
COPY mysql_mocker mysql_mocker
COPY spark_jobs spark_jobs
COPY tidegate tidegate
COPY packaging packaging
RUN TIDEGATE_COMPILED=1 /tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/tidegate install --no-cache-dir --no-deps /wheels/*.whl

FROM build AS build-audit
COPY requirements-audit.lock ./
# PySpark comes as source only; it is made into a wheel with the locked tools.
RUN /tools/bin/pip wheel --no-deps --no-build-isolation --require-hashes --wheel-dir /spark \
        -r requirements-audit.lock \
    && pip --python /opt/tidegate install --no-cache-dir --no-deps /spark/*.whl

FROM python:3.13-slim-bookworm AS base
RUN useradd --system --uid 6446 --home-dir /var/lib/tidegate --create-home tidegate \
    && install -d -o tidegate -g tidegate -m 750 /var/log/tidegate /report
ENV PATH=/opt/tidegate/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER tidegate
WORKDIR /var/lib/tidegate
ENTRYPOINT ["tidegate"]

FROM base AS audit
USER root
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build-audit /opt/tidegate /opt/tidegate
USER tidegate
CMD ["audit", "--log", "/var/log/tidegate", "--out", "/report"]

FROM base AS tidegate
COPY --from=build /opt/tidegate /opt/tidegate
EXPOSE 6446 9477
# docker run --env TIDEGATE_PRIMARY=db1 --env TIDEGATE_REPLICAS=db2,db3 tidegate
ENV TIDEGATE_LISTEN=:6446 TIDEGATE_METRICS=:9477
# Whether the process lives: Swarm replaces a container for this, which mends no server.
HEALTHCHECK --interval=10s --timeout=3s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:9477/livez', timeout=2)"]
CMD ["run"]
