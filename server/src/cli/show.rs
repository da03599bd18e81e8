//! Reports as text for people.

use std::fmt::Write as _;

use crate::{
    daemon::DaemonStatus,
    ops::{
        ClusterReport, DaemonsReport, DoneReport, HistoryReport, LedgerCheck, LedgerReport, ReloadReport, RoomReport,
        SetReport, StatusReport, WorkReport,
    },
    runtime::Wall,
    timers::preview::utc_text as time,
};

/// Rooms in the text of `status`; `--json` has more.
const ROOMS: usize = 20;

/// Writes a line; writing into a string cannot fail.
macro_rules! line {
    ($out:expr, $($format:tt)*) => {
        if writeln!($out, $($format)*).is_err() {
            debug_assert!(false, "writing into a string does not fail");
        }
    };
}
pub(super) fn status(report: &StatusReport) -> String {
    let mut out = String::new();
    let missing = report.readiness.reasons();
    let state = if missing.is_empty() { "ready".to_owned() } else { format!("not ready: {}", missing.join(", ")) };
    line!(out, "{} {} ({}), pid {}: {state}", report.node, report.version, report.roles.join(" + "), report.pid);
    if let Some(incarnation) = &report.incarnation {
        line!(out, "incarnation {incarnation}");
    }
    let addresses =
        [("players", report.addresses.play), ("admin", report.addresses.admin), ("links", report.addresses.link)];
    for (name, address) in addresses {
        if let Some(address) = address {
            line!(out, "{name} {address}");
        }
    }
    let counts = &report.counts;
    line!(out, "up {} s, {} shards", report.now.0.saturating_sub(report.started.0) / 1_000_000, report.shards.len());
    line!(out, "sockets {}, seats {}", counts.sockets, counts.seats);
    line!(out, "rooms {}, dormant {}, parked {}", counts.rooms, counts.dormant, counts.parked_rooms);
    line!(out, "work overdue {}", counts.overdue);
    for room in report.rooms.iter().take(ROOMS) {
        line!(out, "  {}", one_room(room));
    }
    if report.rooms.len() > ROOMS {
        line!(out, "  … and {} more", report.rooms.len() - ROOMS);
    }
    if let Some(rewards) = report.rewards.as_ref().filter(|_| !report.schedules.is_empty()) {
        line!(out, "schedules of {}, hash {}", rewards.file.as_deref().unwrap_or("the game"), rewards.hash);
    }
    for daemon in &report.daemons_missing {
        line!(out, "! daemon {daemon}");
    }
    for schedule in &report.schedules {
        let next = schedule.next.map_or_else(|| "never".to_owned(), time);
        line!(out, "  {} next {next} ({}, rooms {})", schedule.id, schedule.rule, schedule.rooms);
    }
    out
}

pub(crate) fn cluster(report: &ClusterReport) -> String {
    let mut out = String::new();
    let nodes = report.members.iter().filter(|member| member.roles.iter().any(|role| role == "room")).count();
    let (ownerless, members) = (report.ownerless.len(), report.members.len());
    line!(out, "{members} members, {nodes} of them room nodes; {} shards, {ownerless} without an owner", report.shards);
    for member in &report.members {
        let lease = match member.lease_left_ms {
            left if left < 0 => format!("lease lapsed {} ms ago", -left),
            left => format!("lease {left} ms"),
        };
        let this = if member.this { "*" } else { " " };
        let (name, status, roles) = (&member.node, &member.status, member.roles.join(" + "));
        line!(
            out,
            "{this} {name:<12} {roles:<14} {status:<9} {:>5} shards  {lease}  version {} revision {}",
            member.shards,
            member.version,
            member.revision
        );
    }
    let mut zones: Vec<&str> = report.members.iter().map(|member| member.zone_data.as_str()).collect();
    zones.sort_unstable();
    zones.dedup();
    if zones.len() > 1 {
        line!(out, "! members differ in time-zone data: {}", zones.join(", "));
    }
    let files = report.schedules();
    if files.len() > 1 {
        for (hash, nodes) in files {
            line!(out, "! nodes run different files of schedules: {} runs hash {hash}", nodes.join(", "));
        }
    }
    for set in &report.daemons {
        let (live, count) = (set.daemons.iter().filter(|row| row.is_live()).count(), set.daemons.len());
        line!(out, "daemons {}: {}; {live} of {count} live", set.name, set.agreed);
    }
    out
}

pub(super) fn daemons(report: &DaemonsReport) -> String {
    let mut out = String::new();
    for one in &report.sets {
        let SetReport { set, count, live, more } = one;
        let (agreed, parked) = (&set.agreed, set.daemons.iter().filter(|row| row.stage == "parked").count());
        line!(out, "{}: {agreed}; {live} of {count} live, {parked} parked", set.name);
        for row in &set.daemons {
            line!(out, "  {}", one_daemon(row));
            if let Some(last) = &row.last {
                let text = if last.text.is_empty() { String::new() } else { format!(": {}", last.text) };
                line!(out, "        last {} {} on {}{text}", last.what, time(last.at), last.node);
            }
        }
        if *more > 0 {
            line!(out, "  … and {more} more that run");
        }
    }
    if report.sets.is_empty() {
        line!(out, "no daemons in this build");
    }
    if !report.silent.is_empty() {
        line!(
            out,
            "! no answer from {}: what is `elsewhere` may be parked there; ask a room node",
            report.silent.join(", ")
        );
    }
    out
}

