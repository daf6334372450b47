#!/bin/sh
# Starts replicas of one model on this machine, waits until all are ready, and stops them with Ctrl-C.
#
#   ./replicas.sh                              three replicas of paceline-mini on ports 8001 to 8003
#   MODEL=folder PORTS="8001 8002" ./replicas.sh
#
# On ten machines: run one `paceline serve` on each, with --host, the same --api-key-file and the same
# --served-model-name, and list their addresses in smg.sh, haproxy.cfg or litellm.yaml.
set -eu

MODEL=${MODEL:-paceline-mini}
PORTS=${PORTS:-"8001 8002 8003"}
PACELINE=${PACELINE:-paceline}
FLAGS=${FLAGS:-}

pids=
stop() {
    trap - INT TERM EXIT
    # SIGTERM drains: streams go on to their end, for as long as --drain-seconds says.
    [ -z "$pids" ] || kill $pids 2>/dev/null || true
    wait
}
trap 'stop; exit 0' INT TERM
trap stop EXIT

for port in $PORTS; do
    $PACELINE serve "$MODEL" --port "$port" --log-level warning $FLAGS &
    pids="$pids $!"
done
for port in $PORTS; do
    until curl -fs -o /dev/null "http://127.0.0.1:$port/ready"; do
        for pid in $pids; do
            kill -0 "$pid" 2>/dev/null || { echo "a replica has ended" >&2; exit 1; }
        done
        sleep 0.5
    done
    echo "ready: http://127.0.0.1:$port"
done
wait
