//! The `waypost` program: picks a role and hands over; nothing else.

use std::io::Write;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use waypost::config::{Chore, Config, Role};
use waypost::database::{Database, StartRefused};
use waypost::doors::openapi;
use waypost::operator;
use waypost::pod::Pod;
use waypost::telemetry;

#[tokio::main]
async fn main() -> ExitCode {
    let invocation = match Config::of_this_process() {
        Ok(invocation) => invocation,
        Err(refused) => return refused.report(),
    };
    let config = invocation.config;
    telemetry::install(&config.log);
    telemetry::log_panics();
    let done = match invocation.role {
        Role::Serve => serve(&config).await,
        Role::Migrate => migrate(&config).await,
        Role::OpenApi => say(openapi::yaml(&waypost::registry()).trim_end()),
        Role::Chore(chore) => carry_out(&config, chore).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(refused) => {
            let _ = writeln!(std::io::stderr(), "waypost: {refused}");
            ExitCode::from(refused.exit_code())
        }
    }
}

/// Serves until SIGTERM or SIGINT, then drains; a second signal cuts.
async fn serve(config: &Config) -> Result<(), StartRefused> {
    config.warn_of_idle_settings();
    let mut signals = Signals::new()?;
    let mut database = tokio::select! {
        database = Database::open(config) => database?,
        () = signals.next() => return Ok(()),
    };
    let config = Config { secret_key: database.secret_key.clone(), ..config.clone() };
    let started = Pod::start(&config, waypost::registry(), database.options.clone()).await;
    let mut pod = match started {
        Ok(pod) => pod,
        Err(refused) => {
            database.close().await;
            return Err(refused);
        }
    };
    say(&format!("listening on http://{}", pod.address))?;
    if let Some(ops) = pod.ops_address {
        say(&format!("ops on http://{ops}"))?;
    }
    let failed = tokio::select! {
        () = signals.next() => None,
        name = pod.died() => Some(format!("a task that must not end has ended: {name}")),
        sentence = database.died() => Some(sentence),
    };
    if let Some(failed) = &failed {
        tracing::error!(%failed, "the pod goes down");
    }
    tokio::select! {
        () = pod.drain() => {}
        () = signals.next() => tracing::warn!("a second signal: cutting what is left"),
    }
    database.close().await;
    failed.map_or(Ok(()), |failed| Err(StartRefused::Failed(failed)))
}

async fn migrate(config: &Config) -> Result<(), StartRefused> {
    Database::open_for_chore(config).await?.close().await;
    Ok(())
}

async fn carry_out(config: &Config, chore: Chore) -> Result<(), StartRefused> {
    let database = Database::open_for_chore(config).await?;
    let done = operator::run(database.options.clone(), chore).await;
    database.close().await;
    say(&done?.to_string())
}

/// Standard output carries what programs read, a line each, and nothing else.
fn say(line: &str) -> Result<(), StartRefused> {
    let mut out = std::io::stdout().lock();
    let said = writeln!(out, "{line}").and_then(|()| out.flush());
    said.map_err(|error| StartRefused::Failed(format!("standard output: {error}")))
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Signals, StartRefused> {
        let listen = |kind| signal(kind).map_err(|error| StartRefused::Failed(error.to_string()));
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
