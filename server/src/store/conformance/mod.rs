//! The conformance suite: what every backend of the store must do, verb by verb and rule by rule.
//!
//! A backend of your own passes when [`run`] gives `Ok`:
//! ```no_run
//! # async fn test() -> Result<(), String> {
//! use tenure::{runtime::{Clock, Wall}, store::{conformance, memory}};
//! conformance::run(|| {
//!     let (clock, hand) = Clock::manual(Wall(1_764_446_400_000_000));
//!     conformance::Subject::new(memory(clock), move |by| { hand.advance(by); Box::pin(async {}) })
//! }).await
//! # }
//! ```
//! Each check starts with an empty store. Checks are quick where time can be moved; a backend with real time sleeps some seconds.

mod claims;
mod commit;
mod ledger;
mod members;
mod outbox;
pub mod random;
mod sessions;
mod work;

use std::{fmt::Debug, time::Duration};

use bytes::Bytes;
use tenure_shared::{IncarnationId, PlayerId, RoomId, ShardId, Term, Tick};

use super::{
    Batch, BoxFuture, Checkpoint, Error, Fence, Grant, GrantId, Key, MemberInfo, RoomSummary, Store, WorkId, WorkItem,
    model::AGREED_SHARDS,
};
use crate::runtime::Wall;

/// What a check says: nothing, or what was expected and what came.
pub type Outcome = Result<(), String>;

/// An empty store and the power to let its time pass.
pub struct Subject {
    /// The store.
    pub store: Store,
    advance: Box<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>,
}

impl Subject {
    /// A store, and how its clock is moved forward: by hand, or by sleeping.
    pub fn new(store: Store, advance: impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self { store, advance: Box::new(advance) }
    }

    async fn advance(&self, by: Duration) {
        (self.advance)(by).await;
    }
}

impl Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Subject")
    }
}

/// One check.
pub struct Check {
    /// What it shows.
    pub name: &'static str,
    run: fn(Subject) -> BoxFuture<'static, Outcome>,
}

impl Check {
    /// Runs it on an empty store.
    ///
    /// # Errors
    /// What was expected and what came.
    pub async fn run(&self, subject: Subject) -> Outcome {
        (self.run)(subject).await.map_err(|text| format!("{}: {text}", self.name))
    }
}

impl Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Names checks after their functions.
macro_rules! checks {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$(Check { name: concat!(stringify!($module), "::", stringify!($name)), run: |subject| Box::pin($module::$name(subject)) }),*]
    };
}

/// All checks.
pub const CHECKS: &[Check] = checks![
    members::a_lease_is_renewed_and_lapses,
    members::a_tombstone_is_for_ever,
    members::an_absent_member_counts_as_buried,
    members::a_register_may_be_repeated,
    members::members_are_listed_without_the_dead,
    members::constants_are_agreed_once,
    members::an_agreement_is_changed_by_compare_and_set,
    claims::a_claim_is_compare_and_set,
    claims::only_live_members_acquire,
    claims::a_live_holder_is_not_overrun,
    claims::a_holder_acquires_its_own_claim_anew,
    claims::an_absent_holder_is_taken_over,
    claims::terms_grow_over_owners_floors_and_time,
    claims::a_late_acquire_changes_nothing,
    claims::a_release_may_be_repeated_and_keeps_the_term,
    claims::a_transfer_needs_its_manifest,
    claims::after_a_transfer_the_source_is_fenced_off,
    claims::routes_tell_changes,
    claims::claims_are_read_by_their_keys,
    claims::history_is_bounded_and_in_order,
    claims::the_state_of_a_claim_is_written_under_its_fence,
    commit::an_old_fence_is_refused_and_changes_nothing,
    commit::a_repeat_gives_the_same_answer_and_a_lower_number_is_refused,
    commit::numbers_begin_anew_with_a_term,
    commit::an_older_checkpoint_never_replaces_a_newer_one,
    commit::rooms_are_loaded_listed_and_deleted,
    commit::a_batch_belongs_to_the_shard_of_its_fence,
    commit::sizes_are_bounded,
    commit::a_refused_batch_changes_nothing,
    work::work_comes_due_in_order,
    work::due_work_is_read_on_behind_a_cursor,
    work::what_is_owed_to_players_outlives_its_room,
    work::an_identity_is_scheduled_once,
    work::a_completed_identity_never_comes_back,
    work::a_decision_said_again_is_carried_out_where_it_is_not_known,
    work::a_completion_is_one_step_with_grants_and_next_occurrence,
    work::a_failed_item_waits_and_counts,
    work::a_parked_item_waits_for_a_retry,
    work::a_cancelled_item_is_gone,
    work::an_advanced_item_keeps_its_cursor,
    work::completed_work_is_listed_within_bounds,
    outbox::positions_grow_and_are_never_reused,
    outbox::trimming_may_be_repeated,
    ledger::a_grant_is_applied_once,
    ledger::a_charge_is_all_or_nothing,
    ledger::an_insufficient_charge_stays_refused,
    ledger::a_cap_counts_per_source_and_period,
    ledger::a_grant_older_than_its_identity_is_refused,
    ledger::balances_and_history_are_bounded,
    ledger::a_line_that_is_cut_leaves_its_identity,
    sessions::a_session_is_compare_and_set,
    sessions::a_session_is_deleted_once,
    sessions::sessions_of_a_player_are_bounded,
];

