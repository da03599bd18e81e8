//! `with-parent`: becomes another program that ends when its parent does.
//!
//! The wish to be told of the parent's end outlives the exec, so the program needs to know nothing of it. On systems without such a
//! wish a child outlives a parent that was killed; one that ends in order always ends its children first.

use std::os::unix::process::CommandExt as _;

use super::super::{Outcome, WithParentArgs};

/// Becomes the program; comes back only when it could not.
pub(crate) fn with_parent(args: &WithParentArgs) -> Outcome {
    let Some((program, rest)) = args.line.split_first() else { return Outcome::could_not_run("no program") };
    if let Err(text) = tie(args) {
        return Outcome::could_not_run(text);
    }
    let error = std::process::Command::new(program).args(rest).exec();
    Outcome::could_not_run(format_args!("{}: {error}", program.display()))
}

#[cfg(target_os = "linux")]
fn tie(args: &WithParentArgs) -> Result<(), String> {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
    let signal = if args.gently { Signal::TERM } else { Signal::KILL };
    set_parent_process_death_signal(Some(signal)).map_err(|error| format!("with-parent: {error}"))?;
    // A parent that was gone before the wish was known is told of never.
    if getppid().map(Pid::as_raw_pid) == Some(args.parent) { Ok(()) } else { Err("the parent is gone".to_owned()) }
}

#[cfg(not(target_os = "linux"))]
fn tie(_: &WithParentArgs) -> Result<(), String> {
    Ok(())
}
