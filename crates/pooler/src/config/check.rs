//! What settings mean together: contradictions, missing halves, files that are not there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use corun_model::cache::partition::Class;

use super::choices::{AuthType, Dispatch, HeavyQueuePolicy, PoolMode, Switch};
use super::finding::Findings;
use super::host::Host;
use super::{CONSOLES, Config, Proxy, WILDCARD};
use crate::keys::{Column, map_of};
use corun_wire::tls::TlsMode;

/// Run time below which what the queue costs itself is no small part of a query's any more (`corun_model::pooler::queue_cost`).
const HEAVY_QUEUE_MIN_SENSIBLE: Duration = Duration::from_millis(10);

/// How to say where keys are cut.
const CUT_HINT: &str =
    "write splits = [1000, 2000], or minimum and maximum; `corun proxy learn` proposes them";

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
pub(super) fn check(config: &Config, found: &mut Findings) {
    check_listening(&config.proxy, found);
    check_auth(config, found);
    check_tls(&config.proxy, found);
    check_databases(config, found);
    check_ranges(config, found);
    check_splits(config, found);
    check_heavy_queue(config, found);
    check_peers(config, found);
}

fn check_listening(proxy: &Proxy, found: &mut Findings) {
    let socket = &proxy.unix_socket_dir;
    if proxy.listen_addr.is_empty() && socket.is_empty() {
        found.error(
            "proxy.listen_addr",
            "nobody could connect: neither `listen_addr` nor `unix_socket_dir` is set",
            "set `listen_addr = \"127.0.0.1\"`, or \"*\" for all addresses",
        );
    }
    if !socket.is_empty() && !socket.starts_with(['/', '@']) {
        found.error(
            "proxy.unix_socket_dir",
            "`unix_socket_dir` is not an absolute path",
            "write a path that starts with /, or @ for the abstract namespace",
        );
    }
}

fn check_auth(config: &Config, found: &mut Findings) {
    let proxy = &config.proxy;
    let (auth_type, databases) = (proxy.auth_type, &config.databases);
    let has_users = proxy.auth_file.is_some()
        || proxy.auth_user.is_some()
        || databases.values().any(|database| database.auth_user.is_some())
        || config.users.values().any(|user| user.password.is_some());
    if !has_users && auth_type != AuthType::Any {
        found.error(
            "proxy.auth_file",
            "no user could log in: no `auth_file`, no `auth_user`, and no `[users.NAME]` with a password",
            "set `auth_file` to a file of lines such as: \"alice\" \"SCRAM-SHA-256$...\"",
        );
    }
    for (name, database) in databases {
        if auth_type == AuthType::Any && database.user.is_none() {
            found.error(
                &format!("databases.{name}"),
                format!("`auth_type = \"any\"` needs a `user` in [databases.\"{name}\"]"),
                "with \"any\" the client's own name is not trusted and cannot be used on the server",
            );
        }
    }
    if auth_type == AuthType::Hba && proxy.auth_hba_file.is_none() {
        found.error(
            "proxy.auth_type",
            "`auth_type = \"hba\"` needs `auth_hba_file`",
            "name a file in the format of pg_hba.conf",
        );
    }
    if auth_type != AuthType::Hba && proxy.auth_hba_file.is_some() {
        found.warning(
            "proxy.auth_hba_file",
            "`auth_hba_file` is not used",
            "set `auth_type = \"hba\"` to have its rules decide",
        );
    }
    if auth_type == AuthType::Cert && !proxy.client_tls_sslmode.verifies() {
        found.error(
            "proxy.auth_type",
            "`auth_type = \"cert\"` without checked certificates would let anybody in",
            "set `client_tls_sslmode = \"verify-full\"` and `client_tls_ca_file`",
        );
    }
    if auth_type == AuthType::Plain && !proxy.client_tls_sslmode.required() {
        found.warning(
            "proxy.auth_type",
            "`auth_type = \"plain\"` sends passwords in clear text",
            "use \"scram-sha-256\", or `client_tls_sslmode = \"require\"`",
        );
    }
    if matches!(auth_type, AuthType::Any | AuthType::Trust) && !proxy.listen_addr.is_empty() {
        let word = auth_type.word();
        found.warning(
            "proxy.auth_type",
            format!("`auth_type = \"{word}\"` on a TCP address lets everybody in who reaches it"),
            "use \"scram-sha-256\" unless a firewall decides who reaches it",
        );
    }
    if let Some(name) = proxy
        .auth_dbname
        .as_deref()
        .filter(|name| CONSOLES.contains(name))
    {
        found.warning(
            "proxy.auth_dbname",
            format!("cannot use the reserved \"{name}\" database as an auth_dbname"),
            "name a database of the server: logins that need it fail",
        );
    }
    let of_databases = databases
        .iter()
        .filter_map(|(name, database)| Some((format!("databases.{name}"), database.auth_query.as_ref()?)));
    for (table, query) in std::iter::once(("proxy".to_owned(), &proxy.auth_query)).chain(of_databases) {
        if !query.contains("$1") {
            found.warning(
                &format!("{table}.auth_query"),
                "`auth_query` has no `$1`",
                "$1 stands for the name of the user who logs in",
            );
        }
    }
}

