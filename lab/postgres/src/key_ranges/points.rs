//! [`Table`]: rows that are read one by one by their keys, in tables as large as an experiment needs.

use std::path::Path;

use crate::fixture::address::Address;
use crate::fixture::client::Client;
use crate::fixture::load::settled;
use crate::fixture::pgbench::Script;
use crate::fixture::write;
use lab_core::error::BenchError;

/// What a row takes, its place in the index included. Counted on PostgreSQL 15: 136 bytes in the table, 22 in the index.
pub const ROW_BYTES: u64 = 158;
/// The script's statement.
const READ: &str = "select value, filler from TABLE where id = ";

/// A table with the keys 1 to [`Table::rows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// How many rows it has.
    pub rows: usize,
}

impl Table {
    /// A table of about so many bytes, at least 1,000 rows.
    pub fn of_bytes(name: &'static str, bytes: u64) -> Table {
        Table {
            name,
            rows: (bytes / ROW_BYTES).clamp(1_000, 1_000_000_000) as usize,
        }
    }

    /// Makes and fills it.
    pub fn fill(&self, server: &Address) -> Result<(), BenchError> {
        let Table { name, rows } = self;
        let mut client = Client::connect(server, super::PATIENCE)?;
        client.run_all([
            format!("create table {name} (id int not null, value int not null, filler char(96) not null)"),
            format!(
                "insert into {name} select i, i::bigint * 7919 % 1000003, 'row ' || i from generate_series(1, {rows}) i"
            ),
            format!("alter table {name} add primary key (id)"),
        ])?;
        client.run_all(settled([name]))
    }

    /// Bytes it takes with its index.
    pub fn bytes(&self, server: &Address) -> Result<u64, BenchError> {
        let mut client = Client::connect(server, super::PATIENCE)?;
        let found = client.numbers(&format!("select pg_total_relation_size('{}')", self.name))?;
        Ok(found[0].unsigned_abs())
    }

    /// The script that reads a row drawn evenly.
    pub fn script(&self, folder: &Path) -> Result<Script, BenchError> {
        let file = folder.join(format!("{}.sql", self.name));
        let text = format!("\\set id random(1, {})\n{}:id;\n", self.rows, self.read());
        write(&file, text)?;
        Ok(Script::Files(vec![file]))
    }

    fn read(&self) -> String {
        READ.replace("TABLE", self.name)
    }
}

/// Reads `count` rows in both ways. `None` if they are the same.
pub fn compare(
    direct: &Address,
    through: &Address,
    table: &Table,
    count: usize,
) -> Result<Option<String>, BenchError> {
    let mut expects = Client::connect(direct, super::PATIENCE)?;
    let mut gives = Client::connect(through, super::PATIENCE)?;
    let sql = format!("{}$1", table.read());
    for number in 0..count {
        // From the first to the last row, and one that is not there.
        let id = (1 + number * table.rows / count.max(2).saturating_sub(1)).to_string();
        let ask = |client: &mut Client| match number {
            0 => client.extended("read", &sql, &[&id]),
            _ => client.again("read", &[&id]),
        };
        let (wanted, found) = (ask(&mut expects)?, ask(&mut gives)?);
        if let Some(difference) = wanted.difference(&found) {
            return Ok(Some(format!("row {id}: {difference}")));
        }
        if let Some((state, words)) = wanted.error {
            return Ok(Some(format!("PostgreSQL says {words} ({state})")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reads_all_rows() {
        let table = Table::of_bytes("points", 1_580_000);
        assert_eq!(table.rows, 10_000);
        assert_eq!(Table::of_bytes("points", 1).rows, 1_000);
        let folder = tempfile::tempdir().expect("a folder");
        table.script(folder.path()).expect("written");
        let text = std::fs::read_to_string(folder.path().join("points.sql")).expect("readable");
        assert_eq!(
            text,
            "\\set id random(1, 10000)\nselect value, filler from points where id = :id;\n"
        );
    }
}
