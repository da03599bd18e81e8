//! Daemons of the tests of the admin port, and the commands about them.

use serde_json::{Value, json};
use tenure::{
    cli::Exit,
    daemon::{DaemonStatus, LastEnd, OrderError, Refused, SetStatus, Survey},
    ops::{DaemonError, DaemonOrder, DaemonsReport},
    runtime::Wall,
};
use tenure_shared::Term;

use super::{LOCAL, ask, command, serve, status_of};

fn row(index: u32, node: &str, stage: &str) -> DaemonStatus {
    DaemonStatus {
        index,
        node: Some(node.into()),
        incarnation: Some(format!("{node}#1")),
        term: Term(7),
        stage: stage.into(),
        since: Some(Wall(1_800_000_000_000_000)),
        restarts: 0,
        progress_ms: Some(120),
        reason: None,
        away_ms: None,
        last: None,
        figures: [("rooms".to_owned(), 12)].into(),
    }
}

/// A set of two, of which one is parked until somebody says otherwise.
pub(super) fn report(orders: &[DaemonOrder]) -> DaemonsReport {
    let mut parked = row(1, "n2", "parked");
    parked.reason = Some("it failed once more after 3 restarts in 60 s: no field".into());
    (parked.since, parked.progress_ms, parked.restarts, parked.away_ms) = (None, None, 3, Some(42_000));
    let at = Wall(1_800_000_000_000_000);
    parked.last = Some(LastEnd { at, node: "n2".into(), what: "failed".into(), text: "no field".into() });
    let mended = orders.iter().any(|order| matches!(order, DaemonOrder::Unpark(..)));
    let daemons = vec![row(0, "n1", "running"), if mended { row(1, "n2", "running") } else { parked }];
    let agreed = "2 on room, generation 1".to_owned();
    let set = SetStatus { name: "work".into(), agreed, stopped: false, rescalable: Some((1, 8)), daemons };
    DaemonsReport::new("n1".into(), at, Survey { sets: vec![set], silent: vec!["n3".into()] })
}

pub(super) fn answer(order: &DaemonOrder) -> Result<Value, DaemonError> {
    let agreed = |text: &str| Ok(json!({ "done": true, "agreed": text }));
    match order {
        DaemonOrder::Stop(set) if set == "work" => agreed("2 on room, generation 1, stopped"),
        DaemonOrder::Start(set) if set == "work" => agreed("2 on room, generation 1"),
        DaemonOrder::Rescale(_, 2) => agreed("2 on room, generation 1"),
        DaemonOrder::Rescale(_, count @ 1..=8) => agreed(&format!("{count} on room, generation 2, after 2")),
        DaemonOrder::Rescale(..) => Err(OrderError::Not("work may have 1 to 8 daemons".into()).into()),
        DaemonOrder::Unpark(_, 1) => Ok(json!({ "done": true })),
        DaemonOrder::Unpark(set, index) => Err(OrderError::NoIndex(set.clone(), *index).into()),
        DaemonOrder::Ask(_, 0, message) => Ok(json!({ "done": true, "answer": { "heard": message } })),
        DaemonOrder::Ask(..) => Err(Refused::Parked("no field".into()).into()),
        DaemonOrder::Stop(set) | DaemonOrder::Start(set) => Err(OrderError::NoSet(set.clone()).into()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_are_listed_and_one_that_does_not_run_is_a_problem() {
    let running = serve(None, false, |_| {}).await;
    let at = running.address;
    let list = command(at, &["daemons", "list"]).await;
    assert_eq!(list.exit, Exit::Problem, "no green check over a dead daemon: {}", list.text);
    for text in [
        "work: 2 on room, generation 1; 1 of 2 live, 1 parked",
        "0  n1           running   term 7 since 2027-01-15T08:00:00Z, progress 120 ms ago, rooms 12",
        "1  n2           parked    term 7, 3 restarts, not live for 42 s, rooms 12: it failed once more after 3 restarts",
        "last failed 2027-01-15T08:00:00Z on n2: no field",
        "! no answer from n3",
    ] {
        assert!(list.text.contains(text), "{text} in\n{}", list.text);
    }
    let json = command(at, &["daemons", "list", "work", "--json"]).await;
    let report: DaemonsReport = serde_json::from_str(&json.text).expect("JSON");
    assert_eq!((json.exit, report.sets[0].live, report.is_whole()), (Exit::Problem, 1, false));
    assert_eq!(command(at, &["daemons", "list", "moon"]).await.exit, Exit::CouldNotRun);
    let unpark = command(at, &["daemons", "unpark", "work", "1"]).await;
    assert_eq!((unpark.exit, unpark.text.starts_with("work/1 is tried again")), (Exit::Good, true), "{}", unpark.text);
    assert_eq!(command(at, &["daemons", "list"]).await.exit, Exit::Good);
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_for_daemons_say_what_they_mean_and_why_they_are_refused() {
    let running = serve(None, false, |_| {}).await;
    let at = running.address;
    for (line, exit, text) in [
        (&["stop", "work"][..], Exit::Good, "stop on ALL nodes"),
        (&["start", "work"], Exit::Good, "work: 2 on room, generation 1. Its daemons start"),
        (&["stop", "moon"], Exit::Problem, "there are no daemons \"moon\""),
        (&["rescale", "work", "5"], Exit::Good, "5 on room, generation 2, after 2. The former daemons are ended first"),
        (&["rescale", "work", "2"], Exit::Good, "as before"),
        (&["rescale", "work", "9"], Exit::Problem, "work may have 1 to 8 daemons"),
        (&["unpark", "work", "4"], Exit::Problem, "there is no daemon work/4"),
        (&["ask", "work", "0", "{\"Add\": 3}"], Exit::Good, "{\"heard\":{\"Add\":3}}"),
        (&["ask", "work", "1", "\"Report\""], Exit::Problem, "the daemon is parked: no field"),
        (&["ask", "work", "0", "Report"], Exit::CouldNotRun, "the message is JSON"),
    ] {
        let words: Vec<&str> = ["daemons"].iter().chain(line).copied().collect();
        let outcome = command(at, &words).await;
        assert_eq!((outcome.exit, outcome.text.contains(text)), (exit, true), "{line:?}: {}", outcome.text);
    }
    for (path, status) in [
        ("/admin/daemons/rescale?set=work", 400),
        ("/admin/daemons/stop", 400),
        ("/admin/daemons/reboot?set=work", 404),
        ("/admin/daemons/unpark?set=work&index=-1", 400),
    ] {
        assert_eq!(status_of(&ask(at, "POST", path, LOCAL).await), status, "{path}");
    }
    let outside = format!("{LOCAL}Origin: http://evil.example\r\n");
    let before = running.node.orders.lock().expect("whole").len();
    assert_eq!(status_of(&ask(at, "POST", "/admin/daemons/stop?set=work", &outside).await), 403);
    assert_eq!(status_of(&ask(at, "GET", "/admin/daemons/stop?set=work", LOCAL).await), 405);
    assert_eq!(running.node.orders.lock().expect("whole").len(), before);
}