fn check_tls(proxy: &Proxy, found: &mut Findings) {
    if proxy.client_tls_sslmode != TlsMode::Disable {
        for (key, file) in [
            ("client_tls_key_file", &proxy.client_tls_key_file),
            ("client_tls_cert_file", &proxy.client_tls_cert_file),
        ] {
            if file.is_none() {
                let word = proxy.client_tls_sslmode.word();
                found.error(
                    "proxy.client_tls_sslmode",
                    format!("`client_tls_sslmode = \"{word}\"` needs `{key}`"),
                    "TLS needs a key and its certificate, both PEM",
                );
            }
        }
    }
    for (side, mode, file) in [
        ("client", proxy.client_tls_sslmode, &proxy.client_tls_ca_file),
        ("server", proxy.server_tls_sslmode, &proxy.server_tls_ca_file),
    ] {
        if mode.verifies() && file.is_none() {
            let key = format!("{side}_tls_sslmode");
            found.error(
                &format!("proxy.{key}"),
                format!("`{key} = \"{}\"` needs `{side}_tls_ca_file`", mode.word()),
                "certificates are checked against the authorities in this file",
            );
        }
    }
    if proxy.server_tls_key_file.is_some() != proxy.server_tls_cert_file.is_some() {
        found.error(
            "proxy.server_tls_key_file",
            "`server_tls_key_file` and `server_tls_cert_file` go together",
            "set both, or neither",
        );
    }
}

fn check_databases(config: &Config, found: &mut Findings) {
    if config.databases.is_empty() {
        found.warning(
            "databases",
            "there is no database to connect to, only the console",
            "add [databases.NAME] with `host`, or [databases.\"*\"] for every name",
        );
    }
    for (name, database) in &config.databases {
        let table = format!("databases.{name}");
        if database.host.is_empty() && config.proxy.unix_socket_dir.is_empty() {
            found.error(
                &table,
                format!("[databases.\"{name}\"] has no `host`, and `unix_socket_dir` is empty"),
                "set `host`",
            );
        }
        if database.password.is_some() && database.user.is_none() {
            found.warning(
                &format!("{table}.password"),
                "`password` without `user` is not used",
                "clients log in under their own names; set `user` to have one for all, or put passwords into `auth_file`",
            );
        }
        if name == WILDCARD && database.dbname.is_some() {
            found.warning(
                &format!("{table}.dbname"),
                "every name without a table of its own leads to this one database",
                "leave `dbname` out to use the name the client asks for",
            );
        }
        let size = database.pool_size.unwrap_or(config.proxy.default_pool_size);
        let min = database.min_pool_size.unwrap_or(config.proxy.min_pool_size);
        if min > size {
            let own = database.min_pool_size.is_some();
            let key = if own { "min_pool_size" } else { "pool_size" };
            found.warning(
                &format!("{table}.{key}"),
                format!("`min_pool_size` {min} is more than the pool's {size} connections"),
                "the pool's size is the limit",
            );
        }
        let limit = database
            .max_db_connections
            .unwrap_or(config.proxy.max_db_connections);
        if limit > 0 && limit < size {
            found.warning(
                &format!("{table}.max_db_connections"),
                format!("the pool's {size} connections never fit below `max_db_connections` {limit}"),
                "make the pool smaller or the limit larger",
            );
        }
        let split = database.read_write_split.unwrap_or(config.corun.read_write_split);
        if database.read_write_split == Some(true) && database.replicas.is_empty() {
            found.warning(
                &format!("{table}.read_write_split"),
                "`read_write_split` has no `replicas` to send reads to",
                "write a list: replicas = [\"replica1:5432\"]",
            );
        }
        if !database.replicas.is_empty() && !split {
            found.warning(
                &format!("{table}.replicas"),
                "`replicas` get no reads and stand by for failover only",
                "set `read_write_split = true` to send them statements that only read",
            );
        }
    }
}

/// Refuses a table whose database does not exist: its settings would never apply.
fn check_database_of(config: &Config, found: &mut Findings, table: &str, database: &str) {
    if database.is_empty() {
        found.error(table, "`database` is missing", "name one of [databases.NAME]");
    } else if !config.databases.contains_key(database) && !config.databases.contains_key(WILDCARD) {
        let what = format!("there is no database `{database}`");
        let names: Vec<&str> = config.databases.keys().map(String::as_str).collect();
        let hint = format!("the databases are: {}", names.join(", "));
        found.error(&format!("{table}.database"), what, &hint);
    }
}

