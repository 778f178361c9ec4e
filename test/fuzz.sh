#!/bin/sh
# Runs every fuzz target of the tree for FUZZTIME each.
set -eu
cd "$(dirname "$0")/.."
for pkg in $(go list ./...); do
	for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
		echo "== $pkg $target"
		CGO_ENABLED=0 go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-20s}" "$pkg"
	done
done
