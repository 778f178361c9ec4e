#!/bin/sh
# Speed and memory as ratios; -help lists the flags, docs/performance.md says
# how to read the result.
set -eu
cd "$(dirname "$0")/../.."
export GOFLAGS="${GOFLAGS:--buildvcs=false}"
CGO_ENABLED=0 go run ./test/bench "$@"
