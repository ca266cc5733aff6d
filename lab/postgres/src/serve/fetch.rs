//! [`run`]: one client fetches many rows of a bigint, a double precision and a text of 20 characters: rows and bytes a second.
//!
//! The client only walks over messages and adds up the first column, which says whether all rows came.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::PATIENCE;
use super::case::Case;
use super::contest::{self, Measured, ROWS_PER_S, Side};
use super::targets::{Fixture, SqlServer, Target};
use crate::fixture::address::Address;
use crate::fixture::client::{Client, asked_in_binary, query};
use crate::fixture::cluster::Cluster;
use crate::fixture::failed;
use corun_datafusion::{Engine, EngineOptions, Joins};
use corun_workloads::dataset::part_file;
use lab_core::error::BenchError;
use lab_core::row::Value;
use lab_core::run::{Plan, Runner};
use lab_core::suite::all_cores;
use lab_engine::query::{run_query, runtime};

/// Rows that are fetched.
const ROWS: i64 = 10_000_000;
const ROWS_QUICK: i64 = 20_000;
/// The table.
const TABLE: &str = "fetched";
/// What is asked.
const SQL: &str = "select id, amount, name from fetched";
/// What all targets must answer alike, cell by cell.
const SOME: &str = "select id, amount, name from fetched where id % 1000 = 7 order by id limit 200";
/// Bytes read at once.
const PIECE: usize = 256 << 10;
/// The longest message taken.
const MESSAGE_MAX: usize = 64 << 20;

/// The table as a Parquet file and in PostgreSQL.
pub struct Data<'a> {
    fixture: &'a Fixture,
    cluster: Result<&'a Cluster, String>,
    folder: PathBuf,
    rows: i64,
}

impl<'a> Data<'a> {
    /// Makes the rows.
    pub fn new(
        fixture: &'a Fixture,
        cluster: &'a Result<Cluster, String>,
        quick: bool,
    ) -> Result<Data<'a>, BenchError> {
        let rows = if quick { ROWS_QUICK } else { ROWS };
        let folder = fixture.folder("rows")?;
        write_parquet(&folder, rows)?;
        if let Ok(cluster) = cluster {
            let mut client = Client::connect(&cluster.address, PATIENCE)?;
            client.run_all([
                format!(
                    "create table {TABLE} as select i::bigint as id, i / 7::float8 as amount, \
                     'customer ' || lpad(i::text, 11, '0') as name from generate_series(1, {rows}) as i"
                ),
                format!("vacuum (analyze, freeze) {TABLE}"),
            ])?;
        }
        Ok(Data {
            fixture,
            cluster: cluster.as_ref().map_err(Clone::clone),
            folder,
            rows,
        })
    }

    /// Where a target listens; a server of ours is started.
    fn address(&self, target: Target, server: &mut Option<SqlServer>) -> Result<Address, BenchError> {
        if target == Target::Postgresql {
            let cluster = self.cluster.as_ref();
            return Ok(cluster
                .map_err(|reason| failed("postgres", reason.as_str()))?
                .address
                .clone());
        }
        let started = self.fixture.server(target, &self.folder)?;
        Ok(server.insert(started).address.clone())
    }

    /// The cells that all must answer alike.
    fn expected(&self) -> Vec<Vec<Option<String>>> {
        let ids = (0..200)
            .map(|number| number * 1000 + 7)
            .filter(|id| *id <= self.rows);
        let row = |id: i64| {
            let amount = id as f64 / 7.0;
            [id.to_string(), amount.to_string(), format!("customer {id:011}")]
        };
        ids.map(|id| row(id).map(Some).to_vec()).collect()
    }
}

fn write_parquet(folder: &Path, rows: i64) -> Result<(), BenchError> {
    let engine = Engine::new(&EngineOptions {
        joins: Joins::Stock,
        ..EngineOptions::default()
    })?;
    let path = part_file(folder, TABLE, 0);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|source| BenchError::io("cannot make a folder", source))?;
    }
    let copy = format!(
        "copy (select value as id, cast(value as double) / 7 as amount, \
         'customer ' || lpad(cast(value as varchar), 11, '0') as name \
         from generate_series(1, {rows}) as numbers(value)) to '{}' stored as parquet",
        path.display()
    );
    run_query(&runtime(all_cores())?, &engine, &copy).map(drop)
}

/// Runs the case and emits its rows.
pub fn run(case: Case, binary: bool, data: &Data<'_>, runner: &mut Runner<'_>) {
    let side = |target, missing: Option<String>| {
        let mut side = Side::new(target, missing);
        side.keys.push(("rows".to_owned(), Value::from(data.rows)));
        side
    };
    let ours = || data.fixture.program.as_ref().err().cloned();
    let sides = [
        side(Target::Corun, ours()),
        side(Target::Datafusion, ours()),
        side(Target::Postgresql, data.cluster.as_ref().err().cloned()),
    ];
    let plan = runner.plan();
    let plan = Plan {
        warmups: 0,
        pairs_max: plan.repetitions,
        ..plan
    };
    contest::run(case, &sides, ROWS_PER_S, plan, runner, |target, _| {
        let mut server = None;
        let address = data.address(target, &mut server)?;
        let mut client = Client::connect(&address, PATIENCE)?;
        let some = client.run(SOME)?.rows;
        let expected = data.expected();
        let differs = (some != expected).then(|| format!("{SOME}: {} rows differ", expected.len()));
        let begin = Instant::now();
        let fetched = fetch(client, binary)?;
        let seconds = begin.elapsed().as_secs_f64().max(1e-9);
        let (rows, sum) = (data.rows, data.rows * (data.rows + 1) / 2);
        let short = (fetched.rows != rows as u64 || fetched.sum != sum).then(|| {
            format!(
                "{} rows whose keys add up to {} instead of {rows} and {sum}",
                fetched.rows, fetched.sum
            )
        });
        let measured = Measured {
            rows_per_s: Some(fetched.rows as f64 / seconds),
            bytes_per_s: Some(fetched.bytes as f64 / seconds),
            peak_rss_bytes: server
                .as_ref()
                .and_then(|server| server.process.peak_bytes())
                .map(|bytes| bytes as f64),
            ..Measured::default()
        };
        Ok((measured, differs.or(short)))
    });
}

