//! Golden bytes: `golden.json` holds every message of both sides, views with their hash, and bytes to be refused.
//! TypeScript tests read the same file. `GOLDEN=write cargo test -p tenure-shared --test golden` writes it anew.
//!
//! `value` is the decoded message: bytes stand as `{"bin": "hex"}`, integers beyond 2^53 - 1 as `{"int": "…"}`,
//! maps as `{"map": [[key, value], …]}`. `state` is `[[entity, [[component, value], …]], …]`.

#![allow(clippy::expect_used, reason = "a test ends where its data is not what it should be")]

#[path = "golden/cases.rs"]
mod cases;
#[path = "golden/json.rs"]
mod json;

use std::{collections::BTreeSet, fs, path::PathBuf, sync::OnceLock};

use serde_json::{Value, json};
use tenure_shared::{
    delta::View,
    msgpack::Bounds,
    wire::{ClientMessages, ServerMessages},
};

use cases::{client_messages, refused, server_messages, views};
use json::{from_hex, to_hex, to_json};

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden.json")
}

fn values(map: &std::collections::BTreeMap<u16, Vec<u8>>) -> Value {
    map.iter().map(|(number, value)| json!([number, to_json(value)])).collect()
}

fn state(view: &View) -> (Value, Value) {
    let entities = view.entities().iter().map(|(entity, components)| json!([entity, values(components)])).collect();
    (entities, values(view.resources()))
}

/// The whole file as the code would write it, one case a line.
fn written() -> String {
    let message = |name: &str, from: &str, bytes: &[u8]| json!({ "name": name, "from": from, "hex": to_hex(bytes), "value": to_json(bytes) });
    let messages = client_messages()
        .iter()
        .map(|(name, m)| message(name, "client", &encoded(|out| m.encode(out))))
        .chain(server_messages().iter().map(|(name, m)| message(name, "server", &encoded(|out| m.encode(out)))))
        .collect::<Vec<_>>();
    let views = views().into_iter().map(|(name, steps)| {
        let mut view = View::default();
        steps.iter().for_each(|ops| view.apply(ops).expect("valid operations"));
        let (entities, resources) = state(&view);
        let steps = steps.iter().map(|ops| to_hex(ops)).collect::<Vec<_>>();
        let hash = format!("{:016x}", view.hash());
        json!({ "name": name, "steps": steps, "state": entities, "resources": resources, "hash": hash })
    });
    let refused = refused().into_iter().map(|(name, bytes)| json!({ "name": name, "hex": to_hex(&bytes) }));
    let lists = [("messages", messages), ("views", views.collect()), ("refused", refused.collect())];
    let lists = lists.map(|(name, list)| {
        let lines = list.iter().map(Value::to_string).collect::<Vec<_>>().join(",\n    ");
        format!("  \"{name}\": [\n    {lines}\n  ]")
    });
    format!("{{\n{}\n}}\n", lists.join(",\n"))
}

fn encoded(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// The file, written anew before the first test reads it if so wanted.
fn file() -> &'static Value {
    static FILE: OnceLock<Value> = OnceLock::new();
    FILE.get_or_init(|| {
        if std::env::var_os("GOLDEN").is_some_and(|word| word == "write") {
            fs::write(path(), written()).expect("golden.json can be written");
        }
        serde_json::from_str(&fs::read_to_string(path()).expect("golden.json")).expect("JSON")
    })
}

fn list(file: &Value, name: &str) -> Vec<Value> {
    file[name].as_array().expect("a list").clone()
}

fn hex_of(case: &Value) -> Vec<u8> {
    from_hex(case["hex"].as_str().expect("hex"))
}

#[test]
fn the_file_is_what_the_code_writes() {
    let expected: Value = serde_json::from_str(&written()).expect("JSON");
    let file = file();
    for name in ["messages", "views", "refused"] {
        let (there, here) = (list(file, name), list(&expected, name));
        for (there, here) in there.iter().zip(&here) {
            assert_eq!(there, here, "{name}: the wire changed (a change is a new protocol version)");
        }
        assert_eq!(there.len(), here.len(), "{name}");
    }
}

#[test]
fn every_message_of_the_file_is_read_and_written_back() {
    let mut kinds = [BTreeSet::new(), BTreeSet::new()];
    for case in list(file(), "messages") {
        let bytes = hex_of(&case);
        let mut again = Vec::new();
        let server = case["from"] == "server";
        if server {
            ServerMessages::new(&bytes, &Bounds::SERVER).for_each(|m| m.expect("readable").encode(&mut again));
        } else {
            ClientMessages::new(&bytes, &Bounds::CLIENT).for_each(|m| m.expect("readable").encode(&mut again));
        }
        assert_eq!(again, bytes, "{}", case["name"]);
        assert_eq!(to_json(&bytes), case["value"], "{}", case["name"]);
        kinds[usize::from(server)].insert(case["value"][0].as_u64().expect("kind"));
    }
    assert_eq!(kinds, [(1..=13).collect(), (1..=18).collect()], "a kind has no golden bytes");
}

#[test]
fn every_view_of_the_file_has_its_state_and_hash() {
    for case in list(file(), "views") {
        let mut view = View::default();
        for ops in case["steps"].as_array().expect("steps") {
            view.apply(&from_hex(ops.as_str().expect("hex"))).expect("valid operations");
        }
        assert_eq!(json!(state(&view)), json!([case["state"], case["resources"]]), "{}", case["name"]);
        assert_eq!(format!("{:016x}", view.hash()), case["hash"].as_str().expect("hash"));
    }
}

#[test]
fn what_must_be_refused_is_refused_by_both_sides() {
    for case in list(file(), "refused") {
        let bytes = hex_of(&case);
        assert!(ClientMessages::new(&bytes, &Bounds::CLIENT).any(|m| m.is_err()), "{}", case["name"]);
        assert!(ServerMessages::new(&bytes, &Bounds::SERVER).any(|m| m.is_err()), "{}", case["name"]);
    }
}
