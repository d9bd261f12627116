#!/usr/bin/env bash
# The same four processes with the same flags and nothing else: what `plane up` is measured against.
#
# Usage: bare-plane.sh DIR
# DIR holds one file of arguments per component, one per line (ETCD, APISERVER, KCM, SCHEDULER),
# and `ca`, `cert`, `key`, `etcd-url`, `api-url`. Certificates are there already.
set -euo pipefail
cd "$1"

# Seconds for everything.
deadline=60

names=()
pids=()
end() {
    kill -KILL "${pids[@]}" 2>/dev/null || true
    wait "${pids[@]}" 2>/dev/null || true
}
trap end EXIT
fail() {
    echo "bare-plane.sh: $1" >&2
    exit 1
}
start() {
    local args
    mapfile -t args <"$1"
    "${args[@]}" >"$1.log" 2>&1 &
    names+=("$1")
    pids+=($!)
}
until_ok() {
    local index
    until curl --silent --fail --max-time 5 --noproxy '*' --output /dev/null "$@"; do
        for index in "${!pids[@]}"; do
            kill -0 "${pids[index]}" 2>/dev/null || fail "${names[index]} has ended; its log is $PWD/${names[index]}.log"
        done
        ((SECONDS < deadline)) || fail "no answer from ${*: -1} within $deadline s; the log is $PWD/${names[-1]}.log"
        sleep 0.1
    done
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
# Stopping is not measured.
echo ready
