//! `corun-sql serve`: folders and stores as a server of PostgreSQL's protocol: arguments, signals, logs. What the server does is in the crate
//! corun-server.

mod settings;
pub mod user;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use corun_cli::failure::Usage;
use corun_cli::out;
use corun_datafusion::{CoordinatorOptions, EngineOptions};
use corun_model::cache::coschedule::PolicyName;
use corun_server::data::{DataConfig, DataError};
use corun_server::front::{Access, AccessError, AccessFiles, Front, FrontConfig, Io};
use corun_server::session::{Engine, EngineConfig, Rights, ServerError};
use settings::{Scheduling, Settings};
use tokio::signal::unix::{SignalKind, signal};
use tracing::level_filters::LevelFilter;

/// Time between two looks at whether everything has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Arguments of `corun-sql serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun-sql serve data                         then: psql -h 127.0.0.1 data
  corun-sql serve sales=/srv/sales shop        two databases, sales and shop
  corun-sql user add ann --users users.toml    asks for no password: PGPASSWORD or standard input has it
  corun-sql serve data --users users.toml --listen 0.0.0.0:5432 --tls-cert server.pem --tls-key server.key
  corun-sql serve --config serve.toml          every option but FOLDER as key = value, with _ for -; folders = [\"data\"]
  corun-sql serve data --memory-limit 8GiB --policy learned --statement-timeout 60

A folder is a database. Its Parquet, CSV and JSON files are the tables of schema public, its sub-folders are schemas, folders of stores among
them. Tables are read only. Without --users, whoever reaches this machine's own addresses gets in as whoever they say, and no other address
can be listened at. SIGTERM and SIGINT end the server when what runs has ended, for --shutdown-timeout at most; a second one at once.
Exit codes: 0 ended by a signal, 1 failed, 2 wrong usage.")]
pub struct ServeArgs {
    /// Folders to show, each a database named after it, or NAME=PATH.
    #[arg(value_name = "FOLDER")]
    folders: Vec<String>,

    /// Take what is not given here from this file (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    settings: Settings,
}

/// Runs `corun-sql serve`.
///
/// # Errors
/// What the settings, the data or the system refuse at the start.
pub fn run(args: ServeArgs, verbose: u8) -> Result<()> {
    let (settings, of_file) = match &args.config {
        Some(path) => args.settings.with_file(path)?,
        None => (args.settings, Vec::new()),
    };
    let folders = match args.folders.is_empty() {
        true => of_file,
        false => args.folders,
    };
    out::start_server_logging(level(verbose), settings.json.unwrap_or_default());
    let data = data(&settings, &folders)?;
    let first = data.catalogs[0].0.clone();
    let front = front_config(&settings);
    let access = access(&settings, &front)?;
    for warning in access.warnings() {
        tracing::warn!("{warning}");
    }
    let open = access.is_open();
    let rights: Arc<dyn Rights> = Arc::new(access.users().clone());
    let engine = Engine::start(engine_config(&settings, data, rights)?).map_err(server_error)?;
    let front = Front::start(front, access, engine.clone())?;
    if open {
        out::note("note: there is no file of users: everyone on this machine gets in (see --users)");
    }
    for address in front.addresses() {
        let (host, port) = (address.ip(), address.port());
        let host = match host.is_unspecified() {
            true => "localhost".to_owned(),
            false => host.to_string(),
        };
        out::line(&format!(
            "listening at {address}: psql -h {host} -p {port} {first}"
        ))?;
    }
    if let Some(socket) = front.socket() {
        out::line(&format!("listening at {}", socket.display()))?;
    }
    // A runtime of its own: the engine's threads may all be at statements.
    let signals = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot wait for signals")?;
    let waited = signals.block_on(until_ended(&front));
    front.join();
    // Threads of the engine may still be at the last cancelled statements: leaving does not wait for them, and tables are read only.
    std::mem::forget(engine);
    waited
}

/// Waits for signals and does what they say, until the front has ended.
async fn until_ended(front: &Front) -> Result<()> {
    let context = "cannot wait for signals";
    let mut terminate = signal(SignalKind::terminate()).context(context)?;
    let mut interrupt = signal(SignalKind::interrupt()).context(context)?;
    let mut told = false;
    while !front.has_ended() {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = tokio::time::sleep(LOOK) => continue,
        }
        match told {
            true => tracing::info!("ending at once"),
            false => tracing::info!("ending when statements have ended"),
        }
        front.stop(told);
        told = true;
    }
    Ok(())
}

