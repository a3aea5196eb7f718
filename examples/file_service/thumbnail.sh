#!/bin/sh
# thumbnail.sh FILE WIDTH: stands for a converter. Exit 75 says "busy, try again"; what it prints is the step's output.
set -eu
file=$1
width=$2
if grep -q broken "$file"; then
  echo "$file is not a picture" >&2
  exit 1
fi
sleep "0.$(($(od -An -N1 -tu1 /dev/urandom) % 5 + 1))"
if [ "$(($(od -An -N1 -tu1 /dev/urandom) % 10))" = 0 ]; then
  echo "the converter is busy" >&2
  exit 75
fi
printf '{"width": %s, "bytes": %s}\n' "$width" "$(wc -c < "$file")"
