//! [`run_tpcc`]: TPC-C on an engine, a client for each terminal or for several.

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
        let numbers = terminals_of(client, options);
        terminals(engine, workload, options.seed, numbers, worker)
    })
}

/// The numbers of the terminals that a client stands for.
fn terminals_of(client: usize, options: &RunOptions) -> impl Iterator<Item = usize> {
    let clients = options.clients.max(1);
    (client..options.terminals.max(clients)).step_by(clients)
}

/// The work of a client that sends the transactions of these terminals in turns. There is at least one.
pub(super) fn terminals<'e>(
    engine: &'e dyn TpccEngine,
    workload: &TpccWorkload,
    seed: u64,
    numbers: impl Iterator<Item = usize>,
    worker: usize,
) -> Result<Box<dyn Work + 'e>, TxError> {
    let TpccWorkload {
        scale,
        load_seed,
        mix,
    } = *workload;
    let terminals: Vec<Terminal> = numbers
        .map(|number| Terminal::new(scale, mix, load_seed, seed, number))
        .collect();
    assert!(!terminals.is_empty(), "a client stands for at least one terminal");
    Ok(Box::new(TerminalsWork {
        terminals,
        next: 0,
        client: engine.client(worker)?,
        input: None,
    }))
}

struct TerminalsWork<'a> {
    terminals: Vec<Terminal>,
    /// Whose turn it is.
    next: usize,
    client: Box<dyn TpccClient + 'a>,
    input: Option<Input>,
}

impl Work for TerminalsWork<'_> {
    fn draw(&mut self) -> usize {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let input = self.terminals[self.next].next(since_1970.as_micros() as i64);
        self.next = (self.next + 1) % self.terminals.len();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_share_the_terminals_out() {
        for (clients, terminals, first, last) in [
            (1, 20, (0..20).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>()),
            (3, 8, vec![0, 3, 6], vec![2, 5]),
            (8, 8, vec![0], vec![7]),
            (4, 1, vec![0], vec![3]),
        ] {
            let options = RunOptions {
                clients,
                terminals,
                ..RunOptions::default()
            };
            let of = |client| terminals_of(client, &options).collect::<Vec<_>>();
            assert_eq!((of(0), of(clients - 1)), (first, last));
            let mut all: Vec<usize> = (0..clients).flat_map(of).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..clients.max(terminals)));
        }
    }
}