/// Runs all checks, each on a store of its own from `make`.
///
/// # Errors
/// The texts of all checks that failed, one a line.
pub async fn run(make: impl Fn() -> Subject) -> Outcome {
    let mut failed = Vec::new();
    for check in CHECKS {
        failed.extend(check.run(make()).await.err());
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

// What the checks share.

const SHARDS: u32 = 4;
const TTL: Duration = Duration::from_secs(3);

#[expect(clippy::needless_pass_by_value, reason = "a check reads better with what it expects written in place")]
fn equal<T: PartialEq + Debug>(what: &str, is: T, want: T) -> Outcome {
    if is == want { Ok(()) } else { Err(format!("{what}: expected {want:?}, got {is:?}")) }
}

fn holds(what: &str, is: bool) -> Outcome {
    if is { Ok(()) } else { Err(what.to_owned()) }
}

fn ok<T>(what: &str, result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

/// Expects a refusal of the named kind.
fn refused<T: Debug>(what: &str, kind: &str, result: Result<T, Error>) -> Outcome {
    match result {
        Ok(value) => Err(format!("{what}: expected {kind}, got {value:?}")),
        Err(error) => holds(&format!("{what}: expected {kind}, got {error:?}"), format!("{error:?}").starts_with(kind)),
    }
}

fn id<T, E: Debug>(made: Result<T, E>) -> Result<T, String> {
    made.map_err(|error| format!("{error:?}"))
}

fn incarnation(name: &str) -> Result<IncarnationId, String> {
    id(IncarnationId::new(name))
}

fn player(name: &str) -> Result<PlayerId, String> {
    id(PlayerId::new(name))
}

fn info(node: &str) -> MemberInfo {
    MemberInfo {
        node: node.to_owned(),
        roles: vec!["room".to_owned()],
        version: "1".to_owned(),
        revision: 1,
        link: String::new(),
        public_url: String::new(),
        zone_data: "2026f".to_owned(),
    }
}

/// The first room of the shard with this name, made unique by a number.
fn room(shard: u32, name: &str) -> Result<RoomId, String> {
    for n in 0..1_000 {
        let room = id(RoomId::from_parts("arena", "eu", &format!("{name}-{n}")))?;
        if room.shard(SHARDS) == ShardId(shard) {
            return Ok(room);
        }
    }
    Err(format!("no room name for shard {shard}"))
}

/// Registers a member.
async fn member(store: &Store, name: &str) -> Result<IncarnationId, String> {
    let incarnation = incarnation(name)?;
    ok("register", store.register(&incarnation, info(name), TTL).await)?;
    Ok(incarnation)
}

/// A member that holds a shard; shards are agreed.
async fn owner(store: &Store, name: &str, shard: u32) -> Result<Fence, String> {
    ok("agree", store.agree(AGREED_SHARDS, &SHARDS.to_string()).await)?;
    let caller = member(store, name).await?;
    ok("acquire", store.acquire(&Key::shard(ShardId(shard)), &caller, None, Term(0)).await)
}

/// Takes the claim of a fence anew for the same holder.
async fn again(store: &Store, fence: &Fence) -> Result<Fence, String> {
    let seen = Some((Some(fence.incarnation().clone()), fence.term()));
    ok("acquire anew", store.acquire(fence.key(), fence.incarnation(), seen, Term(0)).await)
}

fn checkpoint(room: &RoomId, fence: &Fence, tick: u64, version: u64, size: usize) -> Checkpoint {
    let summary = RoomSummary {
        room: room.clone(),
        seats: 1,
        max_seats: 8,
        metadata: Bytes::from_static(b"m"),
        dormant: false,
        private: false,
        locked: false,
    };
    Checkpoint { summary, term: fence.term(), tick: Tick(tick), version, body: vec![version as u8; size].into() }
}

fn work_id(room: &RoomId, key: &str) -> WorkId {
    WorkId { room: room.clone(), job: "harvest".into(), key: key.into() }
}

fn item(room: &RoomId, key: &str, due: Wall) -> WorkItem {
    WorkItem { id: work_id(room, key), due, attempt: 0, parked: None, payload: Bytes::from_static(b"p") }
}

fn grant(name: &str, to: &str, amounts: &[(&str, i64)]) -> Result<Grant, String> {
    Ok(Grant {
        id: GrantId(name.into()),
        player: player(to)?,
        source: "chest".into(),
        scheduled_for: None,
        amounts: amounts.iter().map(|(currency, amount)| ((*currency).into(), *amount)).collect(),
        cap: None,
        token: Bytes::new(),
    })
}

async fn commit(store: &Store, fence: &Fence, number: u64, batch: Batch) -> Result<Vec<u64>, String> {
    ok(&format!("commit {number}"), store.commit(fence, SHARDS, number, batch).await)
}
