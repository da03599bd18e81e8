//! The end of a run: everything must be well within a bound, and what rooms and ledgers have must be what was said.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tenure::store::{Command, Reply};
use tenure_shared::{PlayerId, ShardId};

use crate::{
    bot::Bot,
    cluster::{SHARDS, Sim},
    lab::Say,
    net::NODES,
    said,
};

/// How long everything may take to be well after the last fault.
const CALM: Duration = Duration::from_secs(40);
/// How long a shard may be without an owner when all nodes are well: a lease and five seconds.
pub const SERVED: Duration = Duration::from_millis(1_500 + 5_000);

pub async fn verdict(sim: &Arc<Sim>, bots: &[Arc<Bot>]) {
    let checks = &sim.checks;
    let clock = &sim.net.clock;
    let end = clock.now().plus(CALM);
    let outbox_empty = || {
        (0..SHARDS).all(|shard| {
            let outbox = Command::Outbox { shard: ShardId(shard), after: 0, limit: 1 };
            matches!(sim.store.ask(outbox).reply, Ok(Reply::Outbox(entries)) if entries.is_empty())
        })
    };
    let work_done = || {
        (0..SHARDS).all(|shard| {
            let work = Command::Work { shard: ShardId(shard), after: None, limit: 10 };
            matches!(sim.store.ask(work).reply, Ok(Reply::Work(items)) if items.iter().all(|item| &*item.id.job != "job"))
        })
    };
    let is_served = |shard: ShardId| {
        let owner = sim.owner(shard).and_then(|node| sim.node(node));
        owner.is_some_and(|node| node.ownership.fence(shard).is_some())
    };
    let unserved = || (0..SHARDS).map(ShardId).find(|shard| !is_served(*shard));
    let mut healthy = None;
    let mut served = [clock.now(); SHARDS as usize];
    while !(bots.iter().all(|bot| bot.is_done()) && outbox_empty() && work_done() && unserved().is_none()) {
        if clock.now() >= end {
            for bot in bots.iter().filter(|bot| !bot.is_done()) {
                checks.wrong(format!("H5/H7: {} long after the last fault", bot.describe()));
            }
            if !outbox_empty() || !work_done() {
                checks.wrong("H5/H6: work or grants wait long after the last fault".to_owned());
            }
            if let Some(shard) = unserved() {
                checks.wrong(format!("H9: nobody serves shard {shard} long after the last fault"));
            }
            return;
        }
        let now = clock.now();
        let well = sim.net.is_calm() && (0..NODES).all(|node| sim.node(node).is_some());
        healthy = well.then(|| healthy.unwrap_or(now));
        for (shard, at) in (0..SHARDS).map(ShardId).zip(&mut served) {
            *at = if is_served(shard) { now } else { *at };
            if let Some(since) = healthy.map(|healthy| healthy.max(*at)).filter(|since| now.since(*since) > SERVED) {
                checks.wrong(format!("C28: nobody serves shard {shard} since {since:?}, while all nodes are well"));
                return;
            }
        }
        clock.sleep(Duration::from_millis(50)).await;
    }
    // What the last answers say is in the rooms a few ticks later.
    clock.sleep(Duration::from_millis(500)).await;
    sim.look();
    compare(sim, bots);
}

/// Rooms and ledgers against what was said.
fn compare(sim: &Sim, bots: &[Arc<Bot>]) {
    let checks = &sim.checks;
    let views = sim.views.lock().expect("views").clone();
    for (room, view) in &views {
        let here: Vec<_> = bots.iter().filter(|bot| bot.room.as_str() == room).collect();
        let mut work = BTreeSet::new();
        let mut gifts = BTreeSet::from([0]);
        for bot in here {
            let lives = bot.lives();
            let said = lives.iter().flat_map(|life| &life.said);
            work.extend(said.filter_map(|say| if let Say::Later(key, _) = say { Some(key.clone()) } else { None }));
            let applied = view.book.applied.get(&bot.player).cloned().unwrap_or_default();
            let judged = if checks.has_forgotten() {
                said::judge_what_is_left(&lives, &applied, bot.rollbacks())
            } else {
                said::judge(&lives, &applied, &view.book.done)
            };
            let paid = match judged {
                Ok(paid) => paid,
                Err(wrong) => {
                    let (rule, what) = wrong.split_once(": ").expect("a rule");
                    checks.wrong(format!("{rule}: {} {what}", bot.player));
                    continue;
                }
            };
            let player = PlayerId::new(&bot.player).expect("a name");
            let Ok(Reply::Balances(balances)) = sim.store.ask(Command::Balances { player }).reply else {
                panic!("balances")
            };
            let gold = balances.iter().find(|(currency, _)| currency == "gold").map_or(0, |(_, gold)| *gold);
            let fits: BTreeSet<usize> = paid.iter().filter(|paid| paid.0 == gold).map(|paid| paid.1).collect();
            if fits.is_empty() {
                checks.wrong(format!("H6: {} has {gold} gold and was given {paid:?}", bot.player));
            }
            gifts = gifts.iter().flat_map(|n| fits.iter().map(move |m| n + m)).collect();
        }
        // What is done belongs to what was said, and is done once; that all of it is done was judged.
        work.retain(|key| view.book.done.contains(key));
        checks.once("work", &work, &view.book.done);
        let granted: BTreeSet<String> = view.book.granted.iter().cloned().collect();
        // What was told before the store forgot may be lost since, or be told again.
        let told_once =
            granted.len() == view.book.granted.len() && (gifts.is_empty() || gifts.contains(&granted.len()));
        if !checks.has_forgotten() && !told_once {
            let told = view.book.granted.len();
            checks.wrong(format!("H6: {gifts:?} gifts, {told} told, {} of them different", granted.len()));
        }
        let (started, added, observed) = (view.book.started, view.book.added, view.book.observed);
        if (started, observed) != (1, 1) || added > 1 {
            checks.wrong(format!("H12: {room} started {started} times, {added} added, {observed} observed"));
        }
    }
}
