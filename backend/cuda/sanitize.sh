#!/usr/bin/env bash
# Runs the kernels' tests and the op tests under NVIDIA's compute-sanitizer: memcheck (addresses) and racecheck (shared memory), a process a
# test, several at a time, and prints each that has ended and at last all as a table. The exit code is 1 unless all is clean.
#
#   backend/cuda/sanitize.sh            builds the tests, with Go
#   backend/cuda/sanitize.sh FOLDER     takes them from a folder, on a machine without Go; they were built there by
#                                       CGO_ENABLED=0 go test -c -ldflags '-s -w' -o FOLDER/ ./backend/cuda ./backend/cuda/kernels/...
#
# TOOLS='racecheck' runs one tool, ONLY='slab|Attention' the tests whose line in the table matches, JOBS=8 so many at a time (4: they share
# the GPU by turns), LIMIT=60 ends a test after so many seconds (600).
set -euo pipefail
command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not on the PATH; it comes with the CUDA toolkit" >&2; exit 1; }
cd "$(dirname "$0")"
folder=${1:-}
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  CGO_ENABLED=0 go test -c -o "$folder/" . ./kernels/...
fi
folder=$(realpath "$folder")
logs=$(mktemp -d)

# one runs one test under one tool and writes its row: name, result, seconds, the first complaint.
one() {
  tool=$1 binary=$2 run=$3 skip=$4 name="$1 $2 $3"
  log=$LOGS/$(tr -c 'A-Za-z0-9\n' _ <<<"$name")
  cd "$5"
  flags=(--tool "$tool" --error-exitcode 9)
  [ "$tool" = memcheck ] && flags+=(--ignore-getprocaddress-notfound)
  begin=$SECONDS result=clean
  timeout "${LIMIT:-600}" compute-sanitizer "${flags[@]}" "$FOLDER/$binary.test" -test.short -test.v -test.run "$run" -test.skip "$skip" >"$log" 2>&1 && code=0 || code=$?
  complaint=$(grep -m1 -E '^========= (Error|Warning|Invalid|Program hit|Barrier|[A-Z].*not supported)' "$log" | cut -c11-200 || true)
  if [ "$code" = 124 ]; then
    result="did not end"
  elif grep -q 'before first instrumented API call' "$log" && grep -q '^PASS' "$log"; then
    complaint="it uses no GPU"
  elif grep -qE -- '--- SKIP|no tests to run' "$log" && [ "$code" = 0 ]; then
    result=skipped complaint=$(grep -m1 -E '_test.go|gputest.go|no tests to run' "$log" || true)
  elif [ "$code" != 0 ] || [ -n "$complaint" ]; then
    result="$(grep -oE '(ERROR|RACECHECK) SUMMARY: [0-9]+ [a-z]+' "$log" | tail -1 | cut -d: -f2) (exit code $code)"
    [ -n "$complaint" ] || complaint=$(grep -m1 -E -- '--- FAIL|panic|_test.go:' "$log" || true)
  fi
  printf '%s\t%s\t%d s\t%s\n' "$name" "${result# }" $((SECONDS - begin)) "$complaint" | tee "$log.row" >&2
}
export -f one
export FOLDER=$folder LOGS=$logs

job() { # tool, binary, tests, tests left out, folder to run in
  if [[ -z ${ONLY:-} || "$1 $2 $3" =~ $ONLY ]]; then printf '%s\0' "$@"; fi
}

# list names the tests. The op tests are cut by op, since each takes its time; TestFault faults on purpose.
list() {
  for tool in ${TOOLS:-memcheck racecheck}; do
    for path in "$folder"/*.test; do
      binary=$(basename "$path" .test)
      if [ "$binary" != cuda ]; then
        [ -d "kernels/$binary" ] || continue
        for test in $("$path" -test.list '^Test' | grep '^Test' | grep -v Mirrors || true); do
          job "$tool" "$binary" "^$test\$" '^$' "$PWD/kernels/$binary"
        done
        continue
      fi
      for arch in arch0 arch80; do
        for op in Linear/f32 Linear/bf16 MoE/f32 MoE/bf16 Attention/f32 Attention/bf16/{f32,f16,bf16,i8,f8}; do
          job "$tool" cuda "^TestOps/$arch/^$op" '^$' "$PWD"
        done
        job "$tool" cuda "^TestOps/$arch" "^TestOps/$arch/^(Linear|MoE|Attention)" "$PWD"
        job "$tool" cuda "^TestJoined/$arch" '^$' "$PWD"
      done
      job "$tool" cuda '^Test' '^Test(Ops|Joined|Fault|Every)' "$PWD"
    done
  done
}
list | xargs -0 -n 5 -P "${JOBS:-4}" bash -c 'one "$@"' one

sort "$logs"/*.row | awk -F '\t' '{printf "%-58s %-22s %6s  %s\n", $1, $2, $3, $4}'
bad=$(cat "$logs"/*.row | awk -F '\t' '$2 != "clean"' | wc -l)
echo "$(cat "$logs"/*.row | wc -l) tests, $bad not clean; what the tool said of each is in $logs"
[ "$bad" = 0 ]
