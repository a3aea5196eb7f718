#!/usr/bin/env bash
# Runs PgBouncer in front of a PostgreSQL server until its standard input ends: pgbouncer.sh URL_OF_SERVER
# Prints the URL of the pooler when it is ready. It works as root and as any other user.
set -euo pipefail

server=${1:?the URL of the server}
address=${server##*@} address=${address%%/*}
folder=$(mktemp -d "${TMPDIR:-/tmp}/cohort-pgbouncer-XXXXXX")
chmod 755 "$folder"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$folder/pgbouncer.ini" <<CONF
[databases]
* = host=${address%%:*} port=${address##*:}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
CONF
sed -i "s/^\* = .*/& user=cohort/" "$folder/pgbouncer.ini"
as=()
((EUID != 0)) || as=(setpriv --reuid=postgres --regid=postgres --init-groups)
PATH=$PATH:/usr/sbin "${as[@]}" pgbouncer "$folder/pgbouncer.ini" >"$folder.log" 2>&1 &
pooler=$!
trap 'kill "$pooler" 2>/dev/null || true; wait "$pooler" 2>/dev/null || true; rm -rf "$folder" "$folder.log"' EXIT
until "$(pg_config --bindir)/pg_isready" -q -h 127.0.0.1 -p "$port" 2>/dev/null; do
  kill -0 "$pooler" 2>/dev/null || { cat "$folder.log" >&2; exit 1; }
  sleep 0.02
done
echo "postgres://cohort@127.0.0.1:$port/postgres"
cat >/dev/null