/// What a fetch gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fetched {
    rows: u64,
    bytes: u64,
    /// Of the first column.
    sum: i64,
}

/// Asks for all rows and counts them.
fn fetch(client: Client, binary: bool) -> Result<Fetched, BenchError> {
    let mut stream = client.into_stream();
    let request = match binary {
        true => asked_in_binary(SQL),
        false => query(SQL),
    };
    let broken = |source| BenchError::io("the connection broke", source);
    stream.write_all(&request).map_err(broken)?;
    let mut fetched = Fetched::default();
    let mut buffer = vec![0; PIECE];
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            // A message that is longer than the buffer.
            buffer.resize(buffer.len() * 2, 0);
        }
        let read = stream.read(&mut buffer[filled..]).map_err(broken)?;
        if read == 0 {
            return Err(failed("protocol", "the server hung up"));
        }
        fetched.bytes += read as u64;
        filled += read;
        let (used, ended) = walk(&buffer[..filled], binary, &mut fetched)?;
        if ended {
            return Ok(fetched);
        }
        buffer.copy_within(used..filled, 0);
        filled -= used;
    }
}

/// Takes whole messages from the beginning: how many bytes they have, and whether the last one was among them.
fn walk(bytes: &[u8], binary: bool, fetched: &mut Fetched) -> Result<(usize, bool), BenchError> {
    let mut used = 0;
    while let Some((head, rest)) = bytes[used..].split_first_chunk::<5>() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if !(4..=MESSAGE_MAX).contains(&length) {
            return Err(failed("protocol", format!("a message of {length} bytes")));
        }
        let Some(body) = rest.get(..length - 4) else {
            break;
        };
        used += 1 + length;
        match head[0] {
            b'D' => {
                let key = first_column(body, binary);
                fetched.sum += key.ok_or_else(|| failed("protocol", "a row that cannot be read"))?;
                fetched.rows += 1;
            }
            b'Z' => return Ok((used, true)),
            b'E' => {
                let text = String::from_utf8_lossy(body).replace('\0', " ");
                return Err(failed("server", text.trim()));
            }
            _ => {}
        }
    }
    Ok((used, false))
}

/// The number in the first column of a DataRow.
fn first_column(body: &[u8], binary: bool) -> Option<i64> {
    let length = u32::from_be_bytes(body.get(2..6)?.try_into().ok()?) as usize;
    let value = body.get(6..6 + length)?;
    match binary {
        true => Some(i64::from_be_bytes(value.try_into().ok()?)),
        false => value.iter().try_fold(0i64, |number, digit| {
            let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
            number.checked_mul(10)?.checked_add(i64::from(digit))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::client::message;

    fn row(value: &[u8]) -> Vec<u8> {
        let mut body = vec![0, 1];
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(value);
        message(b'D', &body)
    }

    #[test]
    fn rows_are_counted_and_added_up_wherever_pieces_end() {
        for binary in [false, true] {
            let value = |number: i64| match binary {
                true => number.to_be_bytes().to_vec(),
                false => number.to_string().into_bytes(),
            };
            let all = [
                message(b'T', b"columns"),
                row(&value(7)),
                row(&value(1_000_000)),
                message(b'C', b"SELECT 2\0"),
                message(b'Z', b"I"),
            ]
            .concat();
            for cut in 0..all.len() {
                let mut fetched = Fetched::default();
                let (used, ended) = walk(&all[..cut], binary, &mut fetched).expect("messages");
                assert!(!ended && used <= cut);
                let (_, ended) = walk(&all[used..], binary, &mut fetched).expect("messages");
                assert!(ended);
                assert_eq!((fetched.rows, fetched.sum), (2, 1_000_007), "{cut}");
            }
        }
    }

    #[test]
    fn errors_and_rows_that_are_none_are_told() {
        let mut fetched = Fetched::default();
        let error = message(b'E', b"SERROR\0Mno such table\0\0");
        let told = walk(&error, false, &mut fetched)
            .expect_err("an error")
            .to_string();
        assert!(told.contains("no such table"), "{told}");
        for wrong in [row(b"7a"), message(b'D', b"\0"), vec![b'D', 0, 0, 0, 1]] {
            assert!(walk(&wrong, false, &mut fetched).is_err(), "{wrong:?}");
        }
        assert!(walk(&row(b"7"), true, &mut fetched).is_err());
    }
}
