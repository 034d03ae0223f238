#!/usr/bin/env bash
# Every variant of the articles' MLP at four sizes, one command each; JSON of each goes to the folder given.
#   bench/variants.sh bench/results /tmp/variants
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=$1 traces=$2
mkdir -p "$out" "$traces"
profile() { # name, seconds, variants, arguments of the factory
    local name=$1 limit=$2 variants=$3
    shift 3
    timeout "$limit" python3 -m foretrace profile "$here/mlp_variants.py:geglu" --variants "$variants" \
        --out "$traces/$name" --format json -o "$out/variants_$name.json" --force -- "$@"
}
most=eager,compile,compile:reduce-overhead,liger,fused
profile 8192 60 $most --batch 64 --seq 128
profile 1 45 $most --batch 1 --seq 1
profile 16 45 $most --batch 1 --seq 16
profile 512 45 $most --batch 4 --seq 128
# autotuning takes 20 s a shape and new shapes as long again: each beside eager, apart from the rest
profile 8192_autotune 100 eager,compile:max-autotune --batch 64 --seq 128
profile 1_autotune 80 eager,compile:max-autotune --batch 1 --seq 1
profile 16_autotune 80 eager,compile:max-autotune --batch 1 --seq 16
profile 512_autotune 80 eager,compile:max-autotune --batch 4 --seq 128
