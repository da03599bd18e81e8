//! What the rules do over long times: terms near their last digit, a clock that goes back, and rows that do not pile up.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use tenure_shared::{IncarnationId, PlayerId, RoomId, ShardId, Term};

use super::*;
use crate::store::{
    Batch, Cap, CompletedWork, Fence, Grant, GrantId, Key, LedgerEntry, MemberInfo, Session, WorkId, WorkItem,
};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

const START: u64 = 1_764_446_400_123_456;
const SECOND: u64 = 1_000_000;
const KEEP: u64 = 100;

fn rules() -> Rules {
    Rules { keep_identities: Duration::from_secs(KEEP), ..Rules::default() }
}

fn at(rows: &mut Rows, second: u64, command: Command) -> Result<Reply, Error> {
    apply(rows, &rules(), Wall(START + second * SECOND), command).reply
}

fn node() -> IncarnationId {
    IncarnationId::new("a#1").expect("valid")
}

fn acquire(rows: &mut Rows, second: u64, seen: Option<Term>, floor: Term) -> Term {
    let seen = seen.map(|term| (Some(node()), term));
    let command = Command::Acquire { key: Key::shard(ShardId(0)), caller: node(), seen, floor };
    match at(rows, second, command) {
        Ok(Reply::Granted(term)) => term,
        other => panic!("{other:?}"),
    }
}

/// A store with one shard that `a#1` holds.
fn owned() -> (Rows, Fence) {
    let mut rows = Rows::new();
    let info = MemberInfo {
        node: "a".to_owned(),
        roles: vec![],
        version: String::new(),
        revision: 0,
        link: String::new(),
        public_url: String::new(),
        zone_data: String::new(),
    };
    at(&mut rows, 0, Command::Agree { name: AGREED_SHARDS.to_owned(), value: "1".to_owned() }).expect("agrees");
    let ttl = Duration::from_secs(1_000_000);
    at(&mut rows, 0, Command::Register { incarnation: node(), info, ttl }).expect("registers");
    let term = acquire(&mut rows, 0, None, Term(0));
    (rows, Fence::new(Key::shard(ShardId(0)), node(), term))
}

fn count(rows: &Rows, prefix: &str) -> usize {
    rows.keys().filter(|key| key.starts_with(prefix.as_bytes())).count()
}

fn room() -> RoomId {
    RoomId::new("a/b/c").expect("valid")
}

fn player() -> PlayerId {
    PlayerId::new("p").expect("valid")
}

#[test]
fn terms_that_differ_in_the_last_digit_are_told_apart() {
    let (mut rows, fence) = owned();
    assert_eq!(fence.term(), Term(START));
    let next = acquire(&mut rows, 0, Some(fence.term()), Term(0));
    assert_eq!(next, Term(START + 1));
    let commit = |fence: Fence| Command::Commit { fence, shards: 1, number: 1, batch: Batch::default() };
    assert!(matches!(at(&mut rows, 0, commit(fence)), Err(Error::Fenced { .. })));
    let newest = Fence::new(Key::shard(ShardId(0)), node(), next);
    at(&mut rows, 0, commit(newest)).expect("commits");
    let wrong = Fence::new(Key::shard(ShardId(0)), IncarnationId::new("b#1").expect("valid"), next);
    assert!(
        matches!(at(&mut rows, 0, commit(wrong)), Err(Error::Fenced { .. })),
        "the incarnation is compared too (F12)"
    );
}

