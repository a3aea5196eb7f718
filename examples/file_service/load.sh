#!/usr/bin/env bash
# load.sh COHORT NODE FOLDER: real chains for a node that runs with cohort.yaml beside this file, until it is stopped.
set -euo pipefail
cohort=$1
export COHORT_NODE=$2
folder=$3

mkdir -p "$folder"
printf 'a picture of a cat\n' > "$folder/cat.jpg"
printf 'a picture of a dog, larger\n%.0s' {1..200} > "$folder/dog.jpg"
printf 'broken\n' > "$folder/broken.jpg"

submit() { # customer file
  "$cohort" submit --group "$1" --file "file://$folder/$2" --tag demo --chain thumbnails --param width=200 >/dev/null || true
}

for ((round = 0; ; ++round)); do
  submit vip:ann cat.jpg
  ((round % 2)) || submit bob dog.jpg
  ((round % 10 == 9)) && submit carol broken.jpg
  if ((round % 20 == 5)); then # One customer floods; the others do not notice.
    for _ in {1..10}; do submit flood dog.jpg; done
  fi
  sleep 0.5
done
