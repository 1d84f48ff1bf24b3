# One image per program: scheduler, chunker, connector, semantic, api, and cli (the echomind command).
#
#   docker build --target scheduler -t echomind/scheduler .        or all of them: make images
#
# An image holds one static binary, the CA certificates, and nothing else: no shell, no package manager. It runs as user
# 65532 and writes nowhere, so that its root file system may be read-only.

ARG GO_IMAGE=golang:1.26-bookworm

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY . .
# What --version says; .git is not part of the context.
ARG VERSION=(devel)
ARG COMMIT=unknown
ARG GOPROXY
ENV CGO_ENABLED=0 GOTOOLCHAIN=local GOPROXY=${GOPROXY}
# Nothing of the machine or the moment gets into a binary: built twice it is the same, byte for byte. Each program has the
# versions and checksums of its own module.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    set -eu; export GOWORK=off; version=github.com/echomind/sync/internal/version; \
    for program in services/scheduler/cmd/scheduler services/chunker/cmd/chunker services/connector/cmd/connector \
        services/semantic/cmd/semantic services/api/cmd/api cmd/echomind; do \
      go build -C "$program" -trimpath -buildvcs=false -tags timetzdata,grpcnotrace -o /out/ \
        -ldflags "-s -w -buildid= -X '$version.release=$VERSION' -X '$version.commit=$COMMIT'" .; \
    done; mkdir /uploads

FROM scratch AS base
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
USER 65532:65532
ENV HTTP_ADDR=:8080
EXPOSE 8080
ARG VERSION=(devel)
ARG COMMIT=unknown
LABEL org.opencontainers.image.vendor="EchoMind" \
      org.opencontainers.image.source="https://github.com/echomind/sync" \
      org.opencontainers.image.documentation="https://github.com/echomind/sync/blob/main/docs/operations.md" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"

FROM base AS scheduler
LABEL org.opencontainers.image.title="echomind scheduler" \
      org.opencontainers.image.description="Claims connectors that are due and publishes their triggers"
COPY --from=build /out/scheduler /usr/local/bin/scheduler
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/local/bin/scheduler", "health"]
ENTRYPOINT ["/usr/local/bin/scheduler"]

FROM base AS chunker
LABEL org.opencontainers.image.title="echomind chunker" \
      org.opencontainers.image.description="Fetches web sites and folders, and cuts them into chunks"
COPY --from=build /out/chunker /usr/local/bin/chunker
# A volume that is mounted there takes over whose folder it is.
COPY --from=build --chown=65532:65532 /uploads /uploads
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/local/bin/chunker", "health"]
ENTRYPOINT ["/usr/local/bin/chunker"]

FROM base AS connector
LABEL org.opencontainers.image.title="echomind connector" \
      org.opencontainers.image.description="Fetches OneDrive, Google Drive and Teams, and cuts them into chunks"
COPY --from=build /out/connector /usr/local/bin/connector
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/local/bin/connector", "health"]
ENTRYPOINT ["/usr/local/bin/connector"]

FROM base AS semantic
LABEL org.opencontainers.image.title="echomind semantic" \
      org.opencontainers.image.description="Embeds and stores chunks, and completes runs"
COPY --from=build /out/semantic /usr/local/bin/semantic
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/local/bin/semantic", "health"]
ENTRYPOINT ["/usr/local/bin/semantic"]

# Health and metrics are on HTTP_ADDR, as everywhere; the API itself has a port of its own.
FROM base AS api
LABEL org.opencontainers.image.title="echomind api" \
      org.opencontainers.image.description="REST for users, and for the programs around the system"
COPY --from=build /out/api /usr/local/bin/api
COPY --from=build --chown=65532:65532 /uploads /uploads
ENV API_ADDR=:8081
EXPOSE 8081
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/local/bin/api", "health"]
ENTRYPOINT ["/usr/local/bin/api"]

FROM base AS cli
LABEL org.opencontainers.image.title="echomind" \
      org.opencontainers.image.description="The command line: migrations, streams, connectors, search"
COPY --from=build /out/echomind /usr/local/bin/echomind
ENTRYPOINT ["/usr/local/bin/echomind"]
