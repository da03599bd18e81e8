//! One owner's commits in a row, each of which may be late, lost, and sent again: F4, H6. The store's rules are the real ones.

use stateright::{Model, Property};
use tenure::{
    runtime::Wall,
    store::{Batch, Command, Grant, GrantId, Key, Reply},
};
use tenure_shared::{IncarnationId, PlayerId, Term};

use super::{
    graph::{holds, violates},
    machine::{SHARD, times},
    room,
    store::{START, Stores, Without, fence},
};

const F4: &str = "F4: what was acknowledged is not undone";
const H6: &str = "H6: a grant is decided once";

/// The room is stored, stored again, and deleted.
const BATCHES: u64 = 3;

struct Commits {
    stores: Stores,
    lost: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    rows: u32,
    /// Commits on their way by number; the awaited one and those given up.
    awaited: Option<u64>,
    late: Vec<u64>,
    acknowledged: u64,
    lost: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Send,
    Serve,
    Lose,
    Late(usize),
}

impl Commits {
    fn new(without: Without) -> Self {
        Self { stores: Stores::new(without), lost: 3 }
    }

    fn owner() -> IncarnationId {
        IncarnationId::new("a1").expect("a name")
    }

    fn apply(&self, rows: u32, command: Command) -> u32 {
        self.stores.apply(rows, self.stores.commands.put_debug(command), START).0
    }

    fn claimed(&self) -> (u32, Term) {
        let info = super::machine::info("a");
        let rows = self.stores.fresh(1);
        let rows = self.apply(rows, Command::Register { incarnation: Self::owner(), info, ttl: times().ttl });
        let take = Command::Acquire { key: Key::shard(SHARD), caller: Self::owner(), seen: None, floor: Term(0) };
        let rows = self.apply(rows, take);
        let (_, term) = self.stores.claim(rows, SHARD).expect("claimed");
        (rows, term)
    }

    fn command(&self, rows: u32, number: u64) -> Command {
        let (_, term) = self.stores.claim(rows, SHARD).expect("claimed");
        let mut batch = Batch::default();
        match number {
            1 => {
                batch.checkpoints.push(room::checkpoint(term.0, &[1]));
                let grant = Grant {
                    id: GrantId("gift".into()),
                    player: PlayerId::new("ann").expect("a name"),
                    source: "gift".into(),
                    scheduled_for: None,
                    amounts: [("gold".into(), 1)].into(),
                    cap: None,
                    token: bytes::Bytes::new(),
                };
                batch.grants.push((room::id(), grant));
            }
            2 => batch.checkpoints.push(room::checkpoint(term.0, &[1, 2])),
            _ => batch.deleted.push(room::id()),
        }
        Command::Commit { fence: fence(SHARD, &Self::owner(), term), shards: 1, number, batch }
    }

    /// How many of the batches the stored room shows.
    fn stored(&self, rows: u32) -> u64 {
        match self.stores.read(rows, Command::Load { room: room::id() }) {
            Reply::Checkpoint(Some(stored)) => stored.version,
            _ => 0,
        }
    }

    fn outbox(&self, rows: u32) -> usize {
        match self.stores.read(rows, Command::Outbox { shard: SHARD, after: 0, limit: 10 }) {
            Reply::Outbox(entries) => entries.len(),
            other => panic!("not an outbox: {other:?}"),
        }
    }
}

impl Model for Commits {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let rows = self.claimed().0;
        vec![State { rows, awaited: None, late: Vec::new(), acknowledged: 0, lost: self.lost }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        match state.awaited {
            None if state.acknowledged < BATCHES => actions.push(Action::Send),
            Some(_) if state.lost > 0 => actions.extend([Action::Serve, Action::Lose]),
            Some(_) => actions.push(Action::Serve),
            None => {}
        }
        actions.extend((0..state.late.len()).map(Action::Late));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Send => state.awaited = Some(state.acknowledged + 1),
            Action::Serve => {
                let number = state.awaited.take()?;
                let command = self.stores.commands.put_debug(self.command(state.rows, number));
                let (rows, answer) = self.stores.apply(state.rows, command, START);
                state.rows = rows;
                // A refusal would restart the room; with the rules in place there is none.
                if self.stores.answers.get(answer).is_ok() {
                    state.acknowledged = number;
                }
            }
            Action::Lose => {
                state.lost -= 1;
                state.late.push(state.awaited?);
                state.late.sort_unstable();
            }
            Action::Late(index) => {
                let number = state.late.remove(index);
                state.rows = self.apply(state.rows, self.command(state.rows, number));
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(F4, |model: &Self, state: &State| {
                let stored = model.stored(state.rows);
                match state.acknowledged {
                    BATCHES => stored == 0,
                    // The next one may have been carried out already.
                    2 => stored == 2 || (stored == 0 && state.awaited == Some(BATCHES)),
                    acknowledged => stored >= acknowledged,
                }
            }),
            Property::always(H6, |model: &Self, state: &State| model.outbox(state.rows) <= 1),
        ]
    }
}

#[test]
fn commits_sent_again_and_late_ones_undo_nothing() {
    holds("commits", Commits::new(Without::default()));
    // The clock of the commits stands still: it has no say in their order.
    assert_eq!(Wall(START).millis(), START / 1_000);
}

#[test]
fn f4_without_numbers_a_late_checkpoint_brings_a_deleted_room_back() {
    let without = Without { numbers: true, ..Without::default() };
    violates("no numbers", Commits::new(without), F4);
}

#[test]
fn f4_without_numbers_and_versions_an_old_checkpoint_overwrites_and_a_grant_is_doubled() {
    let without = Without { numbers: true, versions: true, ..Without::default() };
    violates("no numbers, no versions", Commits::new(without), F4);
    violates("no numbers, no versions", Commits::new(without), H6);
}

/// Numbers alone keep the order of one owner's commits: the versions of checkpoints are a second guard, which also refuses a world that was
/// restored from something older than what is stored.
#[test]
fn versions_are_a_second_guard() {
    holds("no versions", Commits::new(Without { versions: true, ..Without::default() }));
}
