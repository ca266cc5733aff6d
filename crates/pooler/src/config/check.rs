//! What settings mean together: contradictions, missing halves, files that are not there.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use corun_model::cache::partition::Class;

use super::choices::{AuthType, Dispatch, HeavyQueuePolicy, PoolMode, Switch, TlsMode};
use super::finding::Severity::{Error, Warning};
use super::read::Reading;
use super::{Config, Proxy, WILDCARD};
use crate::keys::{Column, map_of};

/// Run time below which what the queue costs itself is no small part of a query's any more (`corun_model::pooler::queue_cost`).
const HEAVY_QUEUE_MIN_SENSIBLE: Duration = Duration::from_millis(10);

/// Keys of `[proxy]` that name a file, with the field.
fn files(proxy: &mut Proxy) -> [(&'static str, &mut Option<PathBuf>); 9] {
    [
        ("auth_file", &mut proxy.auth_file),
        ("auth_hba_file", &mut proxy.auth_hba_file),
        ("auth_ident_file", &mut proxy.auth_ident_file),
        ("client_tls_key_file", &mut proxy.client_tls_key_file),
        ("client_tls_cert_file", &mut proxy.client_tls_cert_file),
        ("client_tls_ca_file", &mut proxy.client_tls_ca_file),
        ("server_tls_key_file", &mut proxy.server_tls_key_file),
        ("server_tls_cert_file", &mut proxy.server_tls_cert_file),
        ("server_tls_ca_file", &mut proxy.server_tls_ca_file),
    ]
}

/// Makes paths relative to the folder of the file that names them.
pub(super) fn resolve_paths(config: &mut Config, folder: &Path) {
    for (_, file) in files(&mut config.proxy) {
        if let Some(file) = file {
            // Joining an absolute path gives that path.
            *file = folder.join(&*file);
        }
    }
}

/// Checks the settings against each other.
pub(super) fn check(reading: &mut Reading) {
    check_listening(reading);
    check_auth(reading);
    check_tls(reading);
    check_databases(reading);
    check_ranges(reading);
    check_splits(reading);
    check_heavy_queue(reading);
}

fn check_listening(reading: &mut Reading) {
    let proxy = &reading.config.proxy;
    let deaf = proxy.listen_addr.is_empty() && proxy.unix_socket_dir.is_empty();
    let socket = &proxy.unix_socket_dir;
    let relative = !socket.is_empty() && !socket.starts_with(['/', '@']);
    if deaf {
        reading.found(
            Error,
            "proxy.listen_addr",
            "nobody could connect: neither `listen_addr` nor `unix_socket_dir` is set".to_owned(),
            "set `listen_addr = \"127.0.0.1\"`, or \"*\" for all addresses",
        );
    }
    if relative {
        reading.found(
            Error,
            "proxy.unix_socket_dir",
            "`unix_socket_dir` is not an absolute path".to_owned(),
            "write a path that starts with /, or @ for the abstract namespace",
        );
    }
}

fn check_auth(reading: &mut Reading) {
    let config = &reading.config;
    let auth_type = config.proxy.auth_type;
    let has_users = config.proxy.auth_file.is_some()
        || config.proxy.auth_user.is_some()
        || config
            .databases
            .values()
            .any(|database| database.auth_user.is_some())
        || config.users.values().any(|user| user.password.is_some());
    let anybody = AuthType::Any == auth_type;
    let unforced: Vec<String> = config
        .databases
        .iter()
        .filter(|(_, database)| anybody && database.user.is_none())
        .map(|(name, _)| name.clone())
        .collect();
    let hba_missing = auth_type == AuthType::Hba && config.proxy.auth_hba_file.is_none();
    let hba_unused = auth_type != AuthType::Hba && config.proxy.auth_hba_file.is_some();
    let cert_unchecked = auth_type == AuthType::Cert && !config.proxy.client_tls_sslmode.verifies();
    let clear_text = auth_type == AuthType::Plain && !config.proxy.client_tls_sslmode.required();
    let open = matches!(auth_type, AuthType::Any | AuthType::Trust) && !config.proxy.listen_addr.is_empty();
    let queries: Vec<String> = std::iter::once(("proxy".to_owned(), Some(&config.proxy.auth_query)))
        .chain(
            config
                .databases
                .iter()
                .map(|(name, database)| (format!("databases.{name}"), database.auth_query.as_ref())),
        )
        .filter(|(_, query)| query.is_some_and(|query| !query.contains("$1")))
        .map(|(table, _)| format!("{table}.auth_query"))
        .collect();

    if !has_users && !anybody {
        reading.found(
            Error,
            "proxy.auth_file",
            "no user could log in: no `auth_file`, no `auth_user`, and no `[users.NAME]` with a password"
                .to_owned(),
            "set `auth_file` to a file of lines such as: \"alice\" \"SCRAM-SHA-256$...\"",
        );
    }
    for name in unforced {
        reading.found(
            Error,
            &format!("databases.{name}"),
            format!("`auth_type = \"any\"` needs a `user` in [databases.\"{name}\"]"),
            "with \"any\" the client's own name is not trusted and cannot be used on the server",
        );
    }
    if hba_missing {
        reading.found(
            Error,
            "proxy.auth_type",
            "`auth_type = \"hba\"` needs `auth_hba_file`".to_owned(),
            "name a file in the format of pg_hba.conf",
        );
    }
    if hba_unused {
        reading.found(
            Warning,
            "proxy.auth_hba_file",
            "`auth_hba_file` is not used".to_owned(),
            "set `auth_type = \"hba\"` to have its rules decide",
        );
    }
    if cert_unchecked {
        reading.found(
            Error,
            "proxy.auth_type",
            "`auth_type = \"cert\"` without checked certificates would let anybody in".to_owned(),
            "set `client_tls_sslmode = \"verify-full\"` and `client_tls_ca_file`",
        );
    }
    if clear_text {
        reading.found(
            Warning,
            "proxy.auth_type",
            "`auth_type = \"plain\"` sends passwords in clear text".to_owned(),
            "use \"scram-sha-256\", or `client_tls_sslmode = \"require\"`",
        );
    }
    if open {
        reading.found(
            Warning,
            "proxy.auth_type",
            format!(
                "`auth_type = \"{}\"` on a TCP address lets everybody in who reaches it",
                auth_type.word()
            ),
            "use \"scram-sha-256\" unless a firewall decides who reaches it",
        );
    }
    for query in queries {
        reading.found(
            Error,
            &query,
            "`auth_query` has no `$1`".to_owned(),
            "$1 stands for the name of the user who logs in",
        );
    }
}

fn check_tls(reading: &mut Reading) {
    let proxy = reading.config.proxy.clone();
    if proxy.client_tls_sslmode != TlsMode::Disable {
        for (key, file) in [
            ("client_tls_key_file", &proxy.client_tls_key_file),
            ("client_tls_cert_file", &proxy.client_tls_cert_file),
        ] {
            if file.is_none() {
                reading.found(
                    Error,
                    "proxy.client_tls_sslmode",
                    format!(
                        "`client_tls_sslmode = \"{}\"` needs `{key}`",
                        proxy.client_tls_sslmode.word()
                    ),
                    "TLS needs a key and its certificate, both PEM",
                );
            }
        }
    }
    for (mode_key, mode, key, file) in [
        (
            "client_tls_sslmode",
            proxy.client_tls_sslmode,
            "client_tls_ca_file",
            &proxy.client_tls_ca_file,
        ),
        (
            "server_tls_sslmode",
            proxy.server_tls_sslmode,
            "server_tls_ca_file",
            &proxy.server_tls_ca_file,
        ),
    ] {
        if mode.verifies() && file.is_none() {
            reading.found(
                Error,
                &format!("proxy.{mode_key}"),
                format!("`{mode_key} = \"{}\"` needs `{key}`", mode.word()),
                "certificates are checked against the authorities in this file",
            );
        }
    }
    if proxy.server_tls_key_file.is_some() != proxy.server_tls_cert_file.is_some() {
        reading.found(
            Error,
            "proxy.server_tls_key_file",
            "`server_tls_key_file` and `server_tls_cert_file` go together".to_owned(),
            "set both, or neither",
        );
    }
}

fn check_databases(reading: &mut Reading) {
    let config = reading.config.clone();
    if config.databases.is_empty() {
        reading.found(
            Warning,
            "databases",
            "there is no database to connect to, only the console".to_owned(),
            "add [databases.NAME] with `host`, or [databases.\"*\"] for every name",
        );
    }
    for (name, database) in &config.databases {
        let table = format!("databases.{name}");
        if database.host.is_empty() && config.proxy.unix_socket_dir.is_empty() {
            reading.found(
                Error,
                &table,
                format!("[databases.\"{name}\"] has no `host`, and `unix_socket_dir` is empty"),
                "set `host`",
            );
        }
        if database.password.is_some() && database.user.is_none() {
            reading.found(
                Warning,
                &format!("{table}.password"),
                "`password` without `user` is not used".to_owned(),
                "clients log in under their own names; set `user` to have one for all, or put passwords into `auth_file`",
            );
        }
        if name == WILDCARD && database.dbname.is_some() {
            reading.found(
                Warning,
                &format!("{table}.dbname"),
                "every name without a table of its own leads to this one database".to_owned(),
                "leave `dbname` out to use the name the client asks for",
            );
        }
        let size = database.pool_size.unwrap_or(config.proxy.default_pool_size);
        let min = database.min_pool_size.unwrap_or(config.proxy.min_pool_size);
        if min > size {
            let key = if database.min_pool_size.is_some() {
                format!("{table}.min_pool_size")
            } else {
                format!("{table}.pool_size")
            };
            reading.found(
                Warning,
                &key,
                format!("`min_pool_size` {min} is more than the pool's {size} connections"),
                "the pool's size is the limit",
            );
        }
        let limit = database
            .max_db_connections
            .unwrap_or(config.proxy.max_db_connections);
        if limit > 0 && limit < size {
            reading.found(
                Warning,
                &format!("{table}.max_db_connections"),
                format!("the pool's {size} connections never fit below `max_db_connections` {limit}"),
                "make the pool smaller or the limit larger",
            );
        }
        let split = database.read_write_split.unwrap_or(config.corun.read_write_split);
        if database.read_write_split == Some(true) && database.replicas.is_empty() {
            reading.found(
                Warning,
                &format!("{table}.read_write_split"),
                "`read_write_split` has no `replicas` to send reads to".to_owned(),
                "write a list: replicas = [\"replica1:5432\"]",
            );
        }
        if !database.replicas.is_empty() && !split {
            reading.found(
                Warning,
                &format!("{table}.replicas"),
                "`replicas` get no reads and stand by for failover only".to_owned(),
                "set `read_write_split = true` to send them statements that only read",
            );
        }
    }
}

/// Whether clients can ask for a database of this name.
fn is_database(config: &Config, name: &str) -> bool {
    config.databases.contains_key(name) || config.databases.contains_key(WILDCARD)
}

/// Refuses a database that there is not; what stands behind it would never hold.
fn check_database_of(reading: &mut Reading, table: &str, database: &str) {
    if database.is_empty() {
        let what = "`database` is missing".to_owned();
        reading.found(Error, table, what, "name one of [databases.NAME]");
    } else if !is_database(&reading.config, database) {
        let what = format!("there is no database `{database}`");
        let names: Vec<&str> = reading.config.databases.keys().map(String::as_str).collect();
        let hint = format!("the databases are: {}", names.join(", "));
        reading.found(Error, &format!("{table}.database"), what, &hint);
    }
}

fn check_ranges(reading: &mut Reading) {
    let mut columns: BTreeMap<(String, Column), String> = BTreeMap::new();
    for (name, range) in reading.config.ranges.clone() {
        let table = format!("ranges.{name}");
        check_database_of(reading, &table, &range.database);
        if range.columns.is_empty() {
            let what = "`columns` is missing".to_owned();
            reading.found(
                Error,
                &table,
                what,
                "name the columns that have these keys: columns = [\"customer.c_id\"]",
            );
        }
        for text in &range.columns {
            let place = format!("{table}.columns");
            let Some(column) = Column::parse(text) else {
                let what = format!("`{text}` names no column");
                reading.found(
                    Error,
                    &place,
                    what,
                    "write \"table.column\" or \"schema.table.column\"",
                );
                continue;
            };
            if let Some(other) = columns.insert((range.database.clone(), column), name.clone()) {
                let what = format!("`{text}` stands in [ranges.{other}] as well");
                reading.found(Error, &place, what, "a column belongs to one range");
            }
        }
        if let Err((key, what)) = map_of(&range, 1) {
            let hint =
                "write splits = [1000, 2000], or minimum and maximum; `corun proxy learn` proposes them";
            reading.found(Error, &format!("{table}.{key}"), what, hint);
        }
        let effective = reading.config.effective_database(&range.database, "");
        if let Some(effective) = effective
            && effective.dispatch != Dispatch::Off
            && effective.pool_mode != PoolMode::Transaction
        {
            let what = format!(
                "ranges do not decide where a {} runs: its server is chosen before its keys are known",
                effective.pool_mode.word()
            );
            reading.found(Warning, &table, what, "set `pool_mode = \"transaction\"`");
        }
    }
}

fn check_splits(reading: &mut Reading) {
    for (name, split) in reading.config.splits.clone() {
        let table = format!("splits.{name}");
        check_database_of(reading, &table, &split.database);
        if Column::parse(&split.key).is_none() {
            let what = format!("`{}` names no column", split.key);
            let hint = "write key = \"table.column\" or \"schema.table.column\"";
            reading.found(Error, &format!("{table}.key"), what, hint);
        }
        if split.query.trim().is_empty() {
            reading.found(
                Error,
                &table,
                "`query` is missing".to_owned(),
                "write the text of the query",
            );
        }
        let even = split.minimum.zip(split.maximum);
        if split.splits.is_empty() && even.is_none_or(|(minimum, maximum)| minimum >= maximum) {
            let what = "neither `splits` nor `minimum` below `maximum` say where to cut".to_owned();
            let hint =
                "write splits = [1000, 2000], or minimum and maximum; `corun proxy learn` proposes them";
            reading.found(Error, &table, what, hint);
        }
    }
}

/// Looks at the files the settings name, and at who can read the passwords in this one.
pub(super) fn check_files(reading: &mut Reading, file: &Path) {
    let mut proxy = reading.config.proxy.clone();
    for (key, file) in files(&mut proxy) {
        let Some(file) = file else { continue };
        if let Err(error) = std::fs::File::open(&*file) {
            reading.found(
                Error,
                &format!("proxy.{key}"),
                format!("`{key}`: cannot read {}: {error}", file.display()),
                "paths are relative to the folder of the configuration file",
            );
        }
    }
    let config = &reading.config;
    let secret = config
        .databases
        .values()
        .any(|database| database.password.is_some())
        || config.users.values().any(|user| user.password.is_some());
    let open = std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o004 != 0);
    if secret && open {
        reading.found(
            Warning,
            "",
            "the file has passwords in it, and every user of this machine can read the file".to_owned(),
            "take the right away: chmod o-r FILE",
        );
    }
}

