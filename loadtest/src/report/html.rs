//! The page of a run: one file, charts inline.

use std::fmt::Write as _;

use serde_json::Value;

use super::svg::{Line, chart};

const STYLE: &str =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:780px;margin:2em auto;padding:0 1em;color:#1f2937}
h1{font-size:1.5em}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.25em .6em;border-bottom:1px solid #e5e7eb}td+td{font-variant-numeric:tabular-nums}
figure{margin:1em 0}figcaption{font-weight:600}figcaption b{margin-left:.7em;font-weight:500}svg{width:100%}
svg line{stroke:#e5e7eb}svg text{font-size:11px;fill:#6b7280}polyline{fill:none;stroke-width:1.6}
.PASS{color:#059669}.FAIL{color:#dc2626}.INVALID{color:#d97706}";

/// The page for these figures.
pub(super) fn page(figures: &Value) -> String {
    let seconds = figures["seconds"].as_array().map(Vec::as_slice).unwrap_or_default();
    let line = |name, key: &str| Line {
        name,
        points: seconds.iter().filter_map(|s| Some((s["at"].as_f64()?, s[key].as_f64()?))).collect(),
    };
    let result = text(&figures["result"]);
    let scenario = text(&figures["scenario"]);
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Load test: {scenario}</title><style>{STYLE}</style>\
         <h1>Load test: {scenario} <span class=\"{result}\">{result}</span></h1>\n"
    );
    let intro = ["players", "rooms", "threads", "window_s", "joined_in_s"];
    table(&mut out, "Run", intro.iter().map(|key| (key.replace('_', " "), text(&figures[*key]))));
    list(&mut out, "Why the figures mean nothing", &figures["invalid"]);
    let checks = figures["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows = checks.iter().map(|check| {
        let word = if check["holds"] == true { "holds" } else { "FAILED" };
        (text(&check["name"]), format!("{} ({}): {word}", text(&check["found"]), text(&check["bound"])))
    });
    table(&mut out, "Bounds", rows);
    out += &chart("Input to visible", "ms", &[line("p50", "p50_ms"), line("p99", "p99_ms")]);
    out += &chart("Frames", "/s", &[line("frames", "frames"), line("inputs", "inputs")]);
    out += &chart("Bots in a room", "", &[line("playing", "playing"), line("lost", "drops")]);
    out += &chart("Traffic", "MB/s", &[line("received", "megabytes")]);
    out += &chart("Server CPU", "cores", &[line("cores", "server_cpu")]);
    out += &chart("Server memory", "MiB", &[line("resident", "server_rss_mib")]);
    for (title, key) in [
        ("Input to visible, ms", "latency_ms"),
        ("Tick lateness, ms", "tick_lateness_ms"),
        ("Join, ms", "join_ms"),
        ("Back after a drop, ms", "resume_ms"),
        ("The bots' own lag, ms", "own_lag_ms"),
        ("Lost connections by cause", "drops"),
        ("Failures of this machine", "own_failures"),
        ("Refusals by code", "refusals"),
        ("Counted while measuring", "window"),
        ("More", "more"),
    ] {
        let rows = figures[key].as_object().into_iter().flatten();
        // What stands in a table of its own is not told twice.
        let plain = rows.filter(|(name, _)| *name != "plot" || figures["more"]["plot"]["timeline"].is_null());
        table(&mut out, title, plain.map(|(name, value)| (escape(name), text(value))));
    }
    let plot = figures["more"]["plot"].as_object().into_iter().flatten().filter(|(name, _)| *name != "timeline");
    table(&mut out, "What was done, and what it took", plot.map(|(name, value)| (escape(name), text(value))));
    moves(&mut out, &figures["more"]["plot"]["timeline"]);
    out + "</html>\n"
}

/// Changes of owners, where a run saw any: how long each took over time, and one line for each.
fn moves(out: &mut String, timeline: &Value) {
    let Some(rows) = timeline.as_array().filter(|rows| !rows.is_empty()) else { return };
    let points = |kind: &str| -> Vec<(f64, f64)> {
        let of = rows.iter().filter(|row| row["kind"] == kind);
        of.filter_map(|row| Some((row["at_s"].as_f64()?, row["pause_max_ms"].as_f64()?))).collect()
    };
    let lines = ["planned", "disturbed", "takeover"].map(|name| Line { name, points: points(name) });
    *out += &chart("Pause of each move beyond a tick, worst bot of the room", "ms", &lines);
    let row = |row: &Value| {
        let what = ["at_s", "room", "shard"].map(|key| text(&row[key]));
        let [at, room, shard] = what;
        let [from, to, kind] = ["from", "to", "kind"].map(|key| text(&row[key]));
        let [p50, max, seen] = ["pause_p50_ms", "pause_max_ms", "seen_by"].map(|key| text(&row[key]));
        (
            format!("{at} s"),
            format!("{room} (shard {shard}): {from} to {to}, {kind}; p50 {p50} ms, max {max} ms, seen by {seen}"),
        )
    };
    table(out, "Moves", rows.iter().map(row));
}

fn table(out: &mut String, title: &str, rows: impl Iterator<Item = (String, String)>) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    // Writing to a String cannot fail.
    let _infallible = write!(out, "<h2>{title}</h2><table>");
    for (name, value) in rows {
        let _infallible = write!(out, "<tr><td>{name}</td><td>{value}</td></tr>");
    }
    *out += "</table>\n";
}

fn list(out: &mut String, title: &str, items: &Value) {
    let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
    table(out, title, items.iter().map(|item| ("!".to_owned(), text(item))));
}

/// A value as text that is safe in HTML: some of it came from the server.
fn text(value: &Value) -> String {
    let plain = match value {
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => format!("{:.3}", n.as_f64().unwrap_or_default()),
        other => other.to_string(),
    };
    escape(&plain)
}

fn escape(plain: &str) -> String {
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_page_shows_the_figures_and_escapes_what_servers_said() {
        let page = page(&json!({
            "scenario": "play", "result": "FAIL", "players": 7,
            "checks": [{"name": "p99", "found": "9 ms", "bound": "at most 5 ms", "holds": false}],
            "drops": {"<script>": 3},
            "more": {"plot": {"replaced": 3, "timeline": [
                {"at_s": 2.5, "room": "load-7", "shard": 9, "from": "node-1", "to": "<b>", "kind": "planned", "pause_p50_ms": 3.0,
                 "pause_max_ms": 44.0, "seen_by": 4}]}},
            "seconds": [{"at": 1.0, "p50_ms": 20.0, "p99_ms": 40.0}],
        }));
        assert!(page.contains("class=\"FAIL\"") && page.contains("9 ms (at most 5 ms): FAILED"));
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"));
        assert!(page.contains("<polyline"));
        assert!(page.contains("load-7 (shard 9): node-1 to &lt;b&gt;, planned") && page.contains("Pause of each move"));
    }
}
