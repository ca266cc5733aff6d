//! `corun-sql serve`: folders and stores as a server of PostgreSQL's protocol: arguments, signals, logs. What the server does is in the crate
//! corun-server.

mod settings;
pub mod user;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::scheduling::Scheduling;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use corun_cli::failure::{self, Usage};
use corun_cli::out;
use corun_datafusion::{CoordinatorOptions, EngineOptions};
use corun_distributed::{Cluster, TlsFiles};
use corun_model::cache::coschedule::Priority;
use corun_model::topology::Memory;
use corun_net::notify::{State, notify};
use corun_server::data::{DataConfig, DataError};
use corun_server::front::{Access, AccessError, AccessFiles, Front, FrontConfig, Io};
use corun_server::operate::{StatementLog, Status, Web, WebConfig, WebError};
use corun_server::session::{Engine, EngineConfig, MakeEngine, Rights, ServerError};
use corun_store::{Options, Store};
use settings::Settings;
use tokio::signal::unix::{SignalKind, signal};
use tracing::level_filters::LevelFilter;

/// Time between two looks at whether everything has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Arguments of `corun-sql serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun-sql serve data                         then: psql -h 127.0.0.1 data
  corun-sql serve sales=/srv/sales shop        two databases, sales and shop
  corun-sql serve --store bank                 a database to write to, made if there is none: psql -h 127.0.0.1 bank
  corun-sql user add ann --users users.toml    asks for no password: PGPASSWORD or standard input has it
  corun-sql serve data --users users.toml --listen 0.0.0.0:5432 --tls-cert server.pem --tls-key server.key
  corun-sql serve --config serve.toml          every option but FOLDER as key = value, with _ for -; folders = [\"data\"]
  corun-sql serve data --memory-limit 8GiB --policy learned --statement-timeout 60
  corun-sql serve --store bank --priority transactions      queries take what transactions leave
  corun-sql serve data --metrics 127.0.0.1:9100 --log-min-duration 1     then: open http://127.0.0.1:9100/, or corun top --url
  corun-sql serve data --workers host1:7600,host2:7600

A folder is a database. Its Parquet, CSV and JSON files are the tables of schema public, its sub-folders are schemas, folders of stores among
them, and all are read only. A folder that is a store is a database that can be written to. Without --users, whoever reaches this machine's own addresses gets in as whoever they say, and no other address
can be listened at. SIGHUP reads the files of --users, --hba and TLS again. SIGTERM and SIGINT end the server when what runs has ended, for --shutdown-timeout at most; a second one at once.
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
    failure::log_panics();
    let data = data(&settings, &folders)?;
    let first = data.catalogs[0].0.clone();
    let front = front_config(&settings);
    let access = Arc::new(access(&settings, &front)?);
    for warning in access.warnings() {
        tracing::warn!("{warning}");
    }
    let open = access.is_open();
    let rights: Arc<dyn Rights> = Arc::clone(access.users()) as _;
    // Connections to workers are driven by it.
    let runtime = crate::runtime()?;
    let cluster = runtime.block_on(cluster(&settings))?;
    let runtime = cluster.is_some().then_some(runtime);
    let config = engine_config(&settings, data, rights, cluster)?;
    let engine = Engine::start(config).map_err(server_error)?;
    let front = Front::start(front, Arc::clone(&access), engine.clone())?;
    let web = web(&settings, &engine, &front)?;
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
    if let Some(web) = &web {
        let address = web.address();
        out::line(&format!("metrics and status at http://{address}/"))?;
    }
    // A runtime of its own: the engine's threads may all be at statements.
    let signals = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot wait for signals")?;
    let waited = signals.block_on(until_ended(&front, &access));
    let ended = front.join();
    let flushed = engine.flush().map_err(|error| data_error(&error));
    // Threads of the engine may still be at the last cancelled statements: leaving does not wait for them.
    std::mem::forget(engine);
    if let Some(runtime) = runtime {
        runtime.shutdown_background();
    }
    waited?;
    flushed?;
    Ok(ended?)
}

/// Where metrics are asked for, if anywhere.
fn web(settings: &Settings, engine: &Engine, front: &Front) -> Result<Option<Web>> {
    let Some(listen) = settings.metrics else {
        return Ok(None);
    };
    let config = WebConfig {
        listen,
        names: settings.metrics_host.clone().unwrap_or_default(),
    };
    let status = Status::new(engine.clone(), front.view(), &corun_topology::discover());
    let web = Web::start(&config, move |path| status.answer(path));
    web.map(Some).map_err(|error| match error {
        error @ WebError::Reachable(_) => Usage(error.to_string()).into(),
        error => error.into(),
    })
}

/// Tells the supervisor, if there is one.
fn tell(state: State<'_>) {
    if let Err(error) = notify(state) {
        tracing::debug!(%error, "the supervisor could not be told");
    }
}

/// Reads the files of users, rules and TLS again; with a mistake in one of them, everything stays as it was.
fn reload(access: &Access) {
    tell(State::Reloading);
    match access.reload() {
        Ok(()) => {
            for warning in access.warnings() {
                tracing::warn!("{warning}");
            }
            tracing::info!("users, rules and certificates read again");
        }
        Err(error) => tracing::error!("users, rules and certificates stay as they were: {error}"),
    }
    tell(State::Ready);
}

