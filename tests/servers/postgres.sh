#!/usr/bin/env bash
# A PostgreSQL server for tests, on 127.0.0.1, in a throw-away folder of its own.
#
#   postgres.sh start FOLDER    starts a server; FOLDER/url is where it is
#   postgres.sh stop FOLDER     ends it, and removes what it has written
#   postgres.sh crash FOLDER    kills all of its processes at once; again starts it anew
#   postgres.sh again FOLDER
#   postgres.sh restart FOLDER  ends it in order, and starts it anew
#   postgres.sh freeze FOLDER   stops all of its processes; thaw lets them go on
#   postgres.sh thaw FOLDER
#
# The server also ends when the process that has called `start` ends. It works as root and as any other user: a server
# does not run as root, so root starts it as the user postgres.
set -euo pipefail

verb=${1:?which verb?} folder=${2:?which folder?}
programs=$(pg_config --bindir)

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

as_postgres() {
  if ((EUID == 0)); then
    setpriv --reuid=postgres --regid=postgres --init-groups "$@"
  else
    "$@"
  fi
}

# Every process of the server has a session of its own, so no signal to a group reaches them all. The first one is the
# postmaster: once it is stopped, no other can begin unseen.
processes() {
  local pid
  pid=$(cat "$folder/pid")
  echo "$pid"
  pgrep -P "$pid" || true
}

# Runs the server as a child until it is told to stop, or until its owner is gone. (A server that was killed must be
# waited for by its parent, or the next start would find its process still there.)
keep() { # data owner port
  local data=$1 owner=$2 port=$3 server
  cd /
  while true; do
    if ((EUID == 0)); then
      setpriv --reuid=postgres --regid=postgres --init-groups "$programs/postgres" -D "$data" &
    else
      "$programs/postgres" -D "$data" &
    fi
    server=$!
    echo "$server" >"$folder/pid"
    while kill -0 "$server" 2>/dev/null; do
      if [[ -e $folder/stop ]] || ! kill -0 "$owner" 2>/dev/null; then
        kill -CONT $(processes) 2>/dev/null || true
        kill -INT "$server" 2>/dev/null || true
        touch "$folder/stop"
        break
      fi
      sleep 0.05
    done
    wait "$server" || true
    rm -f "$folder/pid"
    until [[ -e $folder/again || -e $folder/stop ]] || ! kill -0 "$owner" 2>/dev/null; do sleep 0.02; done
    [[ -e $folder/again && ! -e $folder/stop ]] || break
    rm -f "$folder/again"
  done
  rm -rf "$data" "$folder"
}

wait_until_ready() {
  local url
  for ((i = 0; i < 1500; ++i)); do
    url=$(cat "$folder/url.new" 2>/dev/null || cat "$folder/url")
    if "$programs/pg_isready" -q -d "$url" 2>/dev/null; then return; fi
    sleep 0.02
  done
  echo "postgres.sh: the server did not get ready" >&2
  cat "$folder/log" >&2
  exit 1
}

case $verb in
  start)
    [[ -e $folder ]] && "$0" stop "$folder"
    mkdir -p "$folder"
    folder=$(cd "$folder" && pwd)
    data=$(mktemp -d "${TMPDIR:-/tmp}/cohort-postgres-XXXXXX")
    ((EUID != 0)) || chown postgres "$data"
    port=$(free_port)
    (cd / && as_postgres "$programs/initdb" -D "$data" -U cohort --auth=trust --no-sync -E UTF8 --locale=C) >"$folder/log" 2>&1
    as_postgres tee -a "$data/postgresql.conf" >/dev/null <<CONF
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = ''
shared_buffers = 64MB
max_connections = 100
max_wal_size = 1GB
fsync = ${COHORT_FSYNC:-off}
log_min_messages = warning
recovery_init_sync_method = syncfs
CONF
    echo "postgres://cohort@127.0.0.1:$port/postgres" >"$folder/url.new"
    export -f keep processes
    export folder programs
    setsid bash -c 'keep "$@"' keep "$data" "${COHORT_OWNER:-$PPID}" "$port" >>"$folder/log" 2>&1 </dev/null &
    wait_until_ready
    mv "$folder/url.new" "$folder/url"
    ;;
  stop)
    [[ -d $folder ]] || exit 0
    touch "$folder/stop"
    for ((i = 0; i < 500; ++i)); do
      [[ -d $folder ]] || exit 0
      sleep 0.02
    done
    if [[ -e $folder/pid ]]; then kill -9 $(processes) 2>/dev/null || true; fi
    rm -rf "$folder"
    ;;
  crash)
    kill -9 $(processes) 2>/dev/null || true
    while [[ -e $folder/pid ]]; do sleep 0.01; done
    ;;
  again)
    touch "$folder/again"
    while [[ -e $folder/again ]]; do sleep 0.01; done
    wait_until_ready
    ;;
  restart)
    kill -INT "$(cat "$folder/pid")"
    while [[ -e $folder/pid ]]; do sleep 0.01; done
    "$0" again "$folder"
    ;;
  freeze)
    kill -STOP "$(cat "$folder/pid")"
    kill -STOP $(processes)
    ;;
  thaw) kill -CONT $(processes) ;;
  *)
    echo "postgres.sh: there is no verb '$verb'" >&2
    exit 64
    ;;
esac
