//! `corun proxy`: starts the proxy, then waits for signals.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use corun_net::notify::{State, notify};
use corun_pooler::config::{LogFormat, LogLevel};
use corun_pooler::{ConfigFiles, Pooler};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use tracing_subscriber::filter::LevelFilter;

use corun_cli::out;

/// Time between two looks at whether everything has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Serve clients until a signal ends the pooler.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// The configuration file.
    #[arg(long, short, value_name = "FILE", default_value_os_t = super::default_config())]
    config: PathBuf,
}

/// Serves until a signal ends it.
///
/// # Errors
/// What the configuration or the system refuses at the start.
pub fn run(args: &RunArgs, verbose: u8) -> anyhow::Result<()> {
    corun_net::memory::without_huge_pages();
    let (files, warnings) = ConfigFiles::load(&args.config)?;
    out::start_server_logging(
        level(files.config.corun.log_level, verbose),
        files.config.corun.log_format == LogFormat::Json,
    );
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    for warning in &files.warnings {
        tracing::warn!("{warning}");
    }
    let all = [SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2];
    let mut signals = Signals::new(all).context("cannot wait for signals")?;
    let timeout = files.config.corun.shutdown_timeout;
    let proxy = Pooler::start(files)?;
    for address in proxy.addresses() {
        tracing::info!("listening at {address}");
    }
    for socket in proxy.sockets() {
        tracing::info!("listening at {}", socket.display());
    }
    if let Some(address) = proxy.metrics() {
        tracing::info!("metrics at http://{address}/metrics");
    }
    tell(State::Ready);
    wait(&proxy, &mut signals, &args.config, timeout);
    proxy.join();
    tracing::info!("ended");
    Ok(())
}

/// Tells the supervisor, if there is one.
fn tell(state: State<'_>) {
    if let Err(error) = notify(state) {
        tracing::debug!(%error, "the supervisor could not be told");
    }
}

/// Until everything has ended.
fn wait(proxy: &Pooler, signals: &mut Signals, file: &Path, timeout: Duration) {
    let mut ending: Option<Instant> = None;
    while !proxy.has_ended() {
        for signal in signals.pending() {
            if matches!(signal, SIGINT | SIGTERM | SIGQUIT) {
                tell(State::Stopping);
            }
            match signal {
                SIGUSR1 if proxy.pause() => tracing::info!("got SIGUSR1, pausing all activity"),
                SIGUSR1 => tracing::info!("got SIGUSR1, but already paused"),
                SIGUSR2 if proxy.is_ending() => tracing::info!("got SIGUSR2 while shutting down, ignoring"),
                SIGUSR2 if proxy.resume() => tracing::info!("got SIGUSR2, continuing from PAUSE"),
                SIGUSR2 => tracing::info!("got SIGUSR2, but not paused"),
                SIGHUP => {
                    tell(State::Reloading);
                    reload(proxy, file);
                    tell(State::Ready);
                }
                SIGQUIT => {
                    tracing::info!("ending at once");
                    proxy.stop(true);
                }
                _ if ending.is_some() => {
                    tracing::info!("ending at once");
                    proxy.stop(true);
                }
                SIGTERM => {
                    tracing::info!("ending when all clients have left");
                    ending = Some(Instant::now());
                    proxy.drain();
                }
                _ => {
                    tracing::info!("ending when clients are between transactions");
                    ending = Some(Instant::now());
                    proxy.stop(false);
                }
            }
        }
        if let Some(began) = ending
            && !timeout.is_zero()
            && began.elapsed() > timeout
        {
            tracing::warn!("shutdown_timeout: ending at once");
            proxy.stop(true);
        }
        std::thread::sleep(LOOK);
    }
}

/// Takes over the file as it is now; a wrong one changes nothing.
fn reload(proxy: &Pooler, file: &Path) {
    match ConfigFiles::load(file) {
        Ok((files, warnings)) => {
            let warnings = warnings.iter().map(ToString::to_string);
            for warning in warnings.chain(files.warnings.iter().cloned()) {
                tracing::warn!("{warning}");
            }
            let restart = proxy.reload(files);
            tracing::info!("configuration read again");
            if !restart.is_empty() {
                tracing::warn!("changed, but read at the start only: {}", restart.join(", "));
            }
        }
        Err(error) => tracing::error!("the configuration stays as it was: {error}"),
    }
}

fn level(configured: LogLevel, verbose: u8) -> LevelFilter {
    let configured = match configured {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    match verbose {
        0 => configured,
        1 => configured.max(LevelFilter::DEBUG),
        _ => LevelFilter::TRACE,
    }
}
