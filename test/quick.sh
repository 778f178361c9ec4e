#!/bin/sh
# The quick tier. Needs Go; with PostgreSQL's programs it also tests that engine,
# with a C compiler also the packages that have concurrency under the race
# detector. Installs nothing.
#
# EXTENDDB_TEST_REQUIRE is a comma list of what must not be skipped ("race",
# and the names test/need knows); CI sets it.
set -eu
cd "$(dirname "$0")/.."
export GOFLAGS="${GOFLAGS:--buildvcs=false}"

EXTENDDB_TEST_SKIPS="$(mktemp)"
export EXTENDDB_TEST_SKIPS
trap 'sort -u "$EXTENDDB_TEST_SKIPS"; rm -f "$EXTENDDB_TEST_SKIPS"' EXIT

echo '== pass 1: every package, full size'
CGO_ENABLED=0 go test -timeout 15m ./...

cc="$(go env CC)"
if ! command -v "${cc%% *}" >/dev/null 2>&1; then
	case ",${EXTENDDB_TEST_REQUIRE:-}," in
	*,race,*) echo "no C compiler ($cc): the race detector needs one" >&2; exit 1 ;;
	esac
	echo "== pass 2 skipped: no C compiler ($cc), which the race detector needs"
	exit 0
fi

echo '== pass 2: race detector, sizes cut by the race build tag'
CGO_ENABLED=1 go test -race -timeout 20m $(cat test/race-packages)
