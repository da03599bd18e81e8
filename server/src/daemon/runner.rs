//! Runs one activation of a daemon: its handlers one at a time, its timers, its mark of progress.

use std::time::Duration;

use super::{
    context::Context,
    event::How,
    letter::{Letter, MESSAGE_BYTES, Refused},
    user::{Act, Fault, Unhandled},
};
use crate::runtime::mailbox;

/// An idle daemon shows that it is there so many times in a liveness interval.
const PULSES: u32 = 4;

/// Runs it to its end. Dropped, it is cut off where it awaits.
pub(super) async fn run(
    mut daemon: Box<dyn Act>,
    mut ctx: Context,
    mut inbox: mailbox::Receiver<Letter>,
    liveness: Duration,
) -> How {
    ctx.progress();
    let mut done = daemon.start(&mut ctx).await;
    let pulse = Some(liveness / PULSES).filter(|pulse| !pulse.is_zero());
    let mut timer_ran = false;
    loop {
        ctx.progress();
        match done {
            _ if !ctx.holds() => return How::Fenced,
            Err(Fault(text)) => return How::Failed(text),
            Ok(()) if ctx.ends => return How::Itself,
            Ok(()) => {}
        }
        // A timer that is always due does not keep messages away.
        if std::mem::take(&mut timer_ran)
            && !ctx.stop.is_stopped()
            && let Some(letter) = inbox.try_recv()
        {
            done = take(&mut *daemon, &mut ctx, letter).await;
            continue;
        }
        let now = ctx.clock.now();
        let due = ctx.timers.next();
        let wakes = [due, pulse.map(|pulse| now.plus(pulse))].into_iter().flatten().min();
        let (stop, clock) = (ctx.stop.clone(), ctx.clock.clone());
        done = tokio::select! {
            biased;
            () = stop.stopped() => {
                daemon.stop(&mut ctx).await;
                return How::Stopped;
            }
            () = async { match wakes { Some(at) => clock.sleep_until(at).await, None => std::future::pending().await } } => {
                match ctx.timers.due(ctx.clock.now()) {
                    Some(timer) => {
                        timer_ran = true;
                        daemon.on_timer(&mut ctx, &timer).await
                    }
                    None => daemon.check(&ctx),
                }
            }
            Some(letter) = inbox.recv() => take(&mut *daemon, &mut ctx, letter).await,
        };
    }
}

/// Hands a message over and answers it; a message that nobody waits for any more is not taken.
async fn take(daemon: &mut dyn Act, ctx: &mut Context, letter: Letter) -> Result<(), Fault> {
    if letter.taken.send(()).is_err() {
        return Ok(());
    }
    let (answer, done) = match daemon.on_message(ctx, letter.body).await {
        Ok(answer) if answer.len() > MESSAGE_BYTES => (Err(Refused::TooLarge(answer.len())), Ok(())),
        Ok(answer) => (Ok(answer), Ok(())),
        Err(Unhandled::Unreadable(text)) => (Err(Refused::Unreadable(text)), Ok(())),
        Err(Unhandled::Fault(fault)) => (Err(Refused::Failed(fault.0.clone())), Err(fault)),
    };
    // What it did under a fence that is lost did not happen: nobody is to be told otherwise.
    if !ctx.fenced {
        drop(letter.answer.send(answer));
    }
    done
}
