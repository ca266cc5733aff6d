//! Two engines given the same transactions must give the same answers and end with the same rows.

use std::fmt;

use thiserror::Error;

use super::tpcc::{TpccWorkload, execute};
use crate::engine::{TpccEngine, TxError, YcsbEngine};
use crate::tpcc::{DISTRICTS, LOADED_AT, Row, TableName, Terminal};
use crate::ycsb::{Database, Requests, Workload};

/// What two engines have where they should have the same.
#[derive(Debug, PartialEq, Eq)]
pub struct Sides {
    /// One engine's name and what it has.
    pub a: (String, String),
    /// The other's.
    pub b: (String, String),
}

impl fmt::Display for Sides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sides { a, b } = self;
        write!(f, "{}: {}; {}: {}", a.0, a.1, b.0, b.1)
    }
}

/// Where two engines differ.
#[derive(Debug, Error)]
pub enum Difference {
    /// In an answer.
    #[error("transaction {number}, {input}: answers differ: {sides}")]
    Answer {
        /// From 0.
        number: u64,
        /// What was asked.
        input: String,
        /// The answers.
        sides: Box<Sides>,
    },
    /// In a row.
    #[error("table {table}, row {number} in order: rows differ: {sides}")]
    Row {
        /// Which table.
        table: String,
        /// From 0.
        number: usize,
        /// The rows.
        sides: Box<Sides>,
    },
    /// An engine failed where no difference was looked for.
    #[error(transparent)]
    Engine(#[from] TxError),
}

/// Gives `count` transactions, one after the other, to both engines, which have been loaded alike. They come from ten terminals a
/// warehouse in turns and carry times that do not depend on the clock.
///
/// # Errors
/// The first difference between two answers; errors of engines are answers too.
pub fn compare_tpcc(
    a: &dyn TpccEngine,
    b: &dyn TpccEngine,
    workload: &TpccWorkload,
    seed: u64,
    count: u64,
) -> Result<(), Difference> {
    let TpccWorkload {
        scale,
        load_seed,
        mix,
    } = *workload;
    let terminals =
        usize::from(DISTRICTS.unsigned_abs()) * usize::from(scale.warehouses.unsigned_abs().max(1));
    let mut terminals: Vec<_> = (0..terminals)
        .map(|number| Terminal::new(scale, mix, load_seed, seed, number))
        .collect();
    let (mut client_a, mut client_b) = (a.client(0)?, b.client(0)?);
    for number in 0..count {
        let at = number as usize % terminals.len();
        let input = terminals[at].next(LOADED_AT + 1_000 * (number as i64 + 1));
        let answers = (
            execute(client_a.as_mut(), &input),
            execute(client_b.as_mut(), &input),
        );
        same_answer(number, &input, (&a.name(), answers.0), (&b.name(), answers.1))?;
    }
    Ok(())
}

fn same_answer<I: fmt::Debug, T: PartialEq + fmt::Debug>(
    number: u64,
    input: &I,
    a: (&str, T),
    b: (&str, T),
) -> Result<(), Difference> {
    if a.1 == b.1 {
        return Ok(());
    }
    Err(Difference::Answer {
        number,
        input: format!("{input:?}"),
        sides: Box::new(Sides {
            a: (a.0.to_owned(), format!("{:?}", a.1)),
            b: (b.0.to_owned(), format!("{:?}", b.1)),
        }),
    })
}

/// Whether both engines hold the same rows. All rows of a table are in memory twice: for small scales.
///
/// # Errors
/// The first row one of them lacks.
pub fn same_tpcc_rows(a: &dyn TpccEngine, b: &dyn TpccEngine) -> Result<(), Difference> {
    for table in TableName::ALL {
        let sorted = |engine: &dyn TpccEngine| -> Result<Vec<Row>, TxError> {
            let mut rows = Vec::new();
            engine.visit(table, &mut |row| rows.push(row.clone()))?;
            rows.sort_unstable();
            Ok(rows)
        };
        same_rows(table.as_str(), (&a.name(), sorted(a)?), (&b.name(), sorted(b)?))?;
    }
    Ok(())
}

/// As [`compare_tpcc`], for YCSB. Both engines have been loaded with `database`, whose inserts go on where they were.
///
/// # Errors
/// The first difference between two answers.
pub fn compare_ycsb(
    a: &dyn YcsbEngine,
    b: &dyn YcsbEngine,
    database: &Database,
    workload: Workload,
    seed: u64,
    count: u64,
) -> Result<(), Difference> {
    let mut requests = Requests::new(database, workload, seed, 0);
    let (mut client_a, mut client_b) = (a.client(0)?, b.client(0)?);
    let (mut record_a, mut record_b) = (Vec::new(), Vec::new());
    for number in 0..count {
        let input = requests.draw();
        let answer_a = super::ycsb::execute(client_a.as_mut(), input, &mut record_a);
        let answer_b = super::ycsb::execute(client_b.as_mut(), input, &mut record_b);
        let (failed_a, failed_b) = (answer_a.is_err(), answer_b.is_err());
        same_answer(
            number,
            &input,
            (&a.name(), (answer_a, &record_a)),
            (&b.name(), (answer_b, &record_b)),
        )?;
        if !failed_a && !failed_b {
            database.done(input);
        }
    }
    Ok(())
}

/// As [`same_tpcc_rows`], for YCSB.
///
/// # Errors
/// The first record one of them lacks.
pub fn same_ycsb_records(a: &dyn YcsbEngine, b: &dyn YcsbEngine) -> Result<(), Difference> {
    let sorted = |engine: &dyn YcsbEngine| -> Result<Vec<(u64, Vec<u8>)>, TxError> {
        let mut records = Vec::new();
        engine.visit(&mut |key, record| records.push((key, record.to_vec())))?;
        records.sort_unstable();
        Ok(records)
    };
    same_rows("usertable", (&a.name(), sorted(a)?), (&b.name(), sorted(b)?))
}

fn same_rows<T: PartialEq + fmt::Debug>(
    table: &str,
    a: (&str, Vec<T>),
    b: (&str, Vec<T>),
) -> Result<(), Difference> {
    let longest = a.1.len().max(b.1.len());
    let differs = (0..longest).find(|&at| a.1.get(at) != b.1.get(at));
    let Some(number) = differs else {
        return Ok(());
    };
    let show = |rows: &[T]| {
        rows.get(number)
            .map_or("no more rows".to_owned(), |row| format!("{row:?}"))
    };
    Err(Difference::Row {
        table: table.to_owned(),
        number,
        sides: Box::new(Sides {
            a: (a.0.to_owned(), show(&a.1)),
            b: (b.0.to_owned(), show(&b.1)),
        }),
    })
}
