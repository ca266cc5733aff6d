//! TPC-C's clients as the subject runs them: one after the other on one thread, or as members of one scheduler.

use std::cell::Cell;

use corun_exec::teams::{self, mark};
use corun_workloads::corun::CorunTpcc;
use corun_workloads::engine::{TpccClient, TpccEngine, TxError};
use corun_workloads::tpcc::{self, Input, Kind, Scale, Terminal};

use super::job::{Done, Mix, Mode, Pass};
use super::marks::Marks;
use super::subject::run_members;
use lab_core::error::BenchError;

/// Seed of TPC-C's rows and inputs.
pub(super) const SEED: u64 = 0x7374_6570;
/// How often a transaction is run again because of others before the run fails.
const RETRIES_MAX: u32 = 10_000;

/// Transactions that have ended, whoever ran them.
struct Finished {
    marks: Marks,
    count: Cell<usize>,
    over: Cell<bool>,
}

impl Finished {
    /// Notes one more.
    fn add(&self) {
        let count = self.count.get() + 1;
        self.count.set(count);
        if count == self.marks.warm_up {
            if let Some(control) = teams::control() {
                control.reset_statistics();
            }
            self.marks.start_clock();
            if self.marks.marked {
                mark::begin();
            }
        }
        if count == self.marks.rounds {
            if self.marks.marked {
                mark::end();
            }
            self.marks.read_clock();
            self.over.set(true);
        }
    }
}

/// A terminal and its connection.
struct TerminalClient<'e> {
    terminal: Terminal,
    connection: Box<dyn TpccClient + 'e>,
    /// Transactions so far; stands for the time.
    now: i64,
}

impl TerminalClient<'_> {
    /// Runs one transaction to its end, again as often as others are in the way.
    fn run(&mut self) -> Result<(), TxError> {
        self.now += 1;
        let input = self.terminal.next(tpcc::LOADED_AT + self.now);
        let connection = self.connection.as_mut();
        for _ in 0..RETRIES_MAX {
            let answer = match &input {
                Input::NewOrder(input) => connection.new_order(input).map(drop),
                Input::Payment(input) => connection.payment(input).map(drop),
                Input::OrderStatus(input) => connection.order_status(input).map(drop),
                Input::Delivery(input) => connection.delivery(input).map(drop),
                Input::StockLevel(input) => connection.stock_level(input).map(drop),
            };
            match answer {
                Err(TxError::Retry(_)) => teams::yield_now(),
                other => return other,
            }
        }
        Err(TxError::failed(format!("gave up after {RETRIES_MAX} retries")))
    }
}

/// Runs TPC-C until enough transactions have ended.
pub(super) fn transactions(
    engine: &CorunTpcc,
    scale: Scale,
    mix: Mix,
    pass: &Pass,
) -> Result<Done, BenchError> {
    let mix = match mix {
        Mix::Payment => tpcc::Mix::only(Kind::Payment),
        Mix::NoDelivery => tpcc::Mix::NO_DELIVERY,
    };
    let finished = Finished {
        marks: Marks::new(pass, 1),
        count: Cell::new(0),
        over: Cell::new(false),
    };
    let client = |number: usize| -> Result<TerminalClient<'_>, TxError> {
        Ok(TerminalClient {
            terminal: Terminal::new(scale, mix, SEED, SEED + 1, number),
            connection: engine.client(0)?,
            now: 0,
        })
    };
    let mut done = Done {
        operations: pass.rounds as u64,
        ..Done::default()
    };
    if pass.mode == Mode::Serial {
        let clients = (0..pass.members).map(client).collect::<Result<Vec<_>, _>>();
        let mut clients = clients.map_err(BenchError::store)?;
        'all: loop {
            for client in &mut clients {
                client.run().map_err(BenchError::store)?;
                finished.add();
                if finished.over.get() {
                    break 'all;
                }
            }
        }
    } else {
        let until_over = |number: usize| -> Result<(), TxError> {
            let mut client = client(number)?;
            while !finished.over.get() {
                client.run()?;
                finished.add();
            }
            Ok(())
        };
        run_members(pass, "terminal", &mut done, |number| {
            until_over(number).map_err(|error| {
                finished.over.set(true);
                BenchError::store(error)
            })
        })?;
    }
    done.seconds = finished.marks.seconds();
    Ok(done)
}
