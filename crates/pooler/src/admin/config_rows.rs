//! Rows of the console that the configuration alone fills.

use super::rows::{ConfigRow, DatabaseRow, UserRow};
use crate::config::{CONSOLE, Config, Effect, Key, PoolMode, Setting, User, WILDCARD};

/// `SHOW CONFIG`: the settings of `[proxy]` and `[corun]` by name. Truth is 1 and 0, as in PgBouncer.
pub fn config_rows(config: &Config) -> Vec<ConfigRow> {
    let row = |(key, value): (Key, String)| {
        let written = |text: &str| match text {
            "true" if key.kind == bool::KIND => "1".to_owned(),
            "false" if key.kind == bool::KIND => "0".to_owned(),
            text => text.to_owned(),
        };
        let changeable = if key.effect == Effect::Reload { "yes" } else { "no" };
        ConfigRow {
            key: key.name.to_owned(),
            value: written(&value),
            default: written(&key.default),
            changeable: changeable.to_owned(),
        }
    };
    let mut rows: Vec<ConfigRow> = config.global_settings().map(row).collect();
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    rows
}

/// `SHOW DATABASES`: the databases of the file and the console; the caller fills in the current numbers.
pub fn database_rows(config: &Config) -> Vec<DatabaseRow> {
    let proxy = &config.proxy;
    let mut rows: Vec<DatabaseRow> = config
        .databases
        .iter()
        .map(|(name, database)| DatabaseRow {
            name: name.clone(),
            host: Some(database.host.show()).filter(|hosts| !hosts.is_empty()),
            port: u64::from(database.port),
            database: database.dbname.clone().unwrap_or_else(|| {
                let fixed = name != WILDCARD;
                if fixed { name.clone() } else { String::new() }
            }),
            force_user: database.user.clone(),
            pool_size: u64::from(database.pool_size.unwrap_or(proxy.default_pool_size)),
            min_pool_size: u64::from(database.min_pool_size.unwrap_or(proxy.min_pool_size)),
            reserve_pool_size: u64::from(database.reserve_pool_size.unwrap_or(proxy.reserve_pool_size)),
            server_lifetime: database
                .server_lifetime
                .unwrap_or(proxy.server_lifetime)
                .as_secs(),
            pool_mode: database.pool_mode.map(|mode| mode.word().to_owned()),
            load_balance_hosts: (database.host.len() > 1)
                .then(|| database.load_balance_hosts.word().to_owned()),
            max_connections: u64::from(database.max_db_connections.unwrap_or(proxy.max_db_connections)),
            max_client_connections: u64::from(
                database
                    .max_db_client_connections
                    .unwrap_or(proxy.max_db_client_connections),
            ),
            ..DatabaseRow::default()
        })
        .collect();
    rows.push(DatabaseRow {
        name: CONSOLE.to_owned(),
        port: u64::from(proxy.listen_port),
        database: CONSOLE.to_owned(),
        force_user: Some(CONSOLE.to_owned()),
        pool_mode: Some(PoolMode::Statement.word().to_owned()),
        max_client_connections: u64::from(proxy.max_db_client_connections),
        ..DatabaseRow::default()
    });
    rows
}

/// A row of `SHOW USERS`, whether the configuration has a table for the user or not; the caller fills in the current numbers.
pub fn user_row(config: &Config, name: String) -> UserRow {
    let (proxy, nothing) = (&config.proxy, User::default());
    let user = config.users.get(&name).unwrap_or(&nothing);
    let clients_max = user.max_user_client_connections;
    UserRow {
        name,
        pool_size: user.pool_size.map(u64::from),
        reserve_pool_size: user.reserve_pool_size.map(u64::from),
        pool_mode: user.pool_mode.map(|mode| mode.word().to_owned()),
        max_user_connections: u64::from(user.max_user_connections.unwrap_or(proxy.max_user_connections)),
        max_user_client_connections: u64::from(clients_max.unwrap_or(proxy.max_user_client_connections)),
        ..UserRow::default()
    }
}
