//! `config check` and `schedule check|next`: every mistake is printed, and the exit code says how it went.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use tenure::cli::{Cli, Exit, Outcome, run};

fn command(line: &[&str]) -> Outcome {
    let cli = Cli::parse_from("demo", "0.1.0", std::iter::once("demo").chain(line.iter().copied())).expect("parsed");
    run(&cli).expect("not serve")
}

#[test]
fn config_check_says_all_mistakes() {
    assert_eq!(command(&["config", "check"]), Outcome { text: "the configuration is good".into(), exit: Exit::Good });
    let sentinel = "store.url=redis+sentinel://a:1,b:1/main";
    let short = command(&["config", "check", "--set", sentinel]);
    assert_eq!(short.exit, Exit::Good);
    assert!(short.text.contains("warning: lease.ttl = 3s under Sentinel"), "{}", short.text);
    let long = command(&["config", "check", "--set", sentinel, "--set", "lease.ttl=10s"]);
    assert_eq!(long.text, "the configuration is good");
    let bad = command(&["config", "check", "--set", "lease.ttl=1", "--set", "gateway.lisen=x"]);
    assert_eq!(bad.exit, Exit::Problem);
    assert!(
        bad.text.contains("did you mean `gateway.listen`?") && bad.text.ends_with("2 mistakes in the configuration")
    );
    let folder = tempfile::tempdir().expect("a folder");
    let rewards = folder.path().join("rewards.toml");
    std::fs::write(&rewards, "[[schedule]]\nid = \"chest\"\nevry = \"30s\"\nrooms = \"arena/*/*\"\n").expect("written");
    let named = format!("rewards.file={}", rewards.display());
    let both = command(&["config", "check", "--set", "lease.ttl=1", "--set", &named]);
    assert_eq!(both.exit, Exit::Problem);
    assert!(both.text.contains("lease.ttl") && both.text.contains("did you mean `every`?"), "{}", both.text);
    let alone = command(&["config", "check", "--set", &named]);
    assert_eq!(alone.exit, Exit::Problem, "{}", alone.text);
    let missing = command(&["config", "check", "--set", "rewards.file=/nowhere.toml"]);
    assert!(missing.text.contains("/nowhere.toml: rewards.file"), "{}", missing.text);
    let other = command(&["history", "check", "--set", "lease.ttl=1"]);
    assert_eq!(other.exit, Exit::CouldNotRun, "a command that needs the configuration cannot run with a wrong one");
}

#[test]
fn schedules_are_checked_and_shown_before_they_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rewards.toml").display().to_string();
    let good = "[[schedule]]\nid = \"chest\"\nevery = \"30s\"\nrooms = \"arena/*/*\"\naudience = \"present\"\ngrant = { gold = 10 }\n";
    std::fs::write(&path, good).expect("written");
    let check = command(&["schedule", "check", &path]);
    assert_eq!(check.exit, Exit::Good, "{}", check.text);
    let next = command(&["schedule", "next", &path, "--count", "3", "--from", "2027-03-28T00:00:00Z"]);
    assert_eq!(next.exit, Exit::Good, "{}", next.text);
    let times: Vec<&str> = next.text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(times, ["2027-03-28T00:00:30Z", "2027-03-28T00:01:00Z", "2027-03-28T00:01:30Z"]);

    let unknown = command(&["schedule", "next", &path, "--id", "ches"]);
    assert_eq!(unknown.exit, Exit::CouldNotRun);
    assert!(unknown.text.contains("did you mean `chest`?"), "{}", unknown.text);
    assert_eq!(command(&["schedule", "next", &path, "--from", "tomorrow"]).exit, Exit::CouldNotRun);
    assert_eq!(command(&["schedule", "check", "/nowhere.toml"]).exit, Exit::CouldNotRun);

    std::fs::write(&path, good.replace("every", "evry")).expect("written");
    let bad = command(&["schedule", "check", &path]);
    assert_eq!(bad.exit, Exit::Problem);
    assert!(bad.text.contains("evry") && bad.text.contains("did you mean `every`?"), "{}", bad.text);
}
