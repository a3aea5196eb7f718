#!/usr/bin/env bash
# Runs schemathesis against a node of its own: tests/api/run.sh COHORT SCHEMATHESIS
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cohort=$(realpath "$1") schemathesis=$(realpath -s "$2")
folder=$(mktemp -d)
cd "$folder" # schemathesis leaves a cache in the working directory
"$cohort" serve --config "$here/cohort.yaml" --folder "$folder/data" --port 0 >"$folder/out" 2>"$folder/log" &
node=$!
trap 'kill "$node" 2>/dev/null || true; wait "$node" 2>/dev/null || true; rm -rf "$folder"' EXIT
until url=$(grep -o 'http://127.0.0.1:[0-9]*' "$folder/out"); do
  kill -0 "$node" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
  sleep 0.05
done
# (The stream of events has no end, so its route is left out.)
"$schemathesis" --config-file "$here/schemathesis.toml" run "$url/v1/openapi.json" \
  --checks all --seed 1 --max-examples 50 --generation-deterministic --exclude-path /v1/events --no-color >"$folder/report" ||
  { cat "$folder/report" "$folder/log"; exit 1; }
tail -n 12 "$folder/report"
