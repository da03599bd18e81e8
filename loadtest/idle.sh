#!/usr/bin/env bash
# What rooms and players cost: memory per player, per loaded and per dormant room, and the CPU of a server with 1,000 dormant rooms.
# `idle.sh FOLDER_OF_BINARIES`; loopback only, about two minutes.
set -euo pipefail
bin=$1
rooms="${ROOMS:-1000}" seconds="${SECONDS_IDLE:-30}"
work=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || { kill -KILL "$server" && wait "$server"; } 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
rss() { awk '/^VmRSS/ {print $2}' "/proc/$server/status"; }
# User and system time of all threads, in ticks of 10 ms.
cpu() { awk '{sub(/.*\) /, ""); print $12 + $13}' "/proc/$server/stat"; }
count() { "$bin/demo" --ready-file "$work/ready.json" status --json | python3 -c "import json,sys; print(json.load(sys.stdin)['counts']['$1'])"; }

start() {
  rm -f "$work/ready.json"
  "$bin/demo" --ready-file "$work/ready.json" --set gateway.listen=127.0.0.1:0 --set admin.listen=127.0.0.1:0 \
    --set store.path="$work/data" --set room.idle_after=2s --set room.reconnect_grace=1s --set log.filter=warn >"$work/server.log" 2>&1 &
  server=$!
  for _ in $(seq 300); do [ -e "$work/ready.json" ] && break; sleep 0.1; done
}
idle() {
  local before after
  before=$(cpu)
  sleep "$seconds"
  after=$(cpu)
  echo "$1: $(((after - before) * 10)) ms of CPU in $seconds s"
}

start
empty=$(rss)
echo "empty server: $empty KiB"
idle "empty server"

# One player in each of many rooms; the figures are read while they play.
"$bin/loadtest" --ready-file "$work/ready.json" --players "$rooms" --rooms "$rooms" --duration 15s --input-rate 1 >"$work/load.log" 2>&1 &
load=$!
for _ in $(seq 120); do [ "$(count seats)" -ge "$rooms" ] && break; sleep 0.5; done
loaded=$(rss)
echo "with $rooms rooms of one player each: $loaded KiB, $(((loaded - empty) * 1024 / rooms)) bytes per room with its player"
wait "$load" || true

for _ in $(seq 240); do [ "$(count rooms)" -eq 0 ] && break; sleep 0.5; done
echo "dormant rooms: $(count dormant)"
idle "server with $rooms dormant rooms"
kill -TERM "$server"
wait "$server"
start
dormant=$(rss)
echo "started anew with $(count dormant) dormant rooms: $dormant KiB, $(((dormant - empty) * 1024 / rooms)) bytes per dormant room"

# Players alone: all in few rooms.
"$bin/loadtest" --ready-file "$work/ready.json" --players 1000 --rooms 20 --duration 15s --input-rate 1 >"$work/load.log" 2>&1 &
load=$!
for _ in $(seq 120); do [ "$(count seats)" -ge 1000 ] && break; sleep 0.5; done
players=$(rss)
echo "with 1000 players in 20 rooms: $players KiB, $(((players - dormant) * 1024 / 1000)) bytes per connected player, rooms included"
wait "$load" || true
