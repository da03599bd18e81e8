//! Configuration: each mistake is refused with its place, what was found, what was expected and the nearest valid key
//! (docs/invariants.md C24).
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use tenure::config::{Config, DEFAULTS, Diagnostic, Sources};

/// Loads one file and gives its mistakes.
fn mistakes(text: &str) -> Vec<Diagnostic> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("test.toml");
    std::fs::write(&path, text).expect("written");
    let sources = Sources { file: Some(path), ..Sources::default() };
    Config::load(&sources).expect_err("the file has mistakes").0
}

fn with_set(set: &[&str]) -> Result<Config, Vec<Diagnostic>> {
    let set = set.iter().map(|flag| (*flag).to_owned()).collect();
    Config::load(&Sources { set, ..Sources::default() }).map_err(|errors| errors.0)
}

fn with_variables(variables: &[(&str, &str)]) -> Result<Config, Vec<Diagnostic>> {
    let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Config::load(&Sources { environment, ..Sources::default() }).map_err(|errors| errors.0)
}

#[test]
fn all_mistakes_of_a_file_come_at_once() {
    let found = mistakes(
        "[gateway]\nlissten = \"127.0.0.1:0\"\nmessages_per_second = \"60\"\n\n[lease]\nttl = \"3 seconds\"\nheartbeat = \"-1s\"\n\n\
         [rooms]\ntick_rate = 20\n[room]\nidle_after = \"0s\"\nttl = \"3s\"\n[leese]\n",
    );
    let short: Vec<(usize, &str, Option<&str>)> =
        found.iter().map(|m| (m.line, m.key.as_str(), m.hint.as_deref())).collect();
    let expected = [
        (2, "gateway.lissten", Some("gateway.listen")),
        (13, "room.ttl", Some("lease.ttl")),
        (10, "rooms.tick_rate", Some("room.tick_rate")),
        (14, "leese", Some("lease")),
        (3, "gateway.messages_per_second", None),
        (6, "lease.ttl", None),
        (7, "lease.heartbeat", None),
        (12, "room.idle_after", None),
    ];
    for row in expected {
        assert!(short.contains(&row), "{row:?} is missing in {short:#?}");
    }
    assert_eq!(short.len(), expected.len(), "{short:#?}");
    let line = found.iter().find(|m| m.key == "lease.ttl").expect("there").to_string();
    assert!(line.contains("test.toml:6: lease.ttl: found \"3 seconds\"; expected a duration like"), "{line}");
}

#[test]
fn a_store_of_another_kind_is_refused_with_those_there_are() {
    for good in ["embedded", "redis://10.0.0.1:6379/0", "redis+sentinel://a:1,b:2/main", "redis+cluster://a:1,b:2"] {
        with_set(&[&format!("store.url={good}")]).expect(good);
    }
    for bad in ["postgres://db/1", "redis:/x", "redis://", "redis+sentinel:///main", "rediss://a:1", "Embedded", "file"]
    {
        let found = with_set(&[&format!("store.url={bad}")]).expect_err(bad);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].key, "store.url");
        for allowed in ["embedded", "redis://", "redis+sentinel://", "redis+cluster://"] {
            assert!(found[0].expected.contains(allowed), "{}", found[0]);
        }
    }
}

#[test]
fn text_that_is_no_toml_is_refused_with_its_lines() {
    let found = mistakes("[gateway\nlisten = \"127.0.0.1:0\"\n[room]\ntick_rate = = 3\n");
    assert!(found.iter().any(|m| m.line == 1) && found.iter().any(|m| m.line == 4), "{found:#?}");
    let twice = mistakes("[room]\ntick_rate = 10\ntick_rate = 20\n");
    assert_eq!(twice.iter().map(|m| m.line).collect::<Vec<_>>(), [3], "{twice:#?}");
}

#[test]
fn a_section_that_is_a_value_and_a_value_that_is_a_section_are_refused() {
    assert_eq!(mistakes("room = 3\n")[0].key, "room");
    let found = mistakes("[room.tick_rate]\nhz = 20\n");
    assert_eq!((found[0].line, found[0].key.as_str()), (2, "room.tick_rate.hz"));
    let empty = mistakes("[room.tick_rate]\n");
    assert_eq!((empty[0].line, empty[0].key.as_str()), (1, "room.tick_rate"));
    assert_eq!(mistakes("[[room]]\ntick_rate = 20\n")[0].key, "room");
}

#[test]
fn a_missing_file_is_said_by_name() {
    let sources = Sources { file: Some(PathBuf::from("/nowhere/tenure.toml")), ..Sources::default() };
    let errors = Config::load(&sources).expect_err("no such file");
    assert!(errors.to_string().starts_with("/nowhere/tenure.toml: found "), "{errors}");
}

