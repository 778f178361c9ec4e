#!/bin/sh
# Installs Debian packages that the tests can use. "quick": a C compiler for
# the race detector, Python for the independent reader. "all": also the clients of the full tier.
set -eu
want='gcc libc6-dev python3'
[ "${1:-quick}" = quick ] || want="$want awscli python3-boto3 curl"
missing=
for p in $want; do
	dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
command -v apt-get >/dev/null || { echo "install by hand:$missing" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# shellcheck disable=SC2086 # a list of names
apt-get install -q -y --no-install-recommends $missing
