#!/bin/sh
# The full tier: kill, fault, million-item and client tests. Each needs the
# build tag "full"; what a machine lacks is skipped with a visible reason.
set -eu
cd "$(dirname "$0")/.."
export GOFLAGS="${GOFLAGS:--buildvcs=false}"
CGO_ENABLED=0 go test -tags full -count=1 -timeout 75m -v ./test/... ./server/storage/postgres
