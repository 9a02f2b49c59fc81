#!/usr/bin/env bash
# scripts/gpu-gate with programs that only pretend: what it runs, records and returns. Its PATH has bash and coreutils only.
# Usage: gpu_gate_test.sh ROOT
set -uo pipefail
root=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

mkdir "$folder/bin" "$folder/tools" "$folder/build"
for tool in bash env cat date dirname mktemp nproc rm sleep tail timeout; do
  ln -s "$(command -v $tool)" "$folder/tools/$tool"
done

write() { # FILE, text from stdin
  { echo "#!$(command -v bash)"; cat; } > "$1"
  chmod +x "$1"
}

fresh() {
  rm -f "$folder"/out.md "$folder"/calls
  write "$folder/bin/nvidia-smi" <<< 'echo "Card X, 580.1, 9.0, 1000 MiB"'
  write "$folder/bin/compute-sanitizer" << 'X'
echo "sanitizer $*" >> "$CALLS"
while [ "${1#-}" != "$1" ]; do [ "$1" = --tool ] && tool=$2; shift 2; done
"$@" || exit
if [ "$tool" = memcheck ]; then echo "========= ERROR SUMMARY: 0 errors"
else echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"; fi
X
  local name
  for name in cuda_device_test cuda_model_test cuda_test cpu_test golden_test; do
    write "$folder/build/$name" << 'X'
echo "${0##*/} $* isa=${MINFER_FORCE_ISA:-}" >> "$CALLS"
if [ "${1:-}" = --gtest_list_tests ]; then
  for suite in RowsDevice PackDevice LinearDevice GemmDevice BatchDevice SamplingDevice SamplingTopDevice StageDevice ExpertsDevice CudaRope CudaRopeAttention CudaKvMove CudaAttention; do
    echo "$suite."; echo "  Test"
  done
  exit
fi
echo "[==========] 7 tests from 2 test suites ran. (5 ms total)"
echo "[  PASSED  ] 7 tests."
X
  done
}

gate() { # EXPECTED_CODE options...
  local expected=$1 code
  shift
  PATH=$folder/bin:$folder/tools CALLS=$folder/calls "$root/scripts/gpu-gate" --build "$folder/build" --commit abc123 \
    --out "$folder/out.md" "$@" > "$folder/said" 2>&1
  code=$?
  if [ $code -ne "$expected" ]; then
    echo "line ${BASH_LINENO[0]}: exit code $code, expected $expected" && cat "$folder/said"
    failed=1
  fi
}

recorded() { # every text
  local text
  for text in "$@"; do
    if [[ $(cat "$folder/out.md" 2> /dev/null) != *"$text"* ]]; then
      echo "line ${BASH_LINENO[0]}: not recorded: $text" && cat "$folder/out.md"
      failed=1
    fi
  done
}

called() {
  if [[ $(cat "$folder/calls") != *"$1"* ]]; then
    echo "line ${BASH_LINENO[0]}: not called: $1" && cat "$folder/calls"
    failed=1
  fi
}

fresh
echo "# Before" > "$folder/out.md"
gate 0
recorded "# Before" ", Card X: passed" "Card: Card X, 1000 MiB, compute capability 9.0, driver 580.1" "Commit: abc123" \
  "| cuda_device_test | 7 | 0 | 0 |" "| cuda_test | 7 |" "| cpu_test (scalar" "| golden_test, scalar | 7 | 0 | 0 |" \
  "| memcheck | 7 |" "| racecheck | 7 |" "GemmDevice.SegmentsOfMixedTypes"
called "golden_test --gtest_filter=*_scalar isa=scalar"
called "sanitizer --tool racecheck --error-exitcode 9 $folder/build/cuda_device_test --gtest_filter="
called "sanitizer --tool memcheck --error-exitcode 9 $folder/build/cuda_model_test --gtest_filter=*CudaScenarios*"

# A failed program is recorded, and what follows still runs.
fresh
write "$folder/build/cuda_test" <<< 'echo "[  PASSED  ] 3 tests."; echo "[  FAILED  ] 2 tests, listed below:"; exit 1'
gate 1 --allow-missing
recorded "Card X: FAILED: 1 failed, 0 not run" "| cuda_test | 3 | 2 | 0 |" "FAILED: exit code 1" "| racecheck | 7 |"

fresh
write "$folder/build/cpu_test" <<< 'kill -SEGV $$'
gate 1
recorded "| 0 | 0 | 0 |" "FAILED: exit code 139"

fresh
write "$folder/build/cpu_test" <<< 'echo "[  PASSED  ] 0 tests."'
gate 1
recorded "FAILED: no test ran"

fresh
write "$folder/build/cuda_test" <<< 'echo "[  PASSED  ] 3 tests."; echo "[  SKIPPED ] 1 test, listed below:"'
gate 1
recorded "| cuda_test | 3 | 0 | 1 |" "FAILED: tests were skipped"

fresh
write "$folder/build/cuda_test" <<< 'sleep 60'
gate 1 --limit 1
recorded "FAILED: no end within 1 s"

# What is absent is recorded; it fails unless that is allowed.
fresh
rm "$folder/bin/compute-sanitizer"
gate 1
recorded "FAILED: 3 not run" "| racecheck | - | - | - | - | not run: compute-sanitizer is absent |"
gate 0 --allow-missing
recorded "passed, but 3 not run" "| memcheck, whole models | - |"

fresh
rm "$folder/bin/nvidia-smi" "$folder/build/cuda_device_test" "$folder/build/golden_test"
gate 1
recorded "| nvidia-smi | - |" "| cuda_device_test | - | - | - | - | not run: it is not in the build |" \
  "| golden_test, scalar | - |" "| memcheck | - |"

# Every suite is in the table of what runs under compute-sanitizer, and the other way round.
fresh
write "$folder/build/cuda_device_test" <<< 'echo RowsDevice.; echo NewDevice.; echo "[  PASSED  ] 7 tests."'
gate 1
recorded "| NewDevice under compute-sanitizer | - | - | - | - | not run: no row" "GemmDevice under compute-sanitizer"

# Findings of the tools, also where the program passes.
fresh
write "$folder/bin/compute-sanitizer" << 'X'
echo "[  PASSED  ] 7 tests."; echo "========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)"
X
gate 1
recorded "FAILED: RACECHECK SUMMARY: 2 hazards"
fresh
write "$folder/bin/compute-sanitizer" <<< 'echo "[  PASSED  ] 7 tests."'
gate 1
recorded "FAILED: no summary of compute-sanitizer"

# Without a build that is there, and nothing to build with, the record says so.
fresh
mkdir "$folder/project" && cp -r "$root/scripts" "$folder/project/scripts"
PATH=$folder/bin:$folder/tools CALLS=$folder/calls "$folder/project/scripts/gpu-gate" --out "$folder/out.md" > "$folder/said" 2>&1
[ $? -eq 1 ] || { echo "a gate without a build passed" && failed=1; }
recorded "| build | - | - | - | - | not run: no cmake here" "| cpu_test | - |" "| commit | - |" "Commit: not known"

fresh
gate 2 --fast
gate 2 --limit soon
gate 2 --commit
gate 2 --build "$folder/absent"

[ $failed -eq 0 ] && echo "gpu_gate_test: passed"
exit $failed