fn check_heavy_queue(reading: &mut Reading) {
    let corun = reading.config.corun.clone();
    let group = Path::new("/sys/fs/resctrl").join(Class::Weak.group());
    if corun.heavy_queue_policy == HeavyQueuePolicy::Mls && !group.is_dir() {
        reading.found(
            Warning,
            "corun.heavy_queue_policy",
            "`heavy_queue_policy = \"mls\"` pairs queries that harm each other, which pays only in a partitioned last-level cache; this \
             cache is not partitioned, and the pooler follows `sls`"
                .to_owned(),
            "partition the cache with `corun partition apply` where the machine can, or set heavy_queue_policy = \"auto\"",
        );
    }
    let on = |switch: Option<Switch>| switch.is_some_and(|switch| switch != Switch::Off);
    let wanted = on(Some(corun.heavy_queue))
        || reading
            .config
            .databases
            .values()
            .any(|database| on(database.heavy_queue))
        || reading.config.users.values().any(|user| on(user.heavy_queue));
    if wanted && corun.heavy_queue_min < HEAVY_QUEUE_MIN_SENSIBLE {
        reading.found(
            Warning,
            "corun.heavy_queue_min",
            format!(
                "`heavy_queue_min` is {:?}: a question about a plan takes some milliseconds, and a core is idle for about half a millisecond between a query \
                 of the queue and the next; queries of less than 10 ms therefore run past the queue, whatever `heavy_queue_min` says",
                corun.heavy_queue_min
            ),
            "set heavy_queue_min = \"50ms\", or the run time of the shortest query that is worth a question to the server; a comment can still put a query \
             into the queue",
        );
    }
}
