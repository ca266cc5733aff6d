//! [`Work`]: what clients do in a turn, what they must be answered, and what must hold of the data afterwards.

use std::path::PathBuf;
use std::time::Duration;

use corun_workloads::driver::{Measure, RunOptions, TpccWorkload, run_tpcc};
use corun_workloads::engine::{TpccClient, TpccEngine, TxError};
use corun_workloads::tpcc::{self, Input, Kind, Mix, Scale, Terminal};

use super::points;
use super::tpcc::Server;
use super::tpcw::purchases::Purchases;
use super::tpcw::{self, answers, interactions};
use super::ways::Plain;
use crate::fixture::address::Address;
use crate::fixture::client::Client;
use crate::fixture::failed;
use crate::fixture::pgbench::{self, Duty, Load, Protocol, Script};
use lab_core::error::BenchError;

/// What a turn of a side gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Transactions or interactions a second.
    pub tps: f64,
    /// Half of them took at most so long, in milliseconds.
    pub latency_ms: f64,
    /// 99 of 100.
    pub p99_ms: f64,
    /// Half of the Best Sellers among them took at most so long.
    pub best_sellers_ms: Option<f64>,
    /// Of the queries that may be split, as many of a hundred were.
    pub in_parts_percent: Option<f64>,
}

impl Measured {
    fn of(tps: f64, p50_us: f64, p99_us: f64) -> Measured {
        Measured {
            tps,
            latency_ms: p50_us / 1e3,
            p99_ms: p99_us / 1e3,
            best_sellers_ms: None,
            in_parts_percent: None,
        }
    }
}

/// A turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Clients at once.
    pub clients: usize,
    /// Whether it is to be over at once.
    pub quick: bool,
    /// What its random numbers are drawn from.
    pub seed: usize,
    /// How the server is asked, if nothing stands before it.
    pub plain: Plain,
}

/// What [`Plain::Parallel`] asks for: PostgreSQL's own default, which the servers of this suite have turned off.
const PARALLEL: &str = "-c max_parallel_workers_per_gather=2";

/// How long clients are counted in a turn.
const SECONDS: usize = 3;

/// What clients do.
pub trait Work {
    /// Compares what a side answers with what the server itself does, while nobody writes. `None` if all is the same.
    fn compare(&mut self, through: &Address, thorough: bool) -> Result<Option<String>, BenchError>;

    /// A turn of a side; beside what it gave, what it left wrong.
    fn turn(&mut self, through: &Address, turn: Turn) -> Result<(Measured, Option<String>), BenchError>;

    /// What does not hold of the data after all turns.
    fn close(&mut self) -> Result<Option<String>, BenchError> {
        Ok(None)
    }
}

/// What answers of a script are compared, and what it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// All reading statements of the interactions; purchases must be whole.
    Browsing(tpcw::Scale),
    /// Best Seller of all subjects.
    BestSellers,
    /// Point reads of a table with so many rows.
    Points(points::Table),
}

/// Scripts that `pgbench` runs.
pub struct Scripted {
    /// The program.
    pub program: PathBuf,
    /// A folder for its log.
    pub folder: PathBuf,
    /// What it runs.
    pub script: Script,
    /// The same with a constant in place of a sub-select, where that is compared.
    pub constant: Option<Script>,
    /// The server itself.
    pub server: Address,
    /// What is compared.
    pub check: Check,
    /// Transactions of each client in a quick turn.
    pub quick: usize,
    /// Seconds of load that are not counted, before each turn that is.
    pub warm_up: usize,
}

impl Scripted {
    fn load(&self, turn: Turn, seconds: usize) -> Load {
        let constant = self.constant.as_ref().filter(|_| turn.plain == Plain::Constant);
        let script = constant.unwrap_or(&self.script).clone();
        let duty = match turn.quick {
            true => Duty::Transactions(self.quick),
            false => Duty::Seconds(seconds),
        };
        Load {
            options: match turn.plain {
                Plain::Parallel => PARALLEL.to_owned(),
                Plain::Usual | Plain::Constant => String::new(),
            },
            ..Load::new(script, Protocol::Prepared, turn.clients, duty)
        }
    }
}

impl Work for Scripted {
    fn compare(&mut self, through: &Address, thorough: bool) -> Result<Option<String>, BenchError> {
        let rounds = if thorough { 3 } else { 1 };
        match &self.check {
            Check::Browsing(scale) => answers::compare(&self.server, through, *scale, rounds),
            Check::BestSellers => answers::compare_best_sellers(&self.server, through),
            Check::Points(table) => points::compare(&self.server, through, table, rounds * 50),
        }
    }

