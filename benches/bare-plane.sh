#!/usr/bin/env bash
# The same four processes with the same flags and nothing else: what `plane up` is measured against.
#
# Usage: bare-plane.sh DIR
# DIR holds one file of arguments per component, one per line (ETCD, APISERVER, KCM, SCHEDULER),
# and `ca`, `cert`, `key`, `etcd-url`, `api-url`. Certificates are there already.
set -euo pipefail
cd "$1"

pids=()
start() {
    local args
    mapfile -t args <"$1"
    "${args[@]}" >"$1.log" 2>&1 &
    pids+=($!)
}
until_ok() {
    until curl --silent --fail --noproxy '*' --output /dev/null "$@"; do sleep 0.1; done
}
api() {
    until_ok --cacert ca --cert cert --key key "$(<api-url)$1"
}

start ETCD
until_ok "$(<etcd-url)/health"
start APISERVER
api /readyz
api /api/v1/namespaces/default
start KCM
start SCHEDULER
api /api/v1/namespaces/default/serviceaccounts/default
echo ready

# Stopping is not measured.
kill -KILL "${pids[@]}"
wait "${pids[@]}" 2>/dev/null || true