#[test]
fn time_and_terms_do_not_follow_a_clock_that_goes_back() {
    let (mut rows, fence) = owned();
    at(&mut rows, 1_000, Command::Heartbeat { incarnation: node(), ttl: Duration::from_secs(9), floor: Term(0) })
        .expect("beats");
    let stamped = apply(&mut rows, &rules(), Wall(5), Command::Members);
    assert_eq!(stamped.at, Wall(START + 1_000 * SECOND));
    let term = {
        let command = Command::Acquire {
            key: Key::shard(ShardId(0)),
            caller: node(),
            seen: Some((Some(node()), fence.term())),
            floor: Term(0),
        };
        match apply(&mut rows, &rules(), Wall(5), command).reply {
            Ok(Reply::Granted(term)) => term,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(term, Term(START + 1_000 * SECOND));
    let beyond = apply(&mut rows, &rules(), Wall(u64::MAX), Command::Members);
    assert!(matches!(beyond.reply, Err(Error::Broken(_))), "a clock beyond all terms is refused, not stored");
    assert_eq!(apply(&mut rows, &rules(), Wall(5), Command::Members).at, Wall(START + 1_000 * SECOND));
}

#[test]
fn completed_identities_are_kept_for_their_time_and_then_forgotten() {
    let (mut rows, fence) = owned();
    let id = |n: u64| WorkId { room: room(), job: "job".into(), key: n.to_string().into() };
    let mut number = 0;
    let mut commit = |rows: &mut Rows, second: u64, batch: Batch| {
        number += 1;
        at(rows, second, Command::Commit { fence: fence.clone(), shards: 1, number, batch }).expect("commits");
    };
    let item = |n: u64| WorkItem { id: id(n), due: Wall(1), attempt: 0, parked: None, payload: Bytes::new() };
    for n in 0..1_000 {
        commit(&mut rows, n, Batch { scheduled: vec![item(n)], ..Batch::default() });
        commit(&mut rows, n, Batch { completed: vec![id(n)], ..Batch::default() });
        assert!(count(&rows, "done/") <= KEEP as usize + 2, "identities pile up");
        assert_eq!(count(&rows, "done/"), count(&rows, "donetime/"));
    }
    assert_eq!(count(&rows, "item/") + count(&rows, "items/") + count(&rows, "due/"), 0);
    commit(&mut rows, 999, Batch { scheduled: vec![item(999 - KEEP), item(5)], ..Batch::default() });
    let work = at(&mut rows, 999, Command::Work { shard: ShardId(0), after: None, limit: 9 });
    assert_eq!(work, Ok(Reply::Work(vec![item(5)])), "one within its time stays completed, one far past it is new");
    let Ok(Reply::Completed(log)) = at(&mut rows, 999, Command::Completed { shard: ShardId(0), limit: 9_999 }) else {
        panic!("no log");
    };
    let log: Vec<&CompletedWork> = log.iter().collect();
    assert_eq!((log.len(), &log[0].id), (1_000, &id(0)));
}

#[test]
fn a_ledger_forgets_lines_identities_and_caps_together() {
    let (mut rows, _) = owned();
    let grant = |n: u64| Grant {
        id: GrantId(format!("g{n}").into()),
        player: player(),
        source: "chest".into(),
        scheduled_for: None,
        amounts: [("gold".into(), 1)].into(),
        cap: Some(Cap { since: Wall(START + n * SECOND), limits: [("gold".into(), 1)].into() }),
        token: Bytes::new(),
    };
    for n in 0..1_000 {
        at(&mut rows, n, Command::Apply { grant: grant(n) }).expect("applies");
        for prefix in ["granted/", "ledgerline/", "cap/"] {
            assert!(count(&rows, prefix) <= KEEP as usize + 2, "{prefix} piles up");
        }
    }
    assert_eq!(count(&rows, "granted/"), count(&rows, "ledgerline/"));
    let Ok(Reply::Ledger(lines)) = at(&mut rows, 999, Command::Ledger { player: player(), limit: 9_999 }) else {
        panic!("no lines");
    };
    let newest: Vec<&LedgerEntry> = lines.iter().take(2).collect();
    assert_eq!((&*newest[0].id.0, &*newest[1].id.0), ("g999", "g998"));
    assert_eq!(
        at(&mut rows, 999, Command::Balances { player: player() }),
        Ok(Reply::Balances(vec![("gold".to_owned(), 1_000)]))
    );
}

#[test]
fn sessions_that_nobody_touches_are_forgotten() {
    let (mut rows, _) = owned();
    for n in 0..1_000_u64 {
        let player = PlayerId::new(&format!("guest-{n}")).expect("valid");
        let session = Session {
            player: player.clone(),
            room: room(),
            seat: 1,
            options: Bytes::new(),
            current: "t".to_owned(),
            next: None,
            version: 1,
        };
        at(&mut rows, n, Command::PutSession { player, room: room(), seen: 0, session: Some(session) }).expect("puts");
        assert!(count(&rows, "session/") <= KEEP as usize + 2, "sessions pile up");
        assert_eq!(count(&rows, "session/"), count(&rows, "sessiontime/"));
    }
}

#[test]
fn a_damaged_row_is_named_and_never_a_panic() {
    let (mut rows, fence) = owned();
    for damage in [vec![], vec![9, 1, 2], vec![1, 0xc1], vec![1]] {
        rows.insert(keys::claim(fence.key()), damage);
        let reply = at(&mut rows, 1, Command::Claim { key: fence.key().clone() });
        let Err(Error::Broken(text)) = reply else { panic!("{reply:?}") };
        assert!(text.contains("claim/shard/0"), "{text}");
    }
}

#[test]
fn a_full_outbox_is_an_answer_of_its_own_and_trims_go_through() {
    let (mut rows, fence) = owned();
    let room = RoomId::from_parts("arena", "eu", "a").expect("valid");
    let grant = Grant {
        id: GrantId("g".into()),
        player: PlayerId::new("p").expect("valid"),
        source: "s".into(),
        scheduled_for: None,
        amounts: BTreeMap::new(),
        cap: None,
        token: Bytes::new(),
    };
    let mut number = 0;
    let mut commit = |rows: &mut Rows, batch: Batch| {
        let answer = at(rows, 1, Command::Commit { fence: fence.clone(), shards: 1, number: number + 1, batch });
        number += u64::from(answer.is_ok());
        answer.map(drop)
    };
    let grants = |count: usize| Batch { grants: vec![(room.clone(), grant.clone()); count], ..Batch::default() };
    let mut left = limits::OUTBOX as usize;
    while left > 0 {
        let count = left.min(limits::BATCH_GRANTS);
        commit(&mut rows, grants(count)).expect("there is room");
        left -= count;
    }
    assert!(matches!(commit(&mut rows, grants(1)), Err(Error::Full(_))));
    let position = |n: u64| fence.term().0 + n;
    let two = vec![position(1), position(2)];
    commit(&mut rows, Batch { trimmed: two, ..Batch::default() }).expect("trims go through");
    commit(&mut rows, Batch { trimmed: vec![position(3)], ..grants(3) }).expect("as many as there is room for");
    assert!(matches!(commit(&mut rows, grants(1)), Err(Error::Full(_))));
}

#[test]
fn ledger_lines_are_cut_and_their_identities_are_forgotten_in_time() {
    let mut rows = Rows::new();
    let player = PlayerId::new("p").expect("valid");
    let given = |n: u64| Grant {
        id: GrantId(format!("g{n}").into()),
        player: player.clone(),
        source: "chest".into(),
        scheduled_for: None,
        amounts: [("gold".into(), 1)].into(),
        cap: None,
        token: Bytes::new(),
    };
    let lines = limits::LEDGER_LINES + 20;
    for n in 0..lines {
        at(&mut rows, 1, Command::Apply { grant: given(n) }).expect("applied");
    }
    let full = rows.iter().filter(|(key, value)| {
        let line = key.starts_with(b"ledgerline/").then(|| rows::decode::<LedgerEntry>(key, value).expect("a line"));
        line.is_some_and(|line| !line.given.is_empty())
    });
    assert_eq!(full.count() as u64, limits::LEDGER_LINES, "older ones are cut");
    assert_eq!(count(&rows, "granted/") as u64, lines, "every identity stays");
    // Past their retention they go, a few with each grant.
    for n in 0..lines {
        at(&mut rows, KEEP + 10, Command::Apply { grant: given(lines + n) }).expect("applied");
    }
    assert_eq!(count(&rows, "granted/") as u64, lines);
    assert_eq!(count(&rows, "ledgerline/") as u64, lines);
}

#[test]
fn the_link_protocol_is_agreed_by_those_who_live_and_other_constants_for_ever() {
    let (mut rows, _) = owned();
    let agree = |name: &str, value: &str| Command::Agree { name: name.to_owned(), value: value.to_owned() };
    at(&mut rows, 0, agree(AGREED_LINKS, "1")).expect("agrees");
    let refused = at(&mut rows, 1, agree(AGREED_LINKS, "2")).expect_err("a#1 lives").to_string();
    assert!(refused.contains("= 1") && refused.contains("has 2"), "{refused}");
    at(&mut rows, 2, Command::Deregister { incarnation: node() }).expect("leaves");
    assert_eq!(at(&mut rows, 3, agree(AGREED_LINKS, "2")), Ok(Reply::Agreed("2".to_owned())));
    assert!(matches!(at(&mut rows, 4, agree(AGREED_SHARDS, "2")), Err(Error::Disagreement { .. })));
}