fn one_daemon(row: &DaemonStatus) -> String {
    let mut out = format!("{:>4}  {:<12} {:<9}", row.index, row.node.as_deref().unwrap_or("nobody"), row.stage);
    if row.node.is_some() {
        out.push_str(&format!(" term {}", row.term));
    }
    if let Some(since) = row.since {
        out.push_str(&format!(" since {}", time(since)));
    }
    if let Some(progress) = row.progress_ms {
        out.push_str(&format!(", progress {progress} ms ago"));
    }
    if row.restarts > 0 {
        out.push_str(&format!(", {} restarts", row.restarts));
    }
    if let Some(away) = row.away_ms.filter(|_| !row.is_live()) {
        out.push_str(&format!(", not live for {} s", away / 1_000));
    }
    for (name, figure) in &row.figures {
        out.push_str(&format!(", {name} {figure}"));
    }
    if let Some(reason) = &row.reason {
        out.push_str(&format!(": {reason}"));
    }
    out
}

fn one_room(room: &RoomReport) -> String {
    let mut out = format!("{} {}: ", room.room, room.state);
    if let Some(connected) = room.connected {
        out.push_str(&format!("{connected} of "));
    }
    out.push_str(&room.seats.to_string());
    if let Some(most) = room.max_seats {
        out.push_str(&format!("/{most}"));
    }
    out.push_str(" seats");
    if let (Some(tick), Some(rate)) = (room.tick, room.tick_rate) {
        out.push_str(&format!(", tick {tick} at {rate} Hz"));
    }
    out.push_str(&format!(", shard {}", room.shard));
    if let Some(term) = room.term {
        out.push_str(&format!(" term {term}"));
    }
    if room.ticks_dropped > 0 {
        out.push_str(&format!(", {} ticks dropped", room.ticks_dropped));
    }
    if let Some(reason) = &room.reason {
        out.push_str(&format!(": {reason}"));
    }
    out
}

pub(super) fn ledger(report: &LedgerReport) -> String {
    let mut out = String::new();
    let balances: Vec<String> =
        report.balances.iter().map(|(currency, amount)| format!("{currency} {amount}")).collect();
    let balances = if balances.is_empty() { "nothing".to_owned() } else { balances.join(", ") };
    line!(out, "{}: {balances}", report.player);
    for entry in &report.lines {
        let given: Vec<String> =
            entry.given.iter().map(|(currency, amount)| format!("{amount:+} {currency}")).collect();
        let given = match (entry.insufficient, given.is_empty()) {
            (true, _) => "refused: insufficient".to_owned(),
            (false, true) => "nothing (cap)".to_owned(),
            (false, false) => given.join(", "),
        };
        line!(out, "{}  {given}  {}  {}", time(entry.at), entry.source, entry.id);
    }
    out
}

pub(super) fn ledger_checks(checks: &[LedgerCheck]) -> String {
    let mut out = String::new();
    for check in checks {
        for problem in &check.problems {
            line!(out, "{}: {problem}", check.player);
        }
        let LedgerCheck { player, lines, decided, before_log, cut, problems } = check;
        let sums = if *cut { "there are older lines: balances were not compared" } else { "balances are their sum" };
        let sums = if problems.is_empty() || *cut { format!("; {sums}") } else { String::new() };
        let older = if *before_log > 0 {
            format!(", {before_log} older than the log of completed work")
        } else {
            String::new()
        };
        line!(
            out,
            "{player}: {lines} lines, {decided} of completed occurrences{older}{sums}; {} problems",
            problems.len()
        );
    }
    out
}

pub(super) fn work(report: &WorkReport) -> String {
    let mut out = String::new();
    for item in &report.items {
        let state = match &item.parked {
            Some(reason) => format!("parked after {} failures: {reason}", item.attempt),
            None if item.attempt > 0 => format!("due {} after {} failures", time(item.due), item.attempt),
            None => format!("due {}", time(item.due)),
        };
        line!(out, "{} {} {}: {state}", item.room, item.job, item.key);
    }
    if report.more > 0 {
        line!(out, "… and {} more", report.more);
    }
    let parked = report.items.iter().filter(|item| item.parked.is_some()).count();
    line!(out, "{} items, {parked} parked", report.items.len() as u64 + report.more);
    out
}

pub(super) fn done(report: &DoneReport) -> String {
    let mut out = String::new();
    for done in &report.items {
        let due = done.key.parse().ok().filter(|_| done.job.starts_with("schedule/")).map(Wall);
        let due = due.map_or_else(|| done.key.clone(), |due| format!("{} due {}", done.key, time(due)));
        line!(out, "{}  {}  {}  {due}", time(done.at), done.room, done.job);
    }
    let cut = match report.cut {
        0 => String::new(),
        cut => format!("; of {cut} shards the log does not go back to the beginning"),
    };
    line!(out, "{} items were completed{cut}", report.items.len());
    out
}

pub(super) fn reload(report: &ReloadReport) -> String {
    let mut out = String::new();
    for warning in &report.warnings {
        line!(out, "warning: {warning}");
    }
    for (what, ids) in [("changed", &report.changed), ("added", &report.added), ("removed", &report.removed)] {
        for id in ids {
            line!(out, "{what} {id}");
        }
    }
    line!(out, "{} was read again (hash {}): {} schedules are as before", report.file, report.hash, report.unchanged);
    out
}

pub(super) fn history(report: &HistoryReport) -> String {
    let mut out = String::new();
    for problem in &report.problems {
        line!(out, "{problem}");
    }
    line!(
        out,
        "{} shards, {} daemons, {} changes of ownership, {} completed items: {} problems",
        report.shards,
        report.daemons,
        report.changes,
        report.completed,
        report.problems.len()
    );
    out
}