    fn turn(&mut self, through: &Address, turn: Turn) -> Result<(Measured, Option<String>), BenchError> {
        let purchases = match self.check {
            Check::Browsing(_) => {
                let mut client = Client::connect(&self.server, super::PATIENCE)?;
                Some((Purchases::open(&mut client)?, client))
            }
            _ => None,
        };
        if self.warm_up > 0 && !turn.quick {
            let load = self.load(turn, self.warm_up);
            pgbench::run(&self.program, &load, through, turn.seed + 1_000, &self.folder)?;
        }
        let load = self.load(turn, SECONDS);
        let (found, logged) = pgbench::run_logged(&self.program, &load, through, turn.seed, &self.folder)?;
        let of_script = |name: &str| -> Vec<f64> {
            let place = interactions::place_of(name);
            let of = logged.iter().filter(|one| Some(one.script) == place);
            of.map(|one| one.us).collect()
        };
        let mut measured = Measured::of(found.tps, found.p50_us, found.p99_us);
        let Some((purchases, mut client)) = purchases else {
            return Ok((measured, None));
        };
        let best = of_script(interactions::BEST_SELLERS);
        measured.best_sellers_ms = lab_core::stats::percentile(&best, 50.0).map(|us| us / 1e3);
        let answered = of_script(interactions::BUY_CONFIRM).len() as u64;
        Ok((measured, purchases.close(&mut client, answered)?))
    }
}

/// TPC-C's terminals.
pub struct Terminals {
    /// The server itself.
    server: Server,
    scale: Scale,
}

fn broken(error: TxError) -> BenchError {
    failed("postgres", error.to_string())
}

/// What a transaction that only reads is answered, as text.
fn answered(client: &mut dyn TpccClient, input: &Input) -> Result<String, BenchError> {
    Ok(match input {
        Input::OrderStatus(input) => format!("{:?}", client.order_status(input).map_err(broken)?),
        Input::StockLevel(input) => format!("{:?}", client.stock_level(input).map_err(broken)?),
        _ => String::new(),
    })
}

/// Inputs whose answers are compared.
const COMPARED: usize = 10;

impl Terminals {
    /// Terminals of a database of this size on the server.
    pub fn new(address: &Address, scale: Scale) -> Terminals {
        Terminals {
            server: Server::at(address),
            scale,
        }
    }

    /// What TPC-C's tables are drawn from.
    pub const SEED: u64 = 20_140_902;

    /// Makes the tables and fills them.
    pub fn load(&self) -> Result<(), BenchError> {
        self.server.create()?;
        let loaded = tpcc::load(&self.server, self.scale, Terminals::SEED, 2, &|_| ());
        loaded.map_err(broken)?;
        self.server.index()
    }
}

impl Work for Terminals {
    fn compare(&mut self, through: &Address, thorough: bool) -> Result<Option<String>, BenchError> {
        let through = Server::at(through);
        let mut expects = self.server.client(0).map_err(broken)?;
        let mut gives = through.client(0).map_err(broken)?;
        let count = if thorough { COMPARED } else { 2 };
        for kind in [Kind::OrderStatus, Kind::StockLevel] {
            for number in 0..self.scale.warehouses.max(0) as usize {
                let mut terminal = Terminal::new(self.scale, Mix::only(kind), Terminals::SEED, 7, number);
                for _ in 0..count {
                    let input = terminal.next(0);
                    let (wanted, found) = (answered(&mut *expects, &input)?, answered(&mut *gives, &input)?);
                    if wanted != found {
                        let cut: String = found.chars().take(200).collect();
                        return Ok(Some(format!("{}: another answer: {cut}", kind.as_str())));
                    }
                }
            }
        }
        Ok(None)
    }

    fn turn(&mut self, through: &Address, turn: Turn) -> Result<(Measured, Option<String>), BenchError> {
        self.server.tidy()?;
        let workload = TpccWorkload {
            scale: self.scale,
            load_seed: Terminals::SEED,
            mix: Mix::STANDARD,
        };
        let options = RunOptions {
            clients: turn.clients,
            workers: turn.clients,
            warmup: if turn.quick {
                Duration::ZERO
            } else {
                Duration::from_millis(500)
            },
            measure: match turn.quick {
                true => Measure::Transactions(100 * turn.clients as u64),
                false => Measure::Time(Duration::from_secs(SECONDS as u64)),
            },
            seed: turn.seed as u64,
            ..RunOptions::default()
        };
        let outcome = run_tpcc(&Server::at(through), &workload, &options)
            .map_err(|error| failed("tpcc", error.to_string()))?;
        let mut all = corun_workloads::driver::Histogram::default();
        for kind in &outcome.kinds {
            all.merge(&kind.latencies);
        }
        let latency = |percent| all.percentile_us(percent);
        Ok((Measured::of(outcome.tps, latency(50.0), latency(99.0)), None))
    }

    fn close(&mut self) -> Result<Option<String>, BenchError> {
        let violations = tpcc::check(&self.server, self.scale).map_err(broken)?;
        Ok(violations.first().map(ToString::to_string))
    }
}
