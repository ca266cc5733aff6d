//! [`run_ycsb`]: YCSB on an engine.

use super::client::Work;
use super::options::{RunError, RunOptions};
use super::outcome::Outcome;
use super::run::{Names, drive};
use crate::engine::{TxError, YcsbClient, YcsbEngine};
use crate::ycsb::{Database, Input, Kind, Requests, Workload, record};

/// One read of so many has its record verified byte by byte. Unmeasured; a verification costs about what a copy of the record does.
const VERIFIED_ONE_IN: u32 = 16;

/// Runs a workload on an engine that [`crate::ycsb::load`] has loaded with this database.
///
/// # Errors
/// The first failure of a client, a record that is missing or not as it was written included.
pub fn run_ycsb(
    engine: &dyn YcsbEngine,
    database: &Database,
    workload: Workload,
    options: &RunOptions,
) -> Result<Outcome, RunError> {
    let operation = |operation| engine.operation_name(operation);
    let names = Names {
        engine: engine.name(),
        workload: format!("ycsb {workload}"),
        kinds: &Kind::ALL.map(Kind::as_str),
        operation: engine.clients_share_threads().then_some(&operation),
    };
    drive(names, options, &|client, worker| {
        requests(engine, database, workload, options.seed, client, worker)
    })
}

/// The work of one client.
pub(super) fn requests<'e>(
    engine: &'e dyn YcsbEngine,
    database: &'e Database,
    workload: Workload,
    seed: u64,
    client: usize,
    worker: usize,
) -> Result<Box<dyn Work + 'e>, TxError> {
    Ok(Box::new(RequestWork {
        database,
        requests: Requests::new(database, workload, seed, client),
        client: engine.client(worker)?,
        input: None,
        buffer: Vec::new(),
        reads: 0,
    }))
}

struct RequestWork<'a> {
    database: &'a Database,
    requests: Requests<'a>,
    client: Box<dyn YcsbClient + 'a>,
    input: Option<Input>,
    buffer: Vec<u8>,
    reads: u32,
}

impl Work for RequestWork<'_> {
    fn draw(&mut self) -> usize {
        let input = self.requests.draw();
        self.input = Some(input);
        input.kind() as usize
    }

    fn attempt(&mut self) -> Result<bool, TxError> {
        let input = self.input.ok_or_else(|| TxError::failed("nothing was drawn"))?;
        let rows = execute(self.client.as_mut(), input, &mut self.buffer)?.rows;
        match input {
            Input::Scan { .. } if rows > 0 => {}
            _ if rows == 1 => {}
            _ => return Err(TxError::failed(format!("{rows} records found by {input:?}"))),
        }
        if let Input::Read { key } = input {
            self.reads += 1;
            if self.reads.is_multiple_of(VERIFIED_ONE_IN) {
                record::verify(key, &self.buffer).map_err(TxError::Failed)?;
            }
        }
        self.database.done(input);
        Ok(true)
    }
}

/// Runs one transaction of any type; returns how many records it found or wrote, with a checksum of those it read.
pub(super) fn execute(
    client: &mut dyn YcsbClient,
    input: Input,
    buffer: &mut Vec<u8>,
) -> Result<crate::ycsb::ScanAnswer, TxError> {
    let mut answer = crate::ycsb::ScanAnswer::default();
    let found = match input {
        Input::Read { key } => {
            let found = client.read(key, buffer)?;
            if found && buffer.len() != record::RECORD_BYTES {
                return Err(TxError::failed(format!("a record of {} bytes", buffer.len())));
            }
            found
        }
        Input::Update { key, field, version } => {
            let mut content = [0; record::FIELD_BYTES];
            record::fill_field(key, field, version, &mut content);
            client.update(key, field, &content)?
        }
        Input::Insert { key, .. } => {
            client.insert(key, &record::record(key))?;
            true
        }
        Input::Scan { start, count } => return client.scan(start, count),
        Input::ReadModifyWrite { key, field } => {
            client.read_modify_write(key, field, &mut |record, content| {
                answer.checksum = 0;
                answer.rows = 0;
                answer.add(key, record);
                let version = record::version(content);
                record::fill_field(key, field, version.wrapping_add(1), content);
            })?
        }
    };
    answer.rows = usize::from(found);
    Ok(answer)
}