fn data(settings: &Settings, folders: &[String]) -> Result<DataConfig> {
    let mut catalogs = Vec::new();
    for folder in folders {
        catalogs.push(named(folder)?);
    }
    for store in settings.store.iter().flatten() {
        catalogs.push(named(&store.to_string_lossy())?);
    }
    if catalogs.is_empty() {
        bail!(Usage(
            "there is no folder to show\nhint: corun-sql serve FOLDER".to_owned()
        ));
    }
    Ok(DataConfig {
        catalogs,
        allow_read: settings.allow_read.clone().unwrap_or_default(),
        allow_write: settings.allow_write.clone().unwrap_or_default(),
        ..DataConfig::default()
    })
}

/// A database's name and folder, of `PATH` or `NAME=PATH`.
fn named(text: &str) -> Result<(String, PathBuf)> {
    if let Some((name, path)) = text.split_once('=')
        && !name.is_empty()
        && !name.contains('/')
    {
        return Ok((name.to_owned(), PathBuf::from(path)));
    }
    let path = Path::new(text);
    let real = path
        .canonicalize()
        .map_err(|error| Usage(format!("cannot read the folder {text}\ndetail: {error}")))?;
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok((name.unwrap_or_else(|| "data".to_owned()), path.to_owned()))
}

fn front_config(settings: &Settings) -> FrontConfig {
    let usual = FrontConfig::default();
    FrontConfig {
        listen: settings.listen.clone().unwrap_or(usual.listen),
        unix_socket_folder: settings.socket.clone(),
        io: match settings.io_uring {
            Some(true) => Io::IoUring,
            _ => Io::Epoll,
        },
        loops: settings.loops.unwrap_or(usual.loops),
        connections_max: settings.max_connections.unwrap_or(usual.connections_max),
        user_connections_max: settings.max_user_connections,
        login_timeout: settings.login_timeout.unwrap_or(usual.login_timeout),
        idle_timeout: settings.idle_timeout,
        shutdown_grace: settings.shutdown_timeout.unwrap_or(usual.shutdown_grace),
        ..usual
    }
}

fn access(settings: &Settings, front: &FrontConfig) -> Result<Access> {
    let files = AccessFiles {
        users: settings.users.clone(),
        hba: settings.hba.clone(),
        tls_cert: settings.tls_cert.clone(),
        tls_key: settings.tls_key.clone(),
        allow_plaintext: settings.allow_plaintext.unwrap_or_default(),
    };
    Access::load(&files, &front.listen).map_err(|error| match error {
        AccessError::Users(error) => data_error(&error),
        error @ (AccessError::NoUsers(_) | AccessError::NoTls(_) | AccessError::HalfTls) => {
            Usage(error.to_string()).into()
        }
        error => error.into(),
    })
}

fn engine_config(settings: &Settings, data: DataConfig, rights: Arc<dyn Rights>) -> Result<EngineConfig> {
    let stock = settings.stock.unwrap_or_default();
    let coordinator = match (stock, settings.policy) {
        (true, Some(Scheduling::By(_))) => bail!(Usage(
            "stock and policy contradict each other\nhint: DataFusion as it comes starts each query at once; leave one of the two out"
                .to_owned()
        )),
        (true, _) | (false, Some(Scheduling::Off)) => None,
        (false, policy) => {
            let machine = CoordinatorOptions::for_machine(&corun_topology::discover(), None)?;
            let policy = match policy {
                Some(Scheduling::By(policy)) => policy,
                _ => PolicyName::default(),
            };
            Some(CoordinatorOptions { policy, ..machine })
        }
    };
    let config = match stock {
        true => EngineConfig::stock(data),
        false => EngineConfig::new(data),
    };
    Ok(EngineConfig {
        engine: EngineOptions {
            partitions: settings.partitions.unwrap_or(config.engine.partitions),
            memory_limit_bytes: settings.memory_limit,
            ..config.engine
        },
        coordinator,
        statement_timeout: settings.statement_timeout,
        rights,
        ..config
    })
}

fn server_error(error: ServerError) -> anyhow::Error {
    match error {
        ServerError::Data(error) => data_error(&error),
        ServerError::Engine(error) => error.into(),
        other => other.into(),
    }
}

/// In the three parts of this program's errors.
fn data_error(error: &DataError) -> anyhow::Error {
    let mut text = error.primary.clone();
    for (part, of) in [("detail", &error.detail), ("hint", &error.hint)] {
        if let Some(of) = of {
            text.push_str(&format!("\n{part}: {of}"));
        }
    }
    anyhow!(text)
}

fn level(verbose: u8) -> LevelFilter {
    match verbose {
        0 => LevelFilter::INFO,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}