#[test]
fn variables_and_flags_are_named_instead_of_lines() {
    let found = with_variables(&[("TENURE_GATEWAY__LISTN", "x"), ("TENURE_LEASE__TTL", "soon")]).expect_err("wrong");
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    let one = lines.iter().find(|l| l.contains("gateway.listn: found an unknown key")).expect("there");
    assert!(one.starts_with("environment variable TENURE_GATEWAY__LISTN: "), "{one}");
    assert!(one.ends_with("did you mean `gateway.listen`?"), "{one}");
    let start = "environment variable TENURE_LEASE__TTL: lease.ttl: found \"soon\"";
    assert!(lines.iter().any(|l| l.starts_with(start)), "{lines:#?}");

    let found = with_set(&["gateway.lsten=1", "room.tick_rate", "room.tick_rate=0"]).expect_err("wrong");
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(lines.iter().any(|l| l == "--set: found \"room.tick_rate\"; expected section.key=value"), "{lines:#?}");
    assert!(lines.iter().any(|l| l.starts_with("--set gateway.lsten:") && l.contains("gateway.listen")), "{lines:#?}");
    assert!(lines.iter().any(|l| l.starts_with("--set room.tick_rate:") && l.contains("from 1 to 120")), "{lines:#?}");
}

#[test]
fn variables_that_kubernetes_makes_for_a_service_are_not_ours() {
    let loaded = with_variables(&[
        ("TENURE_PORT", "tcp://10.0.0.1:7777"),
        ("TENURE_SERVICE_HOST", "10.0.0.1"),
        ("TENURE_PORT_7777_TCP_ADDR", "10.0.0.1"),
    ]);
    assert_eq!(loaded.expect("no mistake"), Config::default());
}

#[test]
fn a_value_that_a_higher_layer_overrides_is_checked_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("c.toml");
    std::fs::write(&path, "[room]\ntick_rate = 100000\n").expect("written");
    let set = vec!["room.tick_rate=30".to_owned()];
    let errors = Config::load(&Sources { file: Some(path), set, ..Sources::default() }).expect_err("wrong");
    assert_eq!(errors.0.len(), 1);
    assert_eq!(errors.0[0].line, 2);
}

#[test]
fn each_relation_is_refused_at_the_key_that_broke_it() {
    let cases = [
        ("lease.heartbeat=2500ms", "lease.heartbeat"),
        ("lease.ttl=1s", "lease.ttl"),
        ("lease.margin=4s", "lease.margin"),
        ("lease.call_deadline=600ms", "lease.call_deadline"),
        ("lease.heartbeat=1500ms", "lease.heartbeat"),
        ("gateway.ping_every=25s", "gateway.ping_every"),
        ("gateway.idle_timeout=10s", "gateway.idle_timeout"),
        ("gateway.resync_after=10s", "gateway.resync_after"),
        ("gateway.login_message=8KiB", "gateway.login_message"),
        ("gateway.messages_burst=10", "gateway.messages_burst"),
        ("gateway.bytes_per_second=2KiB", "gateway.bytes_per_second"),
        ("gateway.guests=never", "gateway.guests"),
        ("gateway.listen=0.0.0.0:7777", "gateway.listen"),
        ("gateway.listen=127.0.0.1:7778", "gateway.listen"),
        ("room.checkpoint_every=15s", "room.checkpoint_every"),
        ("room.max_checkpoint=128KiB", "room.max_checkpoint"),
        ("room.inputs_per_tick=1000", "room.inputs_per_tick"),
        ("rewards.catch_up_max_age=45d", "rewards.catch_up_max_age"),
        ("ledger.keep_identities=30d", "ledger.keep_identities"),
        ("handoff.step_deadline=2501ms", "handoff.step_deadline"),
        ("handoff.prepare_ttl=3999ms", "handoff.prepare_ttl"),
        ("link.listen=192.0.2.1:7779", "link.listen"),
        ("link.listen=0.0.0.0:7779", "link.listen"),
        ("link.advertise=0.0.0.0:7779", "link.advertise"),
        ("link.advertise=[::]:7779", "link.advertise"),
        ("link.advertise=node-1:0", "link.advertise"),
        ("link.advertise=node-1", "link.advertise"),
        ("link.ping_every=3s", "link.ping_every"),
        ("admin.listen=[::]:7778", "admin.listen"),
    ];
    for (flag, key) in cases {
        let found = with_set(&[flag]).expect_err(flag);
        assert!(found.iter().any(|m| m.key == key), "{flag}: {found:#?}");
        assert!(found.iter().all(|m| m.file.starts_with("--set")), "{flag}: {found:#?}");
    }
}

#[test]
fn prepared_worlds_outlive_two_steps() {
    let found = with_set(&["handoff.prepare_ttl=3s"]).expect_err("too short");
    assert!(found[0].to_string().contains("at least two handoff.step_deadline (4s)"), "{}", found[0]);
    with_set(&["handoff.prepare_ttl=4s"]).expect("exactly two");
    with_set(&["handoff.step_deadline=4s", "handoff.prepare_ttl=8s"]).expect("exactly two");
    let found = with_set(&["handoff.hold_ttl=5s"]).expect_err("there is no such key");
    assert_eq!(found[0].key, "handoff.hold_ttl");
}

