#!/usr/bin/env bash
# Run libFuzzer harnesses for some seconds each, seeded with golden files and earlier findings, and print a summary.
#
#     tools/fuzz.sh SECONDS [HARNESS...]     by default all harnesses
#
# Exits with 1 if one of them found something; the input is then in build/fuzz/HARNESS-crash-*.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
build=build/fuzz
if [ $# -eq 0 ]; then
    for harness in "$build"/native/fuzz_*; do
        if [ -f "$harness" ] && [ -x "$harness" ]; then set -- "$@" "$(basename "$harness")"; fi
    done
fi
failed=0
printf '%-24s %12s %10s %10s  %s\n' harness inputs a_second coverage result
for name in "$@"; do
    corpus=$build/corpus/$name
    log=$build/$name.log
    python3 tools/fuzz_seeds.py "$corpus"
    result=ok
    "$build/native/$name" -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$build/$name-" "$corpus" > "$log" 2>&1 || { result="FOUND SOMETHING, see $log"; failed=1; }
    inputs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    coverage=$(grep -oE ' cov: [0-9]+' "$log" | tail -n 1 | grep -oE '[0-9]+' || true)
    printf '%-24s %12s %10s %10s  %s\n' "$name" "${inputs:-0}" "${rate:-0}" "${coverage:-0}" "$result"
done
exit $failed
