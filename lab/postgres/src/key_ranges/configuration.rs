//! What `corun proxy` is told for a side of a comparison beside what every pooler is ([`crate::fixture::configuration`]), as text.

use std::fmt::Write;

use super::ways::{Split, Ways};
use crate::fixture::DATABASE;
use crate::fixture::address::Address;

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

impl Layout {
    /// A server without copies, whose columns of one domain of keys are these.
    pub fn of(
        server: &Address,
        name: &'static str,
        columns: &'static [&'static str],
        maximum: i64,
    ) -> Layout {
        Layout {
            server: server.clone(),
            copies: Vec::new(),
            ranges: vec![Range {
                name,
                columns,
                minimum: 1,
                maximum,
            }],
            targets: Vec::new(),
        }
    }
}

/// The rest of `corun.toml`.
pub fn corun(layout: &Layout, ways: &Ways) -> String {
    let Layout {
        copies,
        ranges,
        targets,
        ..
    } = layout;
    let quoted = |texts: &mut dyn Iterator<Item = String>| {
        let texts: Vec<String> = texts.map(|text| format!("\"{text}\"")).collect();
        texts.join(", ")
    };
    let mut text = String::new();
    // Writing into a text cannot fail.
    if !copies.is_empty() {
        let mut copies = copies.iter().map(|copy| format!("{}:{}", copy.host(), copy.port));
        let _ = writeln!(text, "replicas = [{}]", quoted(&mut copies));
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
        let mut columns = range.columns.iter().map(|column| (*column).to_owned());
        let _ = write!(
            text,
            "\n[ranges.{}]\ndatabase = \"{DATABASE}\"\ncolumns = [{}]\nkey_type = \"integer\"\nminimum = {}\nmaximum = {}\n",
            range.name,
            quoted(&mut columns),
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
    use crate::fixture::address::Transport;
    use crate::fixture::configuration::corun as file;
    use crate::fixture::configuration::tests::pooler;
    use crate::key_ranges::ways::{Kind, LineUp};

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
            Kind::Corun(ways) => file(&pooler(Transport::Tcp), &corun(&layout, &ways)),
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
