#!/usr/bin/env bash
# Run every libFuzzer harness for the given number of seconds, seeded with the golden files. Stops at the first finding.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
build=${2:-build/fuzz}
for harness in "$build"/native/fuzz_*; do
    [ -x "$harness" ] && [ -f "$harness" ] || continue
    name=$(basename "$harness")
    corpus=$build/corpus/$name
    python3 tools/fuzz_seeds.py "$corpus"
    echo "== $name: $seconds s"
    "$harness" -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$build/$name-" "$corpus" > "$build/$name.log" 2>&1 || { tail -n 40 "$build/$name.log"; exit 1; }
    grep -E "^stat::|DONE" "$build/$name.log" || tail -n 3 "$build/$name.log"
done