/// Waits for signals and does what they say, until the front has ended.
async fn until_ended(front: &Front, access: &Access) -> Result<()> {
    let context = "cannot wait for signals";
    let mut terminate = signal(SignalKind::terminate()).context(context)?;
    let mut interrupt = signal(SignalKind::interrupt()).context(context)?;
    let mut hangup = signal(SignalKind::hangup()).context(context)?;
    tell(State::Ready);
    let mut told = false;
    while !front.has_ended() {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {
                reload(access);
                continue;
            }
            () = tokio::time::sleep(LOOK) => continue,
        }
        tell(State::Stopping);
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
        let text = store.to_string_lossy();
        let (_, path) = split_name(&text);
        make_store(Path::new(path))?;
        catalogs.push(named(&text)?);
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

/// Makes a store in a folder that has nothing yet.
fn make_store(folder: &Path) -> Result<()> {
    if Store::is_in(folder) {
        return Ok(());
    }
    let is_empty = match folder.read_dir() {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if !is_empty {
        bail!(Usage(format!(
            "{} has no store, and is not empty\nhint: --store takes the folder of a store, or a new one",
            folder.display()
        )));
    }
    let store = Store::open(folder, Options::default());
    let store = store.with_context(|| format!("cannot make a store in {}", folder.display()))?;
    store.close()?;
    Ok(())
}

/// The name before a path, if one is given.
fn split_name(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !name.contains('/') => (Some(name), path),
        _ => (None, text),
    }
}

/// A database's name and folder, of `PATH` or `NAME=PATH`.
fn named(text: &str) -> Result<(String, PathBuf)> {
    if let (Some(name), path) = split_name(text) {
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
        log_connections: settings.log_connections.unwrap_or_default(),
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

/// The workers, if any are named.
async fn cluster(settings: &Settings) -> Result<Option<Cluster>> {
    let files = (
        &settings.workers_tls_certificate,
        &settings.workers_tls_key,
        &settings.workers_tls_authority,
    );
    let tls = match files {
        (None, None, None) => None,
        (Some(certificate), Some(key), Some(authority)) => Some(TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            authority: authority.clone(),
        }),
        _ => bail!(Usage(
            "workers are used over TLS with a certificate, its key and their authority\n\
             hint: give all of --workers-tls-certificate, --workers-tls-key and --workers-tls-authority"
                .to_owned()
        )),
    };
    let workers = settings.workers.as_deref().unwrap_or_default();
    if matches!(settings.policy, Some(Scheduling::By(_))) && !workers.is_empty() {
        bail!(Usage(
            "--policy is for queries that run here, and --workers has them run elsewhere\nhint: leave one of them out"
                .to_owned()
        ));
    }
    crate::cluster::connect(workers, tls.map(|files| files.read()).transpose()?).await
}

fn engine_config(
    settings: &Settings,
    data: DataConfig,
    rights: Arc<dyn Rights>,
    cluster: Option<Cluster>,
) -> Result<EngineConfig> {
    let machine = corun_topology::discover();
    let mut given = Vec::new();
    for text in settings.set.iter().flatten() {
        let Some((key, value)) = text.split_once('=') else {
            bail!(Usage(format!("--set {text} is not of the form KEY=VALUE")));
        };
        given.push((key.trim().to_owned(), value.trim().to_owned()));
    }
    let stock = settings.stock.unwrap_or_default();
    if stock && (cluster.is_some() || matches!(settings.policy, Some(Scheduling::By(_)))) {
        bail!(Usage(
            "DataFusion as it comes schedules nothing and has no workers\n\
             hint: leave --stock out, or --policy and --workers"
                .to_owned()
        ));
    }
    // Where workers run the queries, nothing is scheduled here.
    let coordinator = match stock || cluster.is_some() {
        true => None,
        false => settings.policy.unwrap_or_default().coordinator(&machine)?,
    };
    let coordinator = match (coordinator, settings.priority) {
        (None, Some(_)) => bail!(Usage(
            "--priority is for queries that are scheduled here, and they are not\n\
             hint: leave it out, or --policy off, --stock and --workers"
                .to_owned()
        )),
        (None, None) => None,
        (Some(options), given) => Some(CoordinatorOptions {
            priority: given.unwrap_or(Priority::Balanced),
            ..options
        }),
    };
    let config = match stock {
        true => EngineConfig::stock(data),
        false => EngineConfig::new(data),
    };
    Ok(EngineConfig {
        engine: EngineOptions {
            partitions: settings.partitions.unwrap_or(config.engine.partitions),
            memory_limit_bytes: settings.memory_limit.or_else(|| usual_memory(&machine.memory)),
            settings: given,
            ..config.engine
        },
        coordinator,
        statement_timeout: settings.statement_timeout,
        rights,
        log: StatementLog {
            min_duration: settings.log_min_duration,
            parameters: settings.log_parameters.unwrap_or_default(),
        },
        make: cluster.map(|cluster| MakeEngine::new(move |options| cluster.engine(options))),
        ..config
    })
}

/// Three quarters of what the machine, or the control group, has: stores, kept files and the system need the rest.
fn usual_memory(memory: &Memory) -> Option<usize> {
    let bytes = memory.limit.or(memory.total)?.0;
    usize::try_from(bytes / 4 * 3).ok()
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
