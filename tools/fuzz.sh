#!/usr/bin/env bash
# Run every libFuzzer harness for the given number of seconds, seeded with the golden files. Stops at the first finding.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
for harness in build/fuzz/native/fuzz_*; do
    [ -x "$harness" ] && [ -f "$harness" ] || continue
    corpus=build/fuzz/corpus/$(basename "$harness")
    mkdir -p "$corpus"
    find tests/golden -type f ! -name '*.json' ! -name '*.md' -size -64k -exec cp -t "$corpus" {} +
    echo "== $(basename "$harness"): $seconds s"
    "$harness" -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/$(basename "$harness")-" "$corpus" 2>&1 | tail -n 12
done