fn check_ranges(config: &Config, found: &mut Findings) {
    let mut columns: BTreeMap<(String, Column), String> = BTreeMap::new();
    for (name, range) in &config.ranges {
        let table = format!("ranges.{name}");
        check_database_of(config, found, &table, &range.database);
        if range.columns.is_empty() {
            let hint = "name the columns that have these keys: columns = [\"customer.c_id\"]";
            found.error(&table, "`columns` is missing", hint);
        }
        for text in &range.columns {
            let place = format!("{table}.columns");
            let Some(column) = Column::parse(text) else {
                let what = format!("`{text}` names no column");
                found.error(&place, what, "write \"table.column\" or \"schema.table.column\"");
                continue;
            };
            if let Some(other) = columns.insert((range.database.clone(), column), name.clone()) {
                let what = format!("`{text}` stands in [ranges.{other}] as well");
                found.error(&place, what, "a column belongs to one range");
            }
        }
        if let Err((key, what)) = map_of(range, 1) {
            found.error(&format!("{table}.{key}"), what, CUT_HINT);
        }
        let effective = config.effective_database(&range.database, "");
        if let Some(effective) = effective
            && effective.dispatch != Dispatch::Off
            && effective.pool_mode != PoolMode::Transaction
        {
            let what = format!(
                "ranges do not decide where a {} runs: its server is chosen before its keys are known",
                effective.pool_mode.word()
            );
            found.warning(&table, what, "set `pool_mode = \"transaction\"`");
        }
    }
}

fn check_splits(config: &Config, found: &mut Findings) {
    for (name, split) in &config.splits {
        let table = format!("splits.{name}");
        check_database_of(config, found, &table, &split.database);
        if Column::parse(&split.key).is_none() {
            let what = format!("`{}` names no column", split.key);
            let hint = "write key = \"table.column\" or \"schema.table.column\"";
            found.error(&format!("{table}.key"), what, hint);
        }
        if split.query.trim().is_empty() {
            found.error(&table, "`query` is missing", "write the text of the query");
        }
        let even = split.minimum.zip(split.maximum);
        if split.splits.is_empty() && even.is_none_or(|(minimum, maximum)| minimum >= maximum) {
            let what = "neither `splits` nor `minimum` below `maximum` say where to cut";
            found.error(&table, what, CUT_HINT);
        }
    }
}

fn check_peers(config: &Config, found: &mut Findings) {
    for (id, peer) in &config.peers {
        let table = format!("peers.{id}");
        let number = id.parse::<u16>().ok().filter(|number| *number > 0);
        if number.is_none_or(|number| number.to_string() != *id) {
            let hint = "name the table by the `peer_id` of the other process: [peers.2]";
            found.error(&table, format!("`{id}` is no number from 1 to 65535"), hint);
        }
        if peer.host.is_empty() {
            let hint = "name the other process's machine, or the folder of its Unix socket";
            found.error(&table, "`host` is missing", hint);
        } else if let Err(expected) = Host::parse(&peer.host) {
            found.error(
                &format!("{table}.host"),
                format!("`host` takes {expected}"),
                "a peer has one `host`",
            );
        }
    }
    if config.proxy.peer_id == 0 && !config.peers.is_empty() {
        found.warning(
            "peers",
            "[peers.ID] are not used: `peer_id` is 0",
            "give each process a `peer_id` of its own, and the others a table with that number",
        );
    }
}

/// Looks at the files the settings name, and at who can read the passwords in this one.
pub(super) fn check_files(config: &Config, file: &Path, found: &mut Findings) {
    let mut proxy = config.proxy.clone();
    for (key, file) in files(&mut proxy) {
        let Some(file) = file else { continue };
        if let Err(error) = std::fs::File::open(&*file) {
            let place = format!("proxy.{key}");
            let what = format!("`{key}`: cannot read {}: {error}", file.display());
            let hint = "paths are relative to the folder of the configuration file";
            // One that is for later harms nobody now.
            match key.starts_with("auth_hba") && config.proxy.auth_type != AuthType::Hba {
                true => found.warning(&place, what, hint),
                false => found.error(&place, what, hint),
            }
        }
    }
    let secret = config
        .databases
        .values()
        .any(|database| database.password.is_some())
        || config.users.values().any(|user| user.password.is_some());
    if secret && corun_wire::tls::readable_by_others(file).is_some() {
        found.warning(
            "",
            "the file has passwords in it, and every user of this machine can read the file",
            "take the right away: chmod o-r FILE",
        );
    }
}

fn check_heavy_queue(config: &Config, found: &mut Findings) {
    let corun = &config.corun;
    let group = Path::new("/sys/fs/resctrl").join(Class::Weak.group());
    if corun.heavy_queue_policy == HeavyQueuePolicy::Mls && !group.is_dir() {
        found.warning(
            "corun.heavy_queue_policy",
            "`heavy_queue_policy = \"mls\"` pairs queries that harm each other, which pays only in a partitioned last-level cache; this \
             cache is not partitioned, and the pooler follows `sls`",
            "partition the cache with `corun partition apply` where the machine can, or set heavy_queue_policy = \"auto\"",
        );
    }
    let on = |switch: Option<Switch>| switch.is_some_and(|switch| switch != Switch::Off);
    let wanted = on(Some(corun.heavy_queue))
        || config.databases.values().any(|database| on(database.heavy_queue))
        || config.users.values().any(|user| on(user.heavy_queue));
    if wanted && corun.heavy_queue_min < HEAVY_QUEUE_MIN_SENSIBLE {
        found.warning(
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
