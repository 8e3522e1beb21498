# The gateway in an image of its own: the program, the libraries that it needs, certificates and time zones. There is no shell.
#
#   scripts/image                       builds it with docker, podman or buildah, whichever is there
#   docker run -p 8080:8080 -v sluice:/data sluice
#   scripts/image sluice-symbols --target symbols       what debuggers need for it
#
# Security updates of the libraries need a new build, because none of Debian's tools is in it.

FROM swift:6.3-bookworm AS build
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        binutils ca-certificates libcurl4-openssl-dev libpq-dev libsqlite3-dev libssl-dev python3 tzdata \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY Package.swift openapi.yaml ./
COPY Sources Sources
# Package.swift names the tests.
COPY Tests Tests
COPY fuzz fuzz
COPY scripts/image-root scripts/libraries scripts/bill-of-materials scripts/
# scripts/image sets it, by scripts/version. Without it, the version is the newest in CHANGELOG.md.
ARG VERSION=
# The same build as scripts/build: Swift's libraries are part of the program (docs/decisions/0048).
RUN SLUICE_BUILD_VERSION="$VERSION" swift build -c release --product sluice --static-swift-stdlib \
    && scripts/image-root "$(swift build -c release --static-swift-stdlib --show-bin-path)/sluice" /image /symbols

# Only with --target symbols: a file below /usr/lib/debug, named by the build id of the program.
FROM scratch AS symbols
COPY --from=build /symbols /

FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Sluice" \
    org.opencontainers.image.description="An upload gateway: mints upload credentials and relays uploads" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION"
COPY --from=build /image /
COPY --from=build --chown=10001:10001 /image/data /data
ENV PATH=/usr/bin \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    SLUICE_DATA_DIR=/data \
    SLUICE_GATEWAY_LISTEN=0.0.0.0:8080 \
    SLUICE_OBJECT_LISTEN=0.0.0.0:9000
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080 9000
# SIGTERM lets running uploads finish; give it longer than timeouts.shutdownGrace (docker stop --time).
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["sluice", "health"]
ENTRYPOINT ["/usr/bin/sluice"]
CMD ["serve"]
