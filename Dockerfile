# The one image of a fleet on Kubernetes: Ray's head and workers, the arbiter beside the head, its own Redis.
#
#   docker build -t fleet .
#   docker build --build-arg EXTRAS=demo -t fleet-demo .
#
# What is in it stands in image/packages.txt and image/install.sh; tests/cluster/image.py makes the same image from
# them without a container engine, and takes what is set below from this file.
FROM debian:bookworm-slim AS base
COPY image/packages.txt /tmp/
RUN apt-get update \
    && xargs apt-get install --yes --no-install-recommends < /tmp/packages.txt \
    && rm -rf /var/lib/apt/lists/* /tmp/packages.txt

FROM base AS build
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv
WORKDIR /src
COPY image image
COPY pyproject.toml requirements.lock ./
ARG EXTRAS=""
RUN image/install.sh dependencies /out
COPY . .
RUN image/install.sh project /out

FROM base
COPY --from=build /out/ /
LABEL org.opencontainers.image.title="fleet" \
      org.opencontainers.image.description="Training gangs and inference replicas share one GPU fleet on Ray, by policy." \
      org.opencontainers.image.licenses="Apache-2.0"
# A user without an entry in /etc/passwd, so that any other number does as well.
ENV HOME=/tmp USER=fleet LOGNAME=fleet PYTHONUNBUFFERED=1 RAY_USAGE_STATS_ENABLED=0
WORKDIR /tmp
USER 10001:10001
# Of a node of Ray; in Kubernetes the probes of its pod say it.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s \
    CMD wget --quiet --tries=1 --timeout=5 --output-document=- http://127.0.0.1:52365/api/local_raylet_healthz | grep -q success
CMD ["/bin/bash"]
