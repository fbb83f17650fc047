#!/usr/bin/env bash
# Runs the kernels' tests and the op tests under NVIDIA's compute-sanitizer: memcheck (addresses) and racecheck (shared memory), and prints each
# that has ended and at last all as a table. The exit code is 1 unless all is clean.
#
#   backend/cuda/sanitize.sh            builds the tests, with Go
#   backend/cuda/sanitize.sh FOLDER     takes them from a folder, on a machine without Go; they were built there by
#                                       CGO_ENABLED=0 go test -c -ldflags '-s -w' -o FOLDER/ ./backend/cuda ./backend/cuda/kernels/...
#
# The tools work on the host, and slowly, so tests are cut in many that go side by side, a process each, on all GPUs that are there (those of
# CUDA_VISIBLE_DEVICES, if it is set), and are run with -test.short: few small cases that launch every kernel.
# An H200 gets through some 100 of racecheck's 11,000 launches a second and 200 of memcheck's, so both tools should take three to four minutes on
# one and two on two.
#
# TOOLS='racecheck' runs one tool, ONLY='packed|Attention' the tests whose line in the table matches, JOBS=8 so many at a time (16 for each GPU, but
# not more than processors), LIMIT=60 ends a test after so many seconds (300), LOGS=FOLDER keeps what the tool said there and not in a temporary
# folder.
set -euo pipefail
command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not on the PATH; it comes with the CUDA toolkit" >&2; exit 1; }
folder=${1:+$(realpath "$1")}
cd "$(dirname "$0")"
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  CGO_ENABLED=0 go test -c -o "$folder/" . ./kernels/...
fi
if [ -n "${LOGS:-}" ]; then
  mkdir -p "$LOGS"
  logs=$(realpath "$LOGS")
  rm -f "$logs"/*.row # of an earlier run
else
  logs=$(mktemp -d)
fi
gpus=${CUDA_VISIBLE_DEVICES:-$(nvidia-smi --query-gpu=index --format=csv,noheader | paste -sd,)}
count=$(tr ',' '\n' <<<"$gpus" | wc -l)
jobs=$((16 * count < $(nproc) ? 16 * count : $(nproc)))

# complaint is the first in a log, with the line behind it, which names the kernel: "at gemm64+0x1230".
complaint() { # log
  awk '/^========= (Error|Warning|Invalid|Program hit|Barrier|[A-Z].*not supported)/ {
    text = substr($0, 11)
    if ((getline) > 0 && sub(/^=========  +/, "")) text = text " " $0
    print substr(text, 1, 190)
    exit
  }' "$1"
}

# one runs one test under one tool and writes its row: name, result, seconds, the first complaint.
one() {
  tool=$1 binary=$2 run=$3 skip=$4 name="$1 $2 $3"
  [ "$skip" = '^$' ] || name+=' (the rest)'
  log=$LOGS/$(tr -c 'A-Za-z0-9\n' _ <<<"$name")
  cd "$5"
  CUDA_VISIBLE_DEVICES=$(cut -d, -f$((SLOT % COUNT + 1)) <<<"$GPUS")
  export CUDA_VISIBLE_DEVICES
  flags=(--tool "$tool" --error-exitcode 9)
  [ "$tool" = memcheck ] && flags+=(--ignore-getprocaddress-notfound)
  begin=$SECONDS result=clean
  timeout -k 5 "${LIMIT:-300}" compute-sanitizer "${flags[@]}" "$FOLDER/$binary.test" -test.short -test.v -test.run "$run" -test.skip "$skip" >"$log" 2>&1 && code=0 || code=$?
  complaint=$(complaint "$log")
  if [ "$code" = 124 ]; then
    result="did not end"
  elif grep -q 'before first instrumented API call' "$log" && grep -q '^PASS' "$log"; then
    complaint="it uses no GPU"
  elif [ "$skip" != '^$' ] && grep -q 'no tests to run' "$log" && [ "$code" = 0 ]; then
    complaint="nothing is left"
  elif grep -qE -- '--- SKIP|no tests to run' "$log" && [ "$code" = 0 ]; then
    result=skipped complaint=$(grep -m1 -E '_test.go|gputest.go|no tests to run' "$log" || true)
  elif [ "$code" != 0 ] || [ -n "$complaint" ]; then
    result="$(grep -oE '(ERROR|RACECHECK) SUMMARY: [0-9]+ [a-z]+' "$log" | tail -1 | cut -d: -f2) (exit code $code)"
    [ -n "$complaint" ] || complaint=$(grep -m1 -E -- '--- FAIL|panic|_test.go:' "$log" || true)
  fi
  printf '%s\t%s\t%d s\t%s\n' "$name" "${result# }" $((SECONDS - begin)) "$complaint" | tee "$log.row" >&2
}
export -f one complaint
export FOLDER=$folder LOGS=$logs GPUS=$gpus COUNT=$count

job() { # tool, binary, tests, tests left out, folder to run in
  if [[ -z ${ONLY:-} || "$1 $2 $3" =~ $ONLY ]]; then printf '%s\0' "$@"; fi
}

# parts cuts tests in parts by names, which are regular expressions, and what is left.
parts() { # tool, binary, tests, folder to run in, names
  tool=$1 binary=$2 tests=$3 at=$4
  shift 4
  for name; do
    job "$tool" "$binary" "$tests/^($name)\$" '^$' "$at"
  done
  job "$tool" "$binary" "$tests" "$tests/^($(IFS='|'; echo "$*"))\$" "$at"
}

# list names the tests, those that take longest first. Where they are cut is so that none takes much more than half a minute: opening the GPU
# alone takes some ten seconds where many processes do. TestFault faults on purpose, and TestOnStandIn uses no GPU.
list() {
  for tool in ${TOOLS:-racecheck memcheck}; do
    for arch in arch0 arch80; do
      ops="^TestOps\$/^$arch\$"
      parts "$tool" cuda "^TestFused\$/^$arch\$" "$PWD" 'heads_of_(64|80)' 'heads_of_(128|256)' 'Q4_0|Q4_1|Q4_K' 'Q6_K|Q8_0|MXFP4' experts
      parts "$tool" cuda "$ops/^Attention\$/^bf16\$" "$PWD" bf16 f16 i8 f8
      for some in "$ops/^Attention\$/^f32\$" "$ops/^Linear\$" "$ops/^MoE\$"; do job "$tool" cuda "$some" '^$' "$PWD"; done
      job "$tool" cuda "$ops" "$ops/^(Linear|MoE|Attention)\$" "$PWD"
    done
    for path in "$folder"/*.test; do
      binary=$(basename "$path" .test)
      at=$(find "$PWD/kernels" -path "*/$binary/*_test.go" -printf '%h\n' | sort -u | head -1) cut='Mirrors'
      case $binary in
      packed)
        for arch in own sm_80; do
          parts "$tool" packed "^TestAgainstPlainGo\$/^$arch\$" "$at" 'Q4_0|Q4_1' 'Q4_K|Q6_K' 'Q8_0|MXFP4'
          job "$tool" packed "^TestFused\$/^$arch\$" '^$' "$at"
        done
        parts "$tool" packed '^TestClusters$' "$at" 'clusters_of_[12]_blocks' clusters_of_4_blocks
        for name in GlobalSplitK NormFused Open; do job "$tool" packed "^Test$name\$" '^$' "$at"; done
        cut+='|AgainstPlainGo|Fused|Clusters|GlobalSplitK|NormFused|Open' ;;
      sampling)
        parts "$tool" sampling '^TestAgainstPlain$' "$at" 5
        cut+='|AgainstPlain' ;;
      moe)
        parts "$tool" moe '^TestBlock$' "$at" BF16 'Q4_0|Q4_K'
        job "$tool" moe '^TestRouter$' '^$' "$at"
        cut+='|Block|Router' ;;
      cuda) at=$PWD cut='Ops|Fused|Fault|Every.*|OnStandIn|LaunchSequence' ;;
      esac
      [ ! -d "$at" ] || job "$tool" "$binary" '^Test' "^Test($cut)\$" "$at"
    done
  done
}
list | xargs -0 -n 5 -P "${JOBS:-$jobs}" --process-slot-var=SLOT bash -c 'one "$@"' one

sort "$logs"/*.row | awk -F '\t' '{printf "%-80s %-22s %6s  %s\n", $1, $2, $3, $4}'
bad=$(cat "$logs"/*.row | awk -F '\t' '$2 != "clean"' | wc -l)
echo "$(cat "$logs"/*.row | wc -l) tests, $bad not clean; what the tool said of each is in $logs"
[ "$bad" = 0 ]
