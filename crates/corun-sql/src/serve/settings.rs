//! What `corun-sql serve` can be told, on the command line or in a file of TOML; the command line counts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::scheduling::Scheduling;
use anyhow::{Context, Result, bail};
use clap::Args;
use corun_cli::arguments::{byte_size, positive, positive_number};
use corun_cli::failure::Usage;
use corun_model::cache::coschedule::Priority;
use serde::{Deserialize, Deserializer, de::Error as _};

/// Longest file of settings.
const FILE_BYTES_MAX: u64 = 1 << 20;

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = positive_number(text)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "is too large".to_owned())
}

/// Seconds, of which 0 means always.
fn seconds_from(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(0.0) => Ok(Duration::ZERO),
        _ => seconds(text),
    }
}

/// Makes the structure once for the command line and once for the file, the names of its keys, and how both are one.
macro_rules! settings {
    ($($(#[$help:meta])* $name:ident: $type:ty, $key:literal;)*) => {
        /// The settings; those that are `None` were not given.
        #[derive(Debug, Default, Args, Deserialize)]
        pub struct Settings {
            $($(#[$help])* pub $name: Option<$type>,)*
        }

        impl Settings {
            /// Keys of the file.
            const KEYS: &[&str] = &["folders", $($key),*];

            /// These, and where one was not given that of `other`.
            fn or(self, other: Settings) -> Settings {
                Settings { $($name: self.$name.or(other.$name),)* }
            }
        }
    };
}

settings! {
    /// Where to listen; with port 0, any free port; may be a list [default: 127.0.0.1:5432].
    #[arg(long, value_name = "ADDRESS:PORT", value_delimiter = ',')]
    listen: Vec<SocketAddr>, "listen";

    /// Listen at a Unix socket in this folder, too, named as PostgreSQL names it.
    #[arg(long, value_name = "FOLDER")]
    socket: PathBuf, "socket";

    /// Users with their passwords' SCRAM verifiers, and what they may read; `corun-sql user add` writes it.
    #[arg(long, value_name = "FILE")]
    users: PathBuf, "users";

    /// Who may come from where, as PostgreSQL's pg_hba.conf.
    #[arg(long, value_name = "FILE")]
    hba: PathBuf, "hba";

    /// The server's certificate, and those between it and its authority (PEM).
    #[arg(long, value_name = "FILE")]
    tls_cert: PathBuf, "tls_cert";

    /// The certificate's key (PEM); nobody but its owner may read it.
    #[arg(long, value_name = "FILE")]
    tls_key: PathBuf, "tls_key";

    /// Let users log in without TLS from other machines; what they send and get can be read on the way.
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    allow_plaintext: bool, "allow_plaintext";

    /// Folders of transactional stores, each a database of its own that can be written to; made where there is none.
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    store: Vec<PathBuf>, "store";

    /// More folders whose files statements may name.
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    allow_read: Vec<PathBuf>, "allow_read";

    /// Folders that COPY ... TO 'file' may write into.
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    allow_write: Vec<PathBuf>, "allow_write";

    /// Memory that all queries may hold together, such as 2GiB [default: three quarters of the machine's].
    #[arg(long, value_name = "SIZE", value_parser = byte_size, allow_negative_numbers = true)]
    #[serde(deserialize_with = "bytes", default)]
    memory_limit: usize, "memory_limit";

    /// Partitions of a plan: how many threads one query can use [default: all cores].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    partitions: usize, "partitions";

    /// Which of the waiting queries is started next: fifo, sls, mls, learned, auto, or off for all at once [default: auto].
    #[arg(long, value_name = "POLICY", value_parser = Scheduling::parse)]
    #[serde(deserialize_with = "policy", default)]
    policy: Scheduling, "policy";

    /// Who goes first where short statements of transactions and long queries want the same CPUs: transactions, balanced, or analytics for nobody gives way [default: balanced].
    #[arg(long, value_name = "PRIORITY", value_parser = priority_name)]
    #[serde(deserialize_with = "priority", default)]
    priority: Priority, "priority";

    /// A setting of the engine that sessions begin with, as SET takes it; may be a list.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>, "set";

    /// Run statements over files on these workers (`corun-sql worker`), which read the same paths.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    workers: Vec<String>, "workers";

    /// The certificate that this server shows its workers (PEM).
    #[arg(long, value_name = "FILE")]
    workers_tls_certificate: PathBuf, "workers_tls_certificate";

    /// That certificate's key (PEM); nobody but its owner may read it.
    #[arg(long, value_name = "FILE")]
    workers_tls_key: PathBuf, "workers_tls_key";

    /// The authority that signed the certificates of the workers and that one (PEM).
    #[arg(long, value_name = "FILE")]
    workers_tls_authority: PathBuf, "workers_tls_authority";

    /// Plan and run statements as DataFusion comes, without corun's operators, shared work and scheduling: to compare.
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    stock: bool, "stock";

    /// Sessions in all [default: 1000].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    max_connections: usize, "max_connections";

    /// Sessions of one user [default: as many as there may be].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    max_user_connections: usize, "max_user_connections";

    /// Time that a statement may take where its session does not say otherwise [default: no limit].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    #[serde(deserialize_with = "time", default)]
    statement_timeout: Duration, "statement_timeout";

    /// Time between two statements after which a client is sent away [default: no limit].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    #[serde(deserialize_with = "time", default)]
    idle_timeout: Duration, "idle_timeout";

    /// Time that a client has to log in [default: 60].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    #[serde(deserialize_with = "time", default)]
    login_timeout: Duration, "login_timeout";

    /// Time that statements under way have when the server stops [default: 30].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    #[serde(deserialize_with = "time", default)]
    shutdown_timeout: Duration, "shutdown_timeout";

    /// Threads for sockets [default: 1].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    loops: usize, "loops";

    /// Drive sockets with io_uring instead of epoll.
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    io_uring: bool, "io_uring";

    /// Show metrics, a page of status and /status.json over HTTP here; whoever reaches the address sees all statements [default: nowhere].
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: SocketAddr, "metrics";

    /// Names under which others may ask for them, where --metrics is an address that they reach; * for any.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    metrics_host: Vec<String>, "metrics_host";

    /// Log statements that take at least so long; 0 for all [default: none].
    #[arg(long, value_name = "SECONDS", value_parser = seconds_from, allow_negative_numbers = true)]
    #[serde(deserialize_with = "time_from", default)]
    log_min_duration: Duration, "log_min_duration";

    /// With the values of their parameters.
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    log_parameters: bool, "log_parameters";

    /// Log connections and their ends.
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    log_connections: bool, "log_connections";

    /// Log one JSON object a line.
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    json: bool, "json";
}

/// A value of the file as the command line takes it: a number or a text.
fn value<'de, D: Deserializer<'de>, T>(
    from: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    let text = match toml::Value::deserialize(from)? {
        toml::Value::String(text) => text,
        other => other.to_string(),
    };
    let wrong = |why| D::Error::custom(format!("\"{text}\" {why}"));
    parse(&text).map(Some).map_err(wrong)
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    value(from, byte_size)
}

fn policy<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Scheduling>, D::Error> {
    value(from, Scheduling::parse)
}

fn priority_name(text: &str) -> Result<Priority, String> {
    let wrong = |_| format!("is none of {}", Priority::NAMES.join(", "));
    text.parse().map_err(wrong)
}

fn priority<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Priority>, D::Error> {
    value(from, priority_name)
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    value(from, seconds)
}

fn time_from<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    value(from, seconds_from)
}

/// A file: the settings, and the folders to show.
#[derive(Debug, Default, Deserialize)]
struct File {
    #[serde(default)]
    folders: Vec<String>,
    #[serde(flatten)]
    settings: toml::Table,
}

impl Settings {
    /// These, completed from a file; folders that the file names come with them. Paths in the file are relative to its folder.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown key, a value of another kind.
    pub fn with_file(self, path: &Path) -> Result<(Settings, Vec<String>)> {
        let context = || format!("cannot read {}", path.display());
        let found = std::fs::metadata(path).with_context(context)?;
        if found.len() > FILE_BYTES_MAX {
            bail!(Usage(format!(
                "{} has more than {FILE_BYTES_MAX} bytes",
                path.display()
            )));
        }
        let text = std::fs::read_to_string(path).with_context(context)?;
        let (settings, folders) = parse(&text).map_err(|why| Usage(format!("{}: {why}", path.display())))?;
        let base = path.parent().unwrap_or(Path::new(""));
        let folders = folders.iter().map(|folder| below(base, folder)).collect();
        Ok((self.or(settings.below(base)), folders))
    }

    /// With paths that begin where the file is.
    fn below(mut self, base: &Path) -> Settings {
        let one = [
            &mut self.socket,
            &mut self.users,
            &mut self.hba,
            &mut self.tls_cert,
            &mut self.tls_key,
            &mut self.workers_tls_certificate,
            &mut self.workers_tls_key,
            &mut self.workers_tls_authority,
        ];
        let lists = [&mut self.store, &mut self.allow_read, &mut self.allow_write];
        let all = lists.into_iter().flatten().flatten();
        for path in one.into_iter().flatten().chain(all) {
            *path = base.join(&*path);
        }
        self
    }
}

/// A folder, maybe with a name, that begins where the file is.
fn below(base: &Path, folder: &str) -> String {
    match folder.split_once('=') {
        Some((name, path)) => format!("{name}={}", base.join(path).display()),
        None => base.join(folder).display().to_string(),
    }
}

fn parse(text: &str) -> Result<(Settings, Vec<String>), String> {
    let file: File = toml::from_str(text).map_err(|error| with_line(text, &error))?;
    for key in file.settings.keys() {
        if !Settings::KEYS.contains(&key.as_str()) {
            let starts = |line: &str| {
                line.trim_start()
                    .trim_start_matches('[')
                    .starts_with(key.as_str())
            };
            let line = text.lines().position(starts).map_or(0, |at| at + 1);
            return Err(format!(
                "line {line}: unknown key \"{key}\"\nhint: {}",
                nearest(key)
            ));
        }
    }
    // Once more from the text, so that mistakes have their lines.
    let settings: Settings = toml::from_str(text).map_err(|error| with_line(text, &error))?;
    Ok((settings, file.folders))
}

/// A mistake in one line of text.
fn with_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}

/// The key that was probably meant.
fn nearest(given: &str) -> String {
    match corun_datafusion::nearest(given, Settings::KEYS) {
        Some(key) => format!("did you mean \"{key}\"?"),
        None => "`corun-sql serve --help` lists every option; keys are named so, with _ for -".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_what_the_command_line_has() {
        let text = "folders = [\"data\", \"s=sales\"]\nlisten = [\"127.0.0.1:0\"]\nmemory_limit = \"2GiB\"\n\
            policy = \"off\"\npriority = \"transactions\"\nstatement_timeout = 1.5\nlog_min_duration = 0\njson = true\nusers = \"users.toml\"\n";
        let (settings, folders) = parse(text).expect("right");
        assert_eq!(folders, ["data", "s=sales"]);
        assert_eq!(settings.memory_limit, Some(2 << 30));
        assert_eq!(settings.policy, Some(Scheduling::Off));
        assert_eq!(settings.priority, Some(Priority::Transactions));
        assert_eq!(settings.statement_timeout, Some(Duration::from_millis(1500)));
        assert_eq!(settings.log_min_duration, Some(Duration::ZERO));
        assert_eq!((settings.json, settings.loops), (Some(true), None));
        let settings = settings.below(Path::new("/etc/corun"));
        assert_eq!(settings.users, Some(PathBuf::from("/etc/corun/users.toml")));
        assert_eq!(below(Path::new("/etc"), "s=sales"), "s=/etc/sales");
        let given = Settings {
            memory_limit: Some(1),
            ..Settings::default()
        };
        let both = given.or(settings);
        assert_eq!((both.memory_limit, both.json), (Some(1), Some(true)));
    }

    #[test]
    fn the_shipped_file_is_right_also_with_its_examples_turned_on() {
        let shipped = include_str!("../../../../packaging/corun-sql-serve.toml");
        let (settings, folders) = parse(shipped).expect("right");
        assert_eq!(folders, ["data=/var/lib/corun-sql/data"]);
        assert_eq!(settings.metrics, None);
        // A commented-out setting is a line that begins with `#` and no blank.
        let on: Vec<&str> = shipped
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(setting) if !setting.starts_with(' ') => setting,
                _ => line,
            })
            .collect();
        let (settings, _) = parse(&on.join("\n")).expect("right");
        assert!(settings.metrics.is_some() && settings.hba.is_some());
    }

    #[test]
    fn mistakes_name_line_and_nearest_key() {
        let wrong = parse("loops = 2\n\nmax_conections = 3\n").expect_err("unknown");
        assert_eq!(
            wrong,
            "line 3: unknown key \"max_conections\"\nhint: did you mean \"max_connections\"?"
        );
        for (text, part) in [
            ("policy = \"best\"", "is none of fifo"),
            (
                "priority = \"high\"",
                "is none of transactions, balanced, analytics",
            ),
            ("loops = \"many\"", "line 1"),
            ("memory_limit = \"much\"", "is not an amount of memory"),
            ("statement_timeout = 0", "must be above 0"),
            ("log_min_duration = -1", "must be above 0"),
            ("loops = ", "line 1"),
            ("[serve]\nloops = 1", "line 1: unknown key \"serve\""),
        ] {
            let wrong = parse(text).expect_err(text);
            assert!(wrong.contains(part), "{wrong}");
        }
    }
}
