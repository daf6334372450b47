#!/bin/bash
# The whole of an edition on one machine with a GPU: data, the model, its draft, both exported.
#
#   training/run.sh start SOURCE [SECONDS [DRAFT_SECONDS]]   begins in the background; SOURCE has raw.tar.xz and tokenizer/
#   training/run.sh fetch SECONDS FOLDER                     waits until it is done, at most so long; copies what there is
#
# What there is, is worth having at any time: the model is exported every two minutes, with its curve of losses. Where a
# machine can be taken away between two commands, start and fetch are one command.
# START is the exported model to begin with, or SOURCE has it as start.tar.xz: one that was fetched goes on from there, with
# PLAN's last phase alone (TRAIN="--phases 1"). Data that is made already is used again. With PLAN=training/plan_text.json set SCALE_TEXT=1: all
# of the text is there from the start, SOURCE's part*.tar.xz too.
set -u
WORK=${WORK:-scratch/run}
PYTHON=${PYTHON:-python3}
export PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=true PYTHONPATH=$PWD
SHIPPED=paceline/models/embedded
STAGES="chat pics text long4k long16k pics_wide pics_tall pics_flat pics_slim"

work() {
    local source=$1 seconds=$2 draft=$3
    local data=$WORK/data begun=$SECONDS
    mkdir -p "$data/b" && cp -r "$source/tokenizer" "$data/"
    [ -e "$data/made" ] || (
        first=$STAGES
        if [ -n "${SCALE_TEXT-}" ]; then
            $PYTHON -m training.data --source "$source" --out "$data" --seed 71 --scale "$SCALE_TEXT" --stage text --split train
            first=${STAGES/ text/}
        fi
        $PYTHON -m training.data --source "$source" --out "$data" --seed 71 --scale "${SCALE_A:-0.25}" --stage $first --split train
        nice $PYTHON -m training.data --source "$source" --out "$data/b" --seed 72 --scale "${SCALE_B:-2.2}" \
            --stage $STAGES --split train --workers "${WORKERS_B:-14}"
        [ -z "${HELD-held}" ] ||
            nice $PYTHON -m training.data --source "$source" --out "$data" --seed 73 --stage $STAGES --split held --workers 4
        touch "$data/made"
    ) > "$WORK/data.log" 2>&1 &
    local maker=$!
    $PYTHON -m training.train --data "$data" --plan "${PLAN:-training/plan.json}" --start "$START" \
        --save "$WORK/checkpoint/mini" --export "$WORK/mini" --every 120 --curve "$WORK/curve.json" \
        --seconds "$((seconds - (SECONDS - begun)))" --held "${HELD-held_chat,held_pics,held_long4k}" ${TRAIN:-} > "$WORK/mini.log" 2>&1
    if [ "$draft" -gt 0 ]; then
        $PYTHON -m training.train --name paceline-mini-draft --data "$data" --plan "${PLAN_DRAFT:-training/plan_draft.json}" \
            --start $SHIPPED/paceline-mini-draft --save "$WORK/checkpoint/draft" --export "$WORK/draft" \
            --curve "$WORK/curve_draft.json" --seconds "$draft" ${TRAIN_DRAFT:-} > "$WORK/draft.log" 2>&1
    fi
    kill $maker 2> /dev/null
    touch "$WORK/done"
}

fetch() {
    local seconds=$1 folder=$2 begun=$SECONDS
    while [ ! -e "$WORK/done" ] && [ $((SECONDS - begun)) -lt "$seconds" ]; do sleep 2; done
    for one in mini draft; do # parts of at most 15 MiB
        [ -d "$WORK/$one" ] && tar c -C "$WORK" $one | split -b 15m - "$folder/$one.tar."
    done
    tail -qn 400 "$WORK"/*.log > "$folder/log.txt"
    cp "$WORK"/curve*.json "$folder/" 2> /dev/null
    tail -qn 3 "$WORK"/*.log
    ls -l "$folder"
    if [ -e "$WORK/done" ]; then
        echo "done"
    else
        kill -0 "$(cat "$WORK/pid")" && echo "still at work: fetch again at once"
    fi
}

case $1 in
start)
    mkdir -p "$WORK"
    rm -f "$WORK/done"
    export START=${START:-$SHIPPED/paceline-mini}
    if [ -e "$2/start.tar.xz" ]; then
        START=$WORK/start
        mkdir -p "$START" && tar xJf "$2/start.tar.xz" -C "$START" --strip-components 1
    fi
    ls "$START"/*.safetensors > /dev/null || exit 1 # nothing to begin with
    setsid nohup "$0" work "$2" "${3:-870}" "${4:-0}" > "$WORK/work.log" 2>&1 &
    echo $! > "$WORK/pid"
    ;;
work) work "$2" "$3" "$4" ;;
fetch) fetch "$2" "$3" ;;
esac
