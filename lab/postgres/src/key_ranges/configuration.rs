//! The configuration of `corun proxy` for a side of a comparison, as text.

use std::fmt::Write;
use std::path::Path;

use super::ways::{Split, Ways};
use crate::pooler::address::Address;
use crate::pooler::{DATABASE, USER};

/// Connections to each server, the same for all sides.
pub const POOL: usize = 8;

/// One domain of keys and the columns that have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its name.
    pub name: &'static str,
    /// Columns as `table.column`.
    pub columns: &'static [&'static str],
    /// The least key.
    pub minimum: i64,
    /// The greatest key.
    pub maximum: i64,
}

/// A query that may be split, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Its text, with `$1` for what changes.
    pub query: String,
    /// The column, as `table.column`.
    pub key: &'static str,
    /// The least key.
    pub minimum: i64,
    /// The greatest key.
    pub maximum: i64,
}

/// What a proxy stands before, and what it is told about the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The server that writes go to.
    pub server: Address,
    /// Its copies.
    pub copies: Vec<Address>,
    /// Domains of keys.
    pub ranges: Vec<Range>,
    /// Queries that may be split.
    pub targets: Vec<Target>,
}

/// The beginning of `corun.toml`: where a proxy listens, how it pools, and, last, the server, to whose table more may be added.
pub fn beginning(listen: &Address, users: &Path, server: &Address, pool: usize) -> String {
    format!(
        r#"[proxy]
listen_addr = "127.0.0.1"
listen_port = {port}
unix_socket_dir = "{folder}"
auth_type = "trust"
auth_file = "{users}"
stats_users = ["{USER}"]
pool_mode = "transaction"
default_pool_size = {pool}
max_client_conn = 1000
server_idle_timeout = 0
log_connections = false
log_disconnections = false
log_stats = false

[databases.{DATABASE}]
host = "{host}"
port = {server_port}
"#,
        port = listen.port,
        folder = listen.folder.display(),
        users = users.display(),
        host = server.host(),
        server_port = server.port,
    )
}

/// `corun.toml`.
pub fn corun(listen: &Address, users: &Path, layout: &Layout, ways: &Ways) -> String {
    let Layout {
        server,
        copies,
        ranges,
        targets,
    } = layout;
    let mut text = beginning(listen, users, server, POOL);
    // Writing into a text cannot fail.
    if !copies.is_empty() {
        let copies: Vec<String> = copies
            .iter()
            .map(|copy| format!("\"{}:{}\"", copy.host(), copy.port))
            .collect();
        let _ = writeln!(text, "replicas = [{}]", copies.join(", "));
    }
    let _ = writeln!(text, "\n[corun]\ndispatch = \"{}\"", ways.dispatch);
    let _ = match ways.split {
        Split::Off => writeln!(text, "split = \"off\""),
        Split::Auto => writeln!(text, "split = \"auto\""),
        Split::Parts { parts, placement } => writeln!(
            text,
            "split = \"on\"\nsplit_parts = {parts}\nsplit_placement = \"{placement}\""
        ),
    };
    if let Some(copies) = ways.copies {
        let _ = writeln!(text, "read_write_split = true\nreplica_dispatch = \"{copies}\"");
    }
    for range in ranges {
        let columns: Vec<String> = range
            .columns
            .iter()
            .map(|column| format!("\"{column}\""))
            .collect();
        let _ = write!(
            text,
            "\n[ranges.{}]\ndatabase = \"{DATABASE}\"\ncolumns = [{}]\nkey_type = \"integer\"\nminimum = {}\nmaximum = {}\n",
            range.name,
            columns.join(", "),
            range.minimum,
            range.maximum
        );
    }
    for target in targets {
        let _ = write!(
            text,
            "\n[splits.{}]\ndatabase = \"{DATABASE}\"\nquery = \"{}\"\nkey = \"{}\"\nminimum = {}\nmaximum = {}\n",
            target.name, target.query, target.key, target.minimum, target.maximum
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_ranges::ways::{Kind, LineUp};
    use crate::pooler::address::Transport;

    #[test]
    fn a_side_is_told_its_ways_and_the_data() {
        let address = |port| Address {
            transport: Transport::Tcp,
            folder: "/run/a".into(),
            port,
        };
        let layout = Layout {
            server: address(20_002),
            copies: vec![address(20_003), address(20_004)],
            ranges: vec![Range {
                name: "item",
                columns: &["item.i_id", "order_line.ol_i_id"],
                minimum: 1,
                maximum: 100,
            }],
            targets: vec![Target {
                name: "best",
                query: "select $1".to_owned(),
                key: "item.i_id",
                minimum: 1,
                maximum: 100,
            }],
        };
        let text = |line_up: LineUp, place: usize| match line_up.sides[place].kind {
            Kind::Direct(_) => String::new(),
            Kind::Corun(ways) => corun(&address(20_001), Path::new("/run/users"), &layout, &ways),
        };
        let off = text(LineUp::mix(2), 1);
        for part in [
            "listen_port = 20001\n",
            "port = 20002\nreplicas = [\"127.0.0.1:20003\", \"127.0.0.1:20004\"]\n",
            "dispatch = \"off\"\nsplit = \"off\"\n",
            "[ranges.item]\ndatabase = \"postgres\"\ncolumns = [\"item.i_id\", \"order_line.ol_i_id\"]\nkey_type = \"integer\"\n",
            "[splits.best]\ndatabase = \"postgres\"\nquery = \"select $1\"\nkey = \"item.i_id\"\nminimum = 1\nmaximum = 100\n",
        ] {
            assert!(off.contains(part), "{part} in {off}");
        }
        assert!(!off.contains("replica_dispatch"));
        let parts = text(LineUp::mix(2), 4);
        assert!(parts.contains(
            "dispatch = \"range\"\nsplit = \"on\"\nsplit_parts = 4\nsplit_placement = \"spread\"\n"
        ));
        let copies = text(LineUp::copies(), 0);
        assert!(copies.contains("read_write_split = true\nreplica_dispatch = \"round-robin\"\n"));
    }
}
