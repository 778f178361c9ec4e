#!/bin/sh
# Installs Debian packages that the tests can use. "quick": a C compiler for
# the race detector, Python for the independent reader, a PostgreSQL server.
# "all": also the clients of the full tier, and npm, which other PostgreSQL
# versions come from.
set -eu
want='gcc libc6-dev python3 postgresql'
[ "${1:-quick}" = quick ] || want="$want awscli python3-boto3 curl pgbouncer nodejs npm"
missing=
for p in $want; do
	# npm and node may come from elsewhere.
	case $p in npm) command -v npm >/dev/null && continue ;; nodejs) command -v node >/dev/null && continue ;; esac
	dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
command -v apt-get >/dev/null || { echo "install by hand:$missing" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
if ! dpkg-query -W -f='${Status}' postgresql-common 2>/dev/null | grep -q 'ok installed'; then
	# The tests want programs, not a server on port 5432.
	mkdir -p /etc/postgresql-common/createcluster.d
	echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/extenddb-test.conf
fi
apt-get update -q
# shellcheck disable=SC2086 # a list of names
apt-get install -q -y --no-install-recommends $missing
