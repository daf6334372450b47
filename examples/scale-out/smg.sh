#!/bin/sh
# SMG, the gateway of the SGLang project, before the replicas of replicas.sh: requests go where their prefix is cached.
# Install it into an environment of its own: python3 -m venv smg && smg/bin/pip install smg==1.13.0
#
#   ./smg.sh                                          on port 3000
#   REPLICAS="http://a:8000 http://b:8000" HOST=0.0.0.0 ./smg.sh
#   KEYS="sk-router sk-ann sk-bob" ./smg.sh           replicas that have these keys
set -eu

SMG=${SMG:-smg}
HOST=${HOST:-127.0.0.1}
PORT=${PORT:-3000}
METRICS_PORT=${METRICS_PORT:-29000}
REPLICAS=${REPLICAS:-"http://127.0.0.1:8001 http://127.0.0.1:8002 http://127.0.0.1:8003"}

# SMG shows the first key to the replicas when it asks for itself, and takes all of them from clients. Other users of
# this machine see them in the process list.
keys=
for key in ${KEYS:-}; do
    if [ -z "$keys" ]; then keys="--api-key $key"; else keys="$keys --tenant-api-key ${key#sk-}:$key"; fi
done

# /ready, not /health: /health also answers while a replica loads or drains.
# The interval and thresholds: a replica that is gone gets no requests after about four seconds.
# Sticky sessions: requests with X-Conversation-Id stay with their replica, which stored responses need.
# No history: the replicas store responses, and the router must not answer for them.
exec $SMG launch --host "$HOST" --port "$PORT" --prometheus-port "$METRICS_PORT" \
    --worker-urls $REPLICAS \
    --policy cache_aware \
    --health-check-endpoint /ready \
    --health-check-interval-secs 2 --health-failure-threshold 2 --health-success-threshold 1 \
    --load-monitor-interval 2 \
    --sticky-sessions --routing-key-headers X-Conversation-Id \
    --history-backend none \
    $keys \
    --log-level "${LOG_LEVEL:-warn}"
