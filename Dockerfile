# SPDX-License-Identifier: Apache-2.0
#
#   docker build --build-arg VERSION=v1.2.3 -t elector-sidecar:v1.2.3 .
#
# Builds for the platform that it is asked for by cross-compiling, so no emulation is needed.
ARG GO_VERSION=1.26

FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd ./cmd
COPY internal ./internal
COPY pkg ./pkg
ARG TARGETOS
ARG TARGETARCH
ARG VERSION
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/elector-sidecar ./cmd/elector-sidecar

# Nothing but the binary: no shell, no libraries. No CA certificates either, since the sidecar talks to the API server
# alone, whose CA comes with the pod's service account (or is named in the kubeconfig).
FROM scratch
COPY --from=build /out/elector-sidecar /elector-sidecar
# As numbers, so that runAsNonRoot can be checked without /etc/passwd. It writes no files, so the root file system can be
# read-only.
USER 65532:65532
EXPOSE 4040
ENTRYPOINT ["/elector-sidecar"]