#[test]
fn secrets_come_from_files_and_are_never_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("token");
    let flags = |at: &str| [format!("admin.token_file={at}"), "admin.listen=0.0.0.0:7778".to_owned()];
    let load = |flags: [String; 2]| with_set(&flags.iter().map(String::as_str).collect::<Vec<_>>());

    std::fs::write(&path, "0123456789abcdef0123456789abcdef\n").expect("written");
    let config = load(flags(&path.display().to_string())).expect("a good secret");
    assert!(config.secrets.admin.as_ref().expect("read").matches(b"0123456789abcdef0123456789abcdef"));
    assert!(!format!("{config:?}").contains("0123456789abcdef"));

    std::fs::write(&path, "too-short-secret\n").expect("written");
    let found = load(flags(&path.display().to_string())).expect_err("short");
    assert!(found[0].to_string().contains("with 16 bytes") && !found[0].to_string().contains("too-short-secret"));
    let found = load(flags("/nowhere/token")).expect_err("no such file");
    assert_eq!(found[0].key, "admin.token_file");
}

#[test]
fn a_password_in_a_url_is_refused_and_never_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("password");
    std::fs::write(&path, "s3cret\n").expect("written");
    let flags = ["store.url=redis://u@h:1/0".to_owned(), format!("store.password_file={}", path.display())];
    let config = with_set(&flags.each_ref().map(String::as_str)).expect("a user, and a password in a file");
    assert!(config.secrets.store.as_ref().expect("read").matches(b"s3cret"));
    assert!(!format!("{config:?}").contains("s3cret"));

    for url in ["redis://:s3cret@h", "redis+cluster://u:s3cret@a:1,b:2", "rediss://:s3cret@h", "redis:/:s3cret@h"] {
        let found = with_set(&[&format!("store.url={url}")]).expect_err(url);
        let variable = with_variables(&[("TENURE_STORE__URL", url)]).expect_err(url);
        let file = mistakes(&format!("[store]\nurl = \"{url}\"\n"));
        for found in [found, variable, file] {
            assert_eq!((found.len(), found[0].key.as_str()), (1, "store.url"), "{found:#?}");
            let text = found[0].to_string();
            assert!(text.contains("store.password_file") && !text.contains("s3cret"), "{text}");
        }
    }
    for flag in ["store.url:redis://:s3cret@h", "store.url=s3cret@h", "gateway.listen=redis://u:s3cret@h"] {
        let found = with_set(&[flag]).expect_err(flag);
        assert!(found.iter().all(|mistake| !mistake.to_string().contains("s3cret")), "{found:#?}");
    }
}

#[test]
fn every_default_can_be_set_by_flag_and_variable() {
    // Takes each line `key = value  # comment` of the defaults and sets it to what it is.
    let mut section = String::new();
    let (mut flags, mut variables, mut count) = (Vec::new(), Vec::new(), 0);
    for line in DEFAULTS.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((key, value)) = line.split_once(" = ").filter(|(key, _)| !key.starts_with('#')) {
            let value = value.split(" #").next().expect("a value").trim().replace(['"', '[', ']'], "");
            flags.push(format!("{section}.{key}={value}"));
            variables.push((format!("TENURE_{section}__{key}").to_ascii_uppercase(), value));
            count += 1;
        }
    }
    assert_eq!(count, Config::keys().count());
    assert_eq!(Config::load(&Sources { set: flags, ..Sources::default() }).expect("flags"), Config::default());
    let sources = Sources { environment: variables, ..Sources::default() };
    assert_eq!(Config::load(&sources).expect("variables"), Config::default());
}

#[test]
fn each_value_of_the_wrong_type_is_refused() {
    for key in Config::keys() {
        let (section, name) = key.split_once('.').expect("two parts");
        for value in ["1.5", "1979-05-27", "[[1]]", "{ a = 1 }"] {
            let found = mistakes(&format!("[{section}]\n{name} = {value}\n"));
            assert!(found.iter().all(|m| m.line == 2 && m.key.starts_with(key)), "{key} = {value}: {found:#?}");
        }
    }
}

#[test]
fn roles_and_what_others_are_told_must_make_sense() {
    for roles in ["room", "gateway"] {
        let alone = with_set(&[&format!("node.roles={roles}")]).expect_err("refused");
        assert_eq!((alone.len(), alone[0].key.as_str()), (1, "node.roles"), "{alone:?}");
        assert!(alone[0].to_string().contains("no other process shares that store"), "{}", alone[0]);
        let several = with_set(&[&format!("node.roles={roles}"), "store.url=redis://127.0.0.1:6379/0"]);
        assert!(several.is_ok(), "{several:?}");
    }
    for wrong in ["0.0.0.0:7779", "[::]:7779", "10.0.0.7", "10.0.0.7:0", ":7779", "host:port"] {
        let refused = with_set(&[&format!("link.advertise={wrong}")]).expect_err("refused");
        assert_eq!(refused[0].key, "link.advertise", "{refused:?}");
        assert!(refused[0].to_string().contains("any address"), "{}", refused[0]);
    }
    for right in ["10.0.0.7:7779", "[2001:db8::7]:7779", "node-3.rooms.svc:7779"] {
        assert!(with_set(&[&format!("link.advertise={right}")]).is_ok(), "{right}");
    }
}
