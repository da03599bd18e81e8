//! A quota per region, as a daemon: tickets that are given out, and given anew at fixed times (docs/daemons.md).
//!
//! What is left is small durable state, written under the fence of the activation that gives: a second one, whatever caused it, can only
//! produce a refused write, so no ticket is given twice. The times lie on a grid that begins with the epoch, in the store's clock: neither a
//! restart nor a move shifts it, and what a pause missed is made up for once.

use std::{process::ExitCode, time::Duration};

use serde::{Deserialize, Serialize};
use tenure::{
    daemon::{Context, Daemon, Fault, ShardedDaemonProcess},
    prelude::*,
    runtime::Wall,
};

/// The regions, by index: the index is the key, so this list only grows at its end.
const REGIONS: [&str; 4] = ["eu", "us", "ap", "sa"];
/// Of these so many are open at first. `daemons rescale quota 3` opens the next one, on a cluster that runs.
const OPEN: u32 = 2;
/// Tickets of one region and period.
const TICKETS: u32 = 1_000;
/// How often they are given anew.
const PERIOD: Duration = Duration::from_secs(24 * 3_600);
/// Longest wait between two looks at the clock: it may be set.
const LOOK: Duration = Duration::from_secs(60);

/// What is stored: how many are left, and of which period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Left {
    tickets: u32,
    period: u64,
}

impl Left {
    /// Of the period in which `now` lies. A clock that went back gives nothing anew.
    fn at(self, now: Wall) -> Self {
        let period = now.0 / period_micros();
        if period > self.period { Self { tickets: TICKETS, period } } else { self }
    }
}

fn period_micros() -> u64 {
    u64::try_from(PERIOD.as_micros()).unwrap_or(u64::MAX)
}

/// Time until the next period, at most until the next look.
fn wait(now: Wall) -> Duration {
    Duration::from_micros(period_micros() - now.0 % period_micros()).min(LOOK)
}

/// The quota of one region.
#[derive(Default)]
struct Quota {
    left: Left,
}

/// What it is asked.
#[derive(Serialize, Deserialize)]
enum Ask {
    /// A ticket, please.
    Take,
    /// How many are left?
    Left,
}

/// What it answers.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Told {
    /// Here is one.
    Ticket,
    /// None until the next period.
    None,
    /// So many.
    Left(u32),
}

impl Quota {
    /// Stores what is left, and only then counts with it.
    async fn keep(&mut self, ctx: &mut Context, left: Left) -> Result<(), Fault> {
        if left != self.left {
            ctx.save(rmp_serde::to_vec(&left)?.into()).await?;
            self.left = left;
        }
        Ok(())
    }
}

impl Daemon for Quota {
    type Message = Ask;
    type Answer = Told;

    async fn start(&mut self, ctx: &mut Context) -> Result<(), Fault> {
        // Another number of regions begins anew, and this one goes on with what it had: no ticket is given twice for that. One that was
        // closed for a while has all of them.
        let former = if ctx.state().is_none() { ctx.former_state(ctx.index()).await? } else { None };
        if let Some(state) = ctx.state().or(former.as_ref()) {
            self.left = rmp_serde::from_slice(state)?;
        }
        let left = self.left.at(ctx.wall());
        self.keep(ctx, left).await?;
        ctx.after("period", wait(ctx.wall()));
        Ok(())
    }

    async fn on_message(&mut self, ctx: &mut Context, ask: Ask) -> Result<Told, Fault> {
        let left = self.left.at(ctx.wall());
        match ask {
            Ask::Left => Ok(Told::Left(left.tickets)),
            Ask::Take if left.tickets == 0 => Ok(Told::None),
            Ask::Take => {
                // Written before it is said: an answer that is lost costs a ticket, and none is given twice.
                self.keep(ctx, Left { tickets: left.tickets - 1, ..left }).await?;
                Ok(Told::Ticket)
            }
        }
    }

    async fn on_timer(&mut self, ctx: &mut Context, _timer: &str) -> Result<(), Fault> {
        let left = self.left.at(ctx.wall());
        if left.period > self.left.period {
            tracing::info!(region = REGIONS.get(ctx.index() as usize), tickets = left.tickets, "given anew");
        }
        self.keep(ctx, left).await?;
        ctx.after("period", wait(ctx.wall()));
        Ok(())
    }
}

/// A room in which nothing happens: what is shown here is the daemon.
fn hall(room: &mut RoomBuilder) {
    room.max_seats(8);
}

fn main() -> ExitCode {
    let all = u32::try_from(REGIONS.len()).unwrap_or(u32::MAX);
    let quota = ShardedDaemonProcess::new("quota", OPEN).rescalable(1..=all).factory(|_region| Quota::default());
    App::new("quota", env!("CARGO_PKG_VERSION")).room("hall", hall).daemons(quota).main()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_begins_on_the_grid_whoever_looks_and_whenever() {
        let day = period_micros();
        let at = |days: u64, more: u64| Wall(days * day + more);
        let fresh = Left::default().at(at(20_000, 5));
        assert_eq!(fresh, Left { tickets: TICKETS, period: 20_000 });
        let used = Left { tickets: 3, ..fresh };
        // Restarts within a day change nothing; three days away give one day's tickets, once.
        assert_eq!((used.at(at(20_000, day - 1)), used.at(at(19_999, 0))), (used, used));
        assert_eq!(used.at(at(20_003, 1)), Left { tickets: TICKETS, period: 20_003 });
        assert_eq!(wait(at(20_000, day - 7)), Duration::from_micros(7));
        assert_eq!(wait(at(20_000, 0)), LOOK);
    }
}
