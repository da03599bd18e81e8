//! Bad clients: each repeats one attack against the server and notes whether it ended as the protocol says.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::{runtime, task::LocalSet, time::sleep};

use crate::net::{Cause, Target};

mod acts;
mod attack;
mod raw;

pub(crate) use attack::Attack;
use attack::Judgement;

/// Pause between two tries of one bad client: an attacker that hammers the accept queue alone tests only that.
const BETWEEN: Duration = Duration::from_secs(1);
/// Time for the attacks that are under way when the run ends.
const STOP_TIME: Duration = Duration::from_secs(2);
/// Most different wrong endings that are remembered per attack.
const WRONG: usize = 4;

/// What one bad client needs.
#[derive(Clone, Debug)]
pub(crate) struct Enemy {
    pub(crate) target: Target,
    pub(crate) kind: String,
    pub(crate) region: String,
    /// A room where honest bots play.
    pub(crate) room: String,
    pub(crate) index: u32,
}

/// How the tries of one attack ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) tries: u64,
    pub(crate) met: u64,
    /// Refused at the door, before the attack could begin.
    pub(crate) turned_away: u64,
    /// Ended by the end of the run.
    pub(crate) undecided: u64,
    pub(crate) wrong: BTreeMap<String, u64>,
}

impl Tally {
    fn note(&mut self, judgement: Judgement, seen: &str) {
        self.tries += 1;
        match judgement {
            Judgement::Met => self.met += 1,
            Judgement::TurnedAway => self.turned_away += 1,
            Judgement::Wrong => {
                let known = self.wrong.contains_key(seen) || self.wrong.len() < WRONG;
                *self.wrong.entry(if known { seen } else { "other" }.to_owned()).or_default() += 1;
            }
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "tries": self.tries, "as expected": self.met, "turned away": self.turned_away,
            "undecided": self.undecided, "wrong": self.wrong,
        })
    }
}

type Tallies = Arc<Mutex<BTreeMap<&'static str, Tally>>>;

/// Running bad clients, on a thread of their own.
pub(crate) struct Horde {
    stop: Arc<AtomicBool>,
    tallies: Tallies,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Horde {
    /// Starts `count` bad clients; attack `n` is that of clients `n`, `n + 23`, and so on.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn start(target: &Target, kind: &str, region: &str, rooms: u32, count: u32) -> anyhow::Result<Self> {
        let (stop, tallies) = (Arc::new(AtomicBool::new(false)), Tallies::default());
        let enemies: Vec<_> = (0..count)
            .map(|index| Enemy {
                target: target.clone(),
                kind: kind.to_owned(),
                region: region.to_owned(),
                room: format!("load-{}", index % rooms),
                index,
            })
            .collect();
        let (stopped, notes) = (stop.clone(), tallies.clone());
        let work = move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
            LocalSet::new().block_on(&runtime, async {
                for enemy in enemies {
                    tokio::task::spawn_local(harass(enemy, stopped.clone(), notes.clone()));
                }
                while !stopped.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(50)).await;
                }
                sleep(STOP_TIME).await;
            });
            Ok(())
        };
        let thread = thread::Builder::new().name("bad-clients".to_owned()).spawn(work);
        Ok(Self { stop, tallies, thread: thread.context("cannot start the thread of bad clients")? })
    }

    /// How the attacks went so far, by name.
    pub(crate) fn tallies(&self) -> BTreeMap<&'static str, Tally> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends all attacks and returns how they went, by name.
    ///
    /// # Errors
    /// When the thread failed.
    pub(crate) async fn finish(self) -> anyhow::Result<BTreeMap<&'static str, Tally>> {
        self.stop.store(true, Ordering::Relaxed);
        while !self.thread.is_finished() {
            sleep(Duration::from_millis(20)).await;
        }
        let tallies = self.tallies();
        self.thread.join().map_err(|_| anyhow::anyhow!("the thread of bad clients panicked"))??;
        Ok(tallies)
    }
}

async fn harass(enemy: Enemy, stop: Arc<AtomicBool>, tallies: Tallies) {
    let attack = Attack::ALL[enemy.index as usize % Attack::ALL.len()];
    let tally = |change: &dyn Fn(&mut Tally)| {
        let mut all = tallies.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(attack.name()).or_default());
    };
    // Not all in the same moment.
    sleep(BETWEEN.mul_f64(f64::from(enemy.index % 50) / 50.0)).await;
    while !stop.load(Ordering::Relaxed) {
        // Counted as undecided while it runs, so that the end of the run leaves it so.
        tally(&|t| t.undecided += 1);
        let (judgement, seen) = match acts::act(attack, &enemy).await {
            Ok(seen) => (attack.judge(&seen), seen.to_string()),
            Err(Cause::Own(label)) => (Judgement::TurnedAway, label),
            Err(cause) => (attack.judge_door(&cause), cause.label()),
        };
        tally(&|t| {
            t.undecided -= 1;
            t.note(judgement, &seen);
        });
        sleep(BETWEEN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::{attack::Seen, *};

    #[test]
    fn tallies_keep_few_wrong_endings() {
        let mut tally = Tally::default();
        (0..10).for_each(|n| tally.note(Judgement::Wrong, &Seen::Closed(n).to_string()));
        tally.note(Judgement::Met, "");
        assert_eq!((tally.tries, tally.met, tally.wrong.len()), (11, 1, WRONG + 1));
    }
}
