//! [`run_tpcc`]: TPC-C on an engine, terminals as clients.

use std::time::{SystemTime, UNIX_EPOCH};

use super::client::Work;
use super::options::{RunError, RunOptions};
use super::outcome::Outcome;
use super::run::{Names, drive};
use crate::engine::{TpccClient, TpccEngine, TxError};
use crate::tpcc::{Answer, Input, Kind, Mix, Scale, Terminal};

/// What is run on which database.
#[derive(Clone, Copy, Debug)]
pub struct TpccWorkload {
    /// Size of the database.
    pub scale: Scale,
    /// The seed it was loaded with.
    pub load_seed: u64,
    /// Which transactions.
    pub mix: Mix,
}

/// Runs TPC-C on an engine that [`crate::tpcc::load`] has loaded.
///
/// # Errors
/// The first failure of a client.
pub fn run_tpcc(
    engine: &dyn TpccEngine,
    workload: &TpccWorkload,
    options: &RunOptions,
) -> Result<Outcome, RunError> {
    let mix = workload.mix;
    let operation = |operation| engine.operation_name(operation);
    let names = Names {
        engine: engine.name(),
        workload: format!("tpcc {mix}"),
        kinds: &Kind::ALL.map(Kind::as_str),
        operation: engine.clients_share_threads().then_some(&operation),
    };
    drive(names, options, &|client, worker| {
        terminal(engine, workload, options.seed, client, worker)
    })
}

/// The work of one terminal.
pub(super) fn terminal<'e>(
    engine: &'e dyn TpccEngine,
    workload: &TpccWorkload,
    seed: u64,
    client: usize,
    worker: usize,
) -> Result<Box<dyn Work + 'e>, TxError> {
    let TpccWorkload {
        scale,
        load_seed,
        mix,
    } = *workload;
    Ok(Box::new(TerminalWork {
        terminal: Terminal::new(scale, mix, load_seed, seed, client),
        client: engine.client(worker)?,
        input: None,
    }))
}

struct TerminalWork<'a> {
    terminal: Terminal,
    client: Box<dyn TpccClient + 'a>,
    input: Option<Input>,
}

impl Work for TerminalWork<'_> {
    fn draw(&mut self) -> usize {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let input = self.terminal.next(since_1970.as_micros() as i64);
        let kind = input.kind();
        self.input = Some(input);
        kind as usize
    }

    fn attempt(&mut self) -> Result<bool, TxError> {
        let input = self
            .input
            .as_ref()
            .ok_or_else(|| TxError::failed("nothing was drawn"))?;
        let answer = execute(self.client.as_mut(), input)?;
        check_answer(input, &answer)?;
        Ok(!matches!(answer, Answer::NewOrder(answer) if answer.rolled_back))
    }
}

/// Runs one transaction of any type.
pub(super) fn execute(client: &mut dyn TpccClient, input: &Input) -> Result<Answer, TxError> {
    Ok(match input {
        Input::NewOrder(input) => Answer::NewOrder(client.new_order(input)?),
        Input::Payment(input) => Answer::Payment(client.payment(input)?),
        Input::OrderStatus(input) => Answer::OrderStatus(client.order_status(input)?),
        Input::Delivery(input) => Answer::Delivery(client.delivery(input)?),
        Input::StockLevel(input) => Answer::StockLevel(client.stock_level(input)?),
    })
}

/// What can be told of an answer without knowing the database; it costs a few comparisons.
fn check_answer(input: &Input, answer: &Answer) -> Result<(), TxError> {
    let right = match (input, answer) {
        (Input::NewOrder(input), Answer::NewOrder(answer)) => {
            answer.order > 0 && (answer.rolled_back || answer.lines.len() == input.lines.len())
        }
        (Input::OrderStatus(_), Answer::OrderStatus(answer)) => (5..=15).contains(&answer.lines.len()),
        _ => true,
    };
    if right {
        Ok(())
    } else {
        Err(TxError::failed(format!(
            "a wrong answer: {answer:?} to {input:?}"
        )))
    }
}
