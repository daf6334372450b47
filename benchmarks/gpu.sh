#!/usr/bin/env bash
# What docs/benchmarks.md says of an NVIDIA GPU, measured again:
#
#   benchmarks/gpu.sh OUT [PART ...]
#
# Every part writes OUT/PART.txt, in the order given; without parts, all of them (most of an hour). The exit status is 1
# if a part failed. PYTHON has Paceline's packages. The first bench of a fresh machine compiles kernels for a minute or
# two: begin with `steps`.
set -u
PYTHON=${PYTHON:-python3}
FOLDER=${FOLDER:-/tmp/hybrid-4b} # the shape of Qwen3.5-4B with random weights: 9 GB
PORT=${PORT:-8077}
PARTS="steps graphs served traffic long drafts rivals prefill layout beside json lookup prose kv"

bench() { "$PYTHON" -m benchmarks "$@"; }

part() {
    case $1 in
    steps)
        bench steps qwen3.5-4b --rows 1,8,32,64
        bench steps qwen3.5-4b --rows 8,9,10,12,16 --shape-buckets off
        ;;
    graphs) # what MLX's own settings of CUDA graphs change
        for setting in MLX_USE_CUDA_GRAPHS=1 MLX_USE_CUDA_GRAPHS=0 MLX_MAX_OPS_PER_BUFFER=400; do
            export "$setting"
            echo "$setting"
            bench steps qwen3.5-4b --rows 1,8,32
            bench prefill qwen3.5-4b --prompts 1x512,4x512
            bench traffic qwen3.5-4b --streams 32 --seconds 8 --windows 2
            unset "${setting%=*}"
        done
        ;;
    served) served 32 ;;
    traffic) bench traffic qwen3.5-4b --streams 8,32 --speculation off,auto --seconds 15 ;;
    long) bench traffic qwen3.5-4b --streams 8 --seconds 60 ;;
    drafts) bench speculate qwen3.5-4b --output-tokens 96 ;;
    rivals) bench traffic qwen3-4b --streams 8,32 --mlx-lm --seconds 8 ;;
    prefill)
        bench prefill qwen3.5-4b --prompts 1x256,1x512,1x2048,1x8192,8x64,4x512,32x512
        bench prefill qwen3-4b --prompts 1x512,1x2048,1x8192,32x512
        ;;
    layout) bench layout qwen3.5-4b ;;
    beside) bench speculate qwen3.5-4b --trace beside --rows 8 --output-tokens 160 --pairs 7 ;;
    json) bench speculate qwen3.5-4b --trace json --rows 1,8 --pairs 3 ;;
    lookup) bench speculate qwen3.5-4b --trace edit --rows 1,8 --output-tokens 128 --pairs 3 ;;
    prose) bench speculate qwen3.5-4b --trace prose --rows 1,8 --output-tokens 128 --pairs 5 ;;
    kv)
        bench kv qwen3-4b --no-checks --prefill-chunk 2048 --rows 1 --prompt-tokens 32768 --output-tokens 64 --turns 2
        bench kv qwen3-4b --no-checks --prefill-chunk 2048 --rows 8 --prompt-tokens 4096 --output-tokens 64 --turns 2
        ;;
    *) echo "$1 is none of: $PARTS" >&2 && return 2 ;;
    esac
}

# The server and the engine alone, by turns: this many streams.
served() {
    local url=http://127.0.0.1:$PORT load="--streams $1 --seconds 10 --windows 2"
    server=
    trap 'kill $server 2> /dev/null || :' EXIT
    [ -d "$FOLDER" ] || "$PYTHON" -m tests.synthetic hybrid "$FOLDER" --layers 32 --hidden 2560 --intermediate 9216 \
        --vocab 248320 --heads 16 --kv-heads 4 --head-dim 256 --no-tied --state-key-heads 16 --state-value-heads 32 \
        --state-head-dim 128 --no-mtp --dtype bfloat16
    for turn in 1 2; do
        "$PYTHON" -m paceline serve "$FOLDER" --port "$PORT" --speculation off > "$OUT/server-$turn.log" 2>&1 &
        server=$!
        until curl -sf "$url/ready" > /dev/null; do
            kill -0 $server
            sleep 0.5
        done
        "$PYTHON" -m paceline bench traffic --url "$url" $load
        kill $server && wait $server
        "$PYTHON" -m paceline bench traffic "$FOLDER" $load
    done
}

OUT=${1:?a folder for the figures}
shift
mkdir -p "$OUT"
failed=0
for name in ${*:-$PARTS}; do
    began=$SECONDS
    (set -e; part "$name") > "$OUT/$name.txt" 2>&1
    code=$?
    [ $code = 0 ] || failed=1
    echo "$name: exit $code after $((SECONDS - began)) s" | tee -a "$OUT/times.txt"
done
exit $failed
