//! The command line, the signals and the exit code.

use std::{io::Write as _, process::ExitCode, time::Duration};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{App, Server, StartError, files, local, server::Parts};
use crate::{
    cli::{self, Cli, Command, Exit, ReadyFile},
    config::Config,
    room::host::Kill,
    runtime::{Clock, Rng, Shutdown, faults},
    telemetry::{self, Recent},
};

/// Exit code when a tick never returned (`EX_SOFTWARE`).
const HUNG: i32 = 70;

pub(super) fn run(app: App) -> ExitCode {
    let cli = match Cli::parse_from(app.name, app.version, std::env::args_os()) {
        Ok(cli) => cli,
        Err(answer) => answer.exit(),
    };
    match (cli::run(&cli), cli.chosen()) {
        (Some(outcome), _) => outcome.finish(),
        (None, Command::Cluster(args)) => local::run(app, &cli, args),
        (None, _) => serve(app, &cli),
    }
}

/// Ends the process when a tick never returns.
pub(super) fn kill() -> Kill {
    Box::new(|who: &str| {
        tracing::error!(who, "a tick or a daemon has not returned: the process ends with {HUNG}");
        std::process::exit(HUNG);
    })
}

fn serve(app: App, cli: &Cli) -> ExitCode {
    if let Err(error) = faults::check() {
        return could_not_run(error);
    }
    let config = match Config::load(&cli.common.sources()) {
        Ok(config) => config,
        Err(mistakes) => return could_not_run(mistakes),
    };
    let clock = Clock::system();
    let recent = Recent::new(clock.clone());
    if let Err(error) = telemetry::init_logging(&config.log, &recent) {
        return could_not_run(error);
    }
    files::raise_limit(config.gateway.sockets);
    // A file of a former life would send whoever waits for it to the wrong place.
    if let Some(path) = &cli.common.ready_file
        && let Err(error) = std::fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return could_not_run(format_args!("{}: {error}", path.display()));
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().thread_name("io").enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return could_not_run(format_args!("no threads for sockets: {error}")),
    };
    let parts = Parts { config, clock, rng: Rng::from_entropy(), recent, kill: kill(), store: None };
    let code = runtime.block_on(play(app, cli, parts));
    // Blocking work that never ends must not hold the exit back.
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

async fn play(app: App, cli: &Cli, parts: Parts) -> ExitCode {
    let signals = || -> std::io::Result<[Signal; 3]> {
        Ok([signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?])
    };
    let [mut term, mut interrupt, mut hangup] = match signals() {
        Ok(signals) => signals,
        Err(error) => return could_not_run(format_args!("signals: {error}")),
    };
    let name = app.name;
    let told = Shutdown::new();
    let server = {
        let starting = Server::start(app, parts, &told);
        tokio::pin!(starting);
        loop {
            // Never dropped half way: a node that has registered must also leave.
            tokio::select! {
                biased;
                server = &mut starting => match server {
                    Ok(server) => break server,
                    Err(StartError::Told) => return ExitCode::from(Exit::Good),
                    Err(error) => return could_not_run(error),
                },
                () = either(&mut term, &mut interrupt) => {
                    if told.is_stopped() {
                        return told_twice();
                    }
                    told.stop();
                }
            }
        }
    };
    let ready = tokio::select! {
        biased;
        () = told.stopped() => false,
        () = either(&mut term, &mut interrupt) => false,
        () = server.asked_to_drain() => false,
        () = server.until_ready() => true,
    };
    if !ready {
        tracing::info!("told to stop before it was ready");
        return end(&server, &mut term, &mut interrupt, false).await;
    }
    let addresses = server.addresses();
    let ready =
        ReadyFile { play: addresses.play, admin: addresses.admin, link: addresses.link, pid: std::process::id() };
    if let Some(path) = &cli.common.ready_file
        && let Err(error) = cli::write_ready_file(path, &ready)
    {
        server.stop().await;
        return could_not_run(format_args!("{}: {error}", path.display()));
    }
    greet(name, &server);
    let failed = loop {
        tokio::select! {
            biased;
            () = either(&mut term, &mut interrupt) => break false,
            () = server.asked_to_drain() => break false,
            () = server.failed() => break true,
            Some(()) = hangup.recv() => server.reload().await,
        }
    };
    end(&server, &mut term, &mut interrupt, failed).await
}

/// Ends the node in order, unless it is told so once more.
async fn end(server: &Server, term: &mut Signal, interrupt: &mut Signal, failed: bool) -> ExitCode {
    tokio::select! {
        outcome = server.stop() => {
            if failed || !outcome.is_clean() { ExitCode::from(Exit::Problem) } else { ExitCode::from(Exit::Good) }
        }
        () = either(term, interrupt) => told_twice(),
    }
}

fn told_twice() -> ExitCode {
    tracing::warn!("told to stop twice: ending now; what was not saved is as old as the last checkpoint");
    ExitCode::from(Exit::Problem)
}

async fn either(term: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Says where to play: the one thing that a person who just started the server wants to know.
fn greet(name: &str, server: &Server) {
    let addresses = server.addresses();
    let mut text = String::new();
    for (what, path, address) in [("play ", "", addresses.play), ("admin", "admin", addresses.admin)] {
        if let Some(address) = address {
            text.push_str(&format!("  {what}  http://{address}/{path}\n"));
        }
    }
    let line = format!("{name} is ready\n{text}  stop   Ctrl-C (rooms are saved; they go on when it starts again)\n");
    // A closed standard output is no reason to end.
    drop(std::io::stdout().write_all(line.as_bytes()));
}

pub(super) fn could_not_run(text: impl std::fmt::Display) -> ExitCode {
    drop(writeln!(std::io::stderr(), "{text}"));
    Exit::CouldNotRun.into()
}
