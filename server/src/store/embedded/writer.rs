//! The one thread that touches the data file: it takes what waits, carries it out in one transaction, makes it durable, then answers.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use redb::Database;

use super::{
    queue::{Job, Queue},
    rows::{ReadRows, TABLE, WriteRows, fault},
};
use crate::{
    runtime::{Clock, Wall},
    store::{
        Command, Error, Stamped,
        clock::StoreClock,
        model::{self, Rules},
    },
};

/// Most commands of one transaction: with the largest usual commits, 64 MiB.
pub(super) const GROUP: usize = 256;

/// Opens the data file; called again after a fault.
pub(super) type Open = Box<dyn Fn() -> Result<Database, Error> + Send>;

pub(super) struct Writer {
    open: Open,
    /// `None` after a fault: the next group opens it anew.
    database: Option<Database>,
    rules: Rules,
    clock: StoreClock,
}

/// A group that was not carried out.
enum Failed {
    /// The file; nothing is known of what a commit in flight did.
    File(Error),
    /// The rules or redb panicked. A command that was carried out all the same may be repeated: all verbs are idempotent.
    Panic,
}

impl Writer {
    /// Opens the file, checks its format and writes the tombstone of every member: the caller holds the lock of the folder, which is
    /// the proof that the processes of former members are gone.
    pub(super) fn new(open: Open, rules: Rules, clock: Clock) -> Result<Self, Error> {
        let database = open()?;
        let txn = database.begin_write().map_err(fault)?;
        let highest;
        {
            let mut rows = WriteRows::new(txn.open_table(TABLE).map_err(fault)?);
            model::check_format(&mut rows)?;
            highest = model::highest_time(&rows)?;
            let buried = model::bury_members(&mut rows, &rules, clock.wall())?;
            if buried > 0 {
                tracing::info!(
                    members = buried,
                    "members of former processes are gone: this process holds the data folder"
                );
            }
        }
        txn.commit().map_err(fault)?;
        Ok(Self { open, database: Some(database), rules, clock: StoreClock::new(clock, highest) })
    }

    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self, queue: &Arc<Queue>) {
        while let Some(jobs) = queue.take(GROUP) {
            let (commands, answers): (Vec<_>, Vec<_>) =
                jobs.into_iter().map(|Job { command, answer }| (command, answer)).unzip();
            for (answer, stamped) in answers.into_iter().zip(self.group(&commands)) {
                // Who no longer waits for an answer does not get one; the command stays carried out.
                drop(answer.send(stamped));
            }
        }
    }

    /// Carries out a group; an answer for each command.
    fn group(&mut self, commands: &[Command]) -> Vec<Stamped> {
        // A closure that panics leaves at most an open transaction behind, which is given up with it.
        let tried = catch_unwind(AssertUnwindSafe(|| self.attempt(commands))).unwrap_or(Err(Failed::Panic));
        let failed = match tried {
            Ok(answers) => return answers,
            Err(failed) => failed,
        };
        // Nothing of a file that failed is trusted: the next attempt opens it anew.
        if catch_unwind(AssertUnwindSafe(|| drop(self.database.take()))).is_err() {
            tracing::warn!("closing the data file after a fault panicked");
        }
        let error = match failed {
            Failed::File(error) => error,
            // One of them did it: alone, each of the others succeeds.
            Failed::Panic if commands.len() > 1 => {
                return commands.iter().flat_map(|command| self.group(std::slice::from_ref(command))).collect();
            }
            Failed::Panic => Error::Broken(
                "the store panicked on this command, which may or may not have been carried out".to_owned(),
            ),
        };
        metrics::counter!("tenure_store_failures_total").increment(1);
        tracing::error!(%error, commands = commands.len(), "a group of store commands failed");
        let at = self.clock.now();
        commands.iter().map(|_| Stamped { at, reply: Err(error.clone()) }).collect()
    }

    fn attempt(&mut self, commands: &[Command]) -> Result<Vec<Stamped>, Failed> {
        let database = match self.database.take() {
            Some(database) => database,
            None => (self.open)().map_err(Failed::File)?,
        };
        let database = self.database.insert(database);
        let mut now = || self.clock.now();
        let answers = if commands.iter().all(Command::is_read) {
            read(database, &self.rules, &mut now, commands)
        } else {
            write(database, &self.rules, &mut now, commands)
        };
        answers.map_err(Failed::File)
    }
}

fn read(
    database: &Database,
    rules: &Rules,
    now: &mut dyn FnMut() -> Wall,
    commands: &[Command],
) -> Result<Vec<Stamped>, Error> {
    use redb::ReadableDatabase as _;
    let txn = database.begin_read().map_err(fault)?;
    let mut rows = ReadRows::new(txn.open_table(TABLE).map_err(fault)?);
    let answers = commands.iter().map(|command| model::apply(&mut rows, rules, now(), command.clone())).collect();
    rows.fault.check().map(|()| answers)
}

fn write(
    database: &Database,
    rules: &Rules,
    now: &mut dyn FnMut() -> Wall,
    commands: &[Command],
) -> Result<Vec<Stamped>, Error> {
    let txn = database.begin_write().map_err(fault)?;
    let mut answers = Vec::with_capacity(commands.len());
    let written = {
        let mut rows = WriteRows::new(txn.open_table(TABLE).map_err(fault)?);
        for command in commands {
            answers.push(model::apply(&mut rows, rules, now(), command.clone()));
            rows.fault.check()?;
        }
        rows.written
    };
    if written {
        txn.commit().map_err(fault)?;
    } else {
        txn.abort().map_err(fault)?;
    }
    Ok(answers)
}
