//! One child process: start, signals, and what its end means.

use std::{
    ffi::OsString,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

/// Bytes of a log that are looked at for the last words of a child.
const LAST_WORDS: u64 = 2_048;

/// A process; killed when dropped.
pub(super) struct Process {
    child: Child,
    /// It stands still (SIGSTOP).
    pub(super) paused: bool,
}

/// Starts `line` tied to this process, its output at the end of `log`. `gently`: it is terminated, not killed, if this process dies.
/// To be called on the thread that lives longest: the system counts the end of the thread that started a child as its parent's.
pub(super) fn start(program: &Path, line: &[OsString], log: &Path, gently: bool) -> Result<Process, String> {
    let out =
        File::options().create(true).append(true).open(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let errors = out.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
    let mut command = Command::new(program);
    command.arg("with-parent").args(["--parent", &std::process::id().to_string()]);
    if gently {
        command.arg("--gently");
    }
    command.arg("--").args(line).stdin(Stdio::null()).stdout(out).stderr(errors);
    // Ctrl-C is for this process alone: it ends the others in order.
    command.process_group(0);
    match command.spawn() {
        Ok(child) => Ok(Process { child, paused: false }),
        Err(error) => Err(format!("{}: {error}", program.display())),
    }
}

impl Process {
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// A process that has just ended takes no signal, which is no fault.
    fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process(Pid::from_child(&self.child), signal) {
            tracing::debug!(%error, ?signal, "a signal was not taken");
        }
    }

    /// Ends it at once, as a crash would.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Asks it to end; one that stands still could not hear that.
    pub(super) fn terminate(&mut self) {
        self.signal(Signal::TERM);
        self.resume();
    }

    /// Makes it stand still.
    pub(super) fn pause(&mut self) {
        self.signal(Signal::STOP);
        self.paused = true;
    }

    /// Lets it go on.
    pub(super) fn resume(&mut self) {
        self.signal(Signal::CONT);
        self.paused = false;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// How it ended, for people.
pub(super) fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no reason known".to_owned(),
    }
}

/// The last lines of a log.
pub(super) fn last_words(log: &PathBuf, lines: usize) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS)))?;
        let mut bytes = Vec::new();
        file.take(LAST_WORDS).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let mut last: Vec<&str> = text.lines().rev().take(lines).collect();
    last.reverse();
    last.join("\n")
}
