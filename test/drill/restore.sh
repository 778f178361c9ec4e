#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The disaster drill: the machine is gone, and what is left is the directory of
# the backup store. Restores the latest backup of every table into a new
# database, a file or a storage URL, without configuration and without a server.
#
#   restore.sh EXTENDDB STORE_DIR NEW_DATABASE
set -eu
bin=$1 store=$2 db=$3
url="file://$store"

case $db in postgres:* | postgresql:* | sqlite:*) ;; *) db="sqlite:$db" ;; esac
[ ! -e "${db#sqlite:}" ] || { echo "$db exists: the drill is for a new machine" >&2; exit 2; }

"$bin" store check "$url"
"$bin" backup list --store "$url"
"$bin" backup verify --all --store "$url" --quiet

for dir in "$store"/[0-9]*/*/; do
	table=$(basename "$dir")
	"$bin" restore "latest:$table" --as "$table" --store "$url" --storage "$db" --quiet
done
