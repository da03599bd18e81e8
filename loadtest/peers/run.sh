#!/usr/bin/env bash
# Runs the peer benchmark with Tenure among the peers, on loopback only.
#   PEERS=/path/to/bench/peers loadtest/peers/run.sh
#   SERVERS="tenure bare-tasks" PLAYERS="1000" ROUNDS=5 PEERS=… loadtest/peers/run.sh
# Copies the peers' folder, adds the adapter of this folder and the start command, and calls the peers' own run.sh.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
PEERS="${PEERS:-}"
[ -n "$PEERS" ] && [ -f "$PEERS/run.sh" ] || { echo "PEERS=$PEERS has no run.sh; set PEERS to the folder of the peer benchmark" >&2; exit 2; }
work="${WORK:-${TMPDIR:-/tmp}/tenure-peers}"
mkdir -p "$work"
cp -r --no-preserve=mode "$PEERS/." "$work/"
chmod +x "$work/run.sh"
cp "$here/tenure.rs" "$work/rust/load/src/tenure.rs"
python3 - "$work" "$root" <<'PY'
import sys
work, root = sys.argv[1:]
def edit(path, old, new):
    text = open(path).read()
    if new in text:
        return
    assert old in text, f"{path}: the place to add Tenure is gone"
    open(path, "w").write(text.replace(old, new, 1))
edit(f"{work}/rust/load/src/main.rs", "mod report;", "mod report;\nmod tenure;")
edit(f"{work}/rust/load/src/main.rs", '"colyseus" => run::<Colyseus>(&server).await,',
     '"colyseus" => run::<Colyseus>(&server).await,\n            "tenure" => run::<tenure::Tenure>(&server).await,')
edit(f"{work}/run.sh", '    *) echo "unknown server',
     '    tenure)     ADAPTER=tenure; PORT=7006; CMD=("$TENURE") ;;\n    *) echo "unknown server')
PY
target="${CARGO_TARGET_DIR:-$root/target}"
[ -n "${NOBUILD:-}" ] || (cd "$root" && cargo build --release -p tenure --example bench_room)
# The peers are measured by the pid of the start command, so the wrapper becomes the server; each run has a data folder of its own.
rm -rf "$work/data"
mkdir -p "$work/data"
cat >"$work/tenure.sh" <<SH
#!/usr/bin/env bash
set -euo pipefail
data="\$(mktemp -d "$work/data/XXXXXX")"
exec "$target/release/examples/bench_room" serve --ready-file "\$data/ready" --set "store.path=\$data/store" \\
  --set log.filter=warn --set gateway.listen=127.0.0.1:7006 --set admin.listen=127.0.0.1:0 --set gateway.count_loopback=false
SH
chmod +x "$work/tenure.sh"
export TENURE="$work/tenure.sh"
export CARGO_TARGET_DIR="${PEERS_TARGET:-/tmp/peers-target}"
export SERVERS="${SERVERS:-tenure bare-raw bare-tasks ws colyseus}"
cd "$work" && exec ./run.sh "$@"
