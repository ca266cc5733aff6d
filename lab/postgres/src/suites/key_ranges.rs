//! `corun-lab bench key-ranges`: paper 004's experiments on PostgreSQL behind the proxy: TPC-W, TPC-C, point reads, reads of copies.
//!
//! Order of work for an experiment: a server with its data, the sides started one after the other, each case's turns
//! ([`crate::key_ranges::contest`]), the rows.

use std::cell::RefCell;
use std::path::PathBuf;

use clap::Args;
use corun_cli::arguments::positive_number;
use corun_model::topology::Topology;
use corun_workloads::tpcc::Scale as Warehouses;

use crate::key_ranges::SUITE;
use crate::key_ranges::case::{Case, Family, cases};
use crate::key_ranges::configuration::{Layout, POOL, Range, Target as Split};
use crate::key_ranges::contest::{self, How};
use crate::key_ranges::ground::Ground;
use crate::key_ranges::points::Table;
use crate::key_ranges::replicas::Copies;
use crate::key_ranges::rows;
use crate::key_ranges::target::Target;
use crate::key_ranges::tpcw::{self, interactions};
use crate::key_ranges::ways::LineUp;
use crate::key_ranges::work::{Check, Scripted, Terminals, Work};
use crate::pooler::address::Address;
use crate::pooler::pgbench::Script;
use crate::pooler::postgres::{Programs, Setup};
use lab_core::error::BenchError;
use lab_core::row::Value;
use lab_core::run::{Plan, Runner};
use lab_core::suite::{self, Common, Rounds, SuiteArgs, all_cores};

/// Parts Best Seller is split into.
const PARTS: [usize; 3] = [2, 3, 4];
/// Warehouses of TPC-C where nothing is said.
const WAREHOUSES: f64 = 4.0;
/// A private second-level cache where the machine does not tell.
const L2_BYTES: u64 = 1 << 20;
/// How much larger than all private caches the large table is.
const LARGE: u64 = 16;
/// Uncounted seconds before each turn of copies: whoever's turn it is has to get its part of the data into memory.
const COPIES_WARM_UP: usize = 6;
/// The same where their disks are slow.
const VOLUME_WARM_UP: usize = 12;
/// Reads a second of each copy's disk where it is slow: what a general-purpose volume (gp3) of the largest cloud has unless more is paid for.
const VOLUME_READS_PER_S: u64 = 3_000;

/// Arguments of `corun-lab bench key-ranges`.
#[derive(Clone, Debug, Default, Args)]
pub struct KeyRangesArgs {
    /// What every suite is told.
    #[command(flatten)]
    pub common: Common,

    /// How often sides take turns.
    #[command(flatten)]
    pub rounds: Rounds,

    /// TPC-W with the paper's million items.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,

    /// Warehouses [default: 4] and hundreds of thousands of items [default: 1; with --full 10].
    #[arg(long, value_name = "SCALE", value_parser = positive_number, allow_negative_numbers = true)]
    pub scale: Option<f64>,

    /// The program whose pooler is measured instead of the `corun` beside this one.
    #[arg(skip)]
    pub program: Option<PathBuf>,
}

impl SuiteArgs for KeyRangesArgs {
    const SUITE: suite::Suite = suite::Suite::KeyRanges;

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn plan(&self) -> Plan {
        self.rounds.plan(self.common.quick)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        run(self, runner)
    }
}

/// Runs the selected cases. Without PostgreSQL there are rows that say so.
fn run(args: &KeyRangesArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let scale = scale(args)?;
    let all = cases(args.common.quick);
    let selected: Vec<Case> = all
        .iter()
        .filter(|case| args.common.selects(&case.name()))
        .copied()
        .collect();
    if selected.is_empty() {
        return Err(args
            .common
            .no_such_case(suite::Suite::KeyRanges, all.iter().map(Case::name)));
    }
    let programs = match Programs::find() {
        Ok(programs) => programs,
        Err(error) => {
            runner.progress().note(&error.to_string());
            for case in &selected {
                rows::unavailable(case, &line_up(case.family), &error.to_string(), runner);
            }
            return Ok(());
        }
    };
    let ground = Ground::new(SUITE, programs, args.program.as_deref())?;
    if let Err(reason) = ground.corun() {
        runner.progress().note(reason);
    }
    let suite = Suite {
        args,
        scale,
        ground: &ground,
        cases: &selected,
    };
    suite.browsing(runner)?;
    suite.terminals(runner)?;
    suite.points(runner)?;
    suite.copies(runner)
}

/// The sides of an experiment.
fn line_up(family: Family) -> LineUp {
    match family {
        Family::Tpcw => LineUp::mix(all_cores()),
        Family::BestSeller => LineUp::best_seller(&PARTS),
        Family::Tpcc | Family::PointFit | Family::PointLarge => LineUp::dispatched(),
        Family::ReplicasHalf | Family::ReplicasHalfVolume | Family::ReplicasFit => LineUp::copies(),
    }
}

/// What all experiments are given.
struct Suite<'s> {
    args: &'s KeyRangesArgs,
    scale: Option<f64>,
    ground: &'s Ground,
    cases: &'s [Case],
}

/// Says when sides are ready, with parameters of their rows, or why they never will be.
type Ready<'e> = dyn Fn() -> Result<Vec<(String, Value)>, String> + 'e;

/// One experiment.
struct Experiment<'e> {
    family: Family,
    layout: &'e Layout,
    parameters: Vec<(String, Value)>,
    /// Called once all sides have all their connections: what it says is added to the parameters; a sentence why the experiment is not
    /// possible here.
    ready: Option<&'e Ready<'e>>,
}

impl Suite<'_> {
    fn has(&self, families: &[Family]) -> bool {
        self.cases.iter().any(|case| families.contains(&case.family))
    }

    fn cases_of(&self, family: Family) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(move |case| case.family == family)
    }

    /// Runs the cases of an experiment, if there are any.
    fn run(
        &self,
        experiment: &Experiment<'_>,
        work: &mut dyn Work,
        runner: &mut Runner<'_>,
    ) -> Result<(), BenchError> {
        let family = experiment.family;
        if !self.has(&[family]) {
            return Ok(());
        }
        let line_up = line_up(family);
        let start = |spec| Target::start(spec, self.ground, experiment.layout);
        let mut targets: Vec<Target> = line_up.sides.iter().map(start).collect();
        let how = How {
            quick: self.args.common.quick,
            // Sides run from the start to the end, and the first answers compared have warmed them.
            plan: Plan {
                warmups: 0,
                ..runner.plan()
            },
        };
        let mut parameters = experiment.parameters.clone();
        if let Some(ready) = experiment.ready {
            contest::connect(&targets, work, POOL)?;
            match ready() {
                Ok(more) => parameters.extend(more),
                Err(reason) => {
                    for case in self.cases_of(family) {
                        rows::unavailable(case, &line_up, &reason, runner);
                    }
                    return Ok(());
                }
            }
        }
        for case in self.cases_of(family) {
            let result = contest::run(case, &line_up, &mut targets, work, how, runner.progress())?;
            rows::emit(case, &parameters, &line_up, &result, runner);
            runner.cases_are_finished();
        }
        Ok(())
    }

    fn scripted(&self, server: &Address, script: Script, check: Check) -> Result<Scripted, BenchError> {
        Ok(Scripted {
            program: self.ground.programs().path("pgbench"),
            folder: self.ground.folder("pgbench")?,
            script,
            constant: None,
            server: server.clone(),
            quick: match check {
                Check::Browsing(_) => 60,
                Check::BestSellers => 40,
                Check::Points(_) => 300,
            },
            check,
            warm_up: 0,
        })
    }

    fn browsing(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        if !self.has(&[Family::Tpcw, Family::BestSeller]) {
            return Ok(());
        }
        let factor = self
            .scale
            .unwrap_or(if self.args.full { tpcw::PAPER } else { 1.0 });
        let scale = match self.args.common.quick && self.scale.is_none() {
            true => tpcw::Scale::QUICK,
            false => tpcw::Scale::times(factor),
        };
        // All of the data in the server's own memory, as in the paper.
        let buffers = if factor > 2.0 { "8GB" } else { "2GB" };
        let server = self.ground.server("tpcw", &buffered(buffers))?;
        tpcw::load(server.address(), scale, runner.progress())?;
        let (items, customers) = (scale.items as i64, scale.customers as i64);
        let range = |name, columns, maximum| Range {
            name,
            columns,
            minimum: 1,
            maximum,
        };
        let layout = Layout {
            server: server.address().clone(),
            copies: Vec::new(),
            ranges: vec![
                range("item", &["item.i_id", "order_line.ol_i_id"], items),
                range("customer", &["customer.c_id", "orders.o_c_id"], customers),
            ],
            targets: vec![Split {
                name: "best_seller",
                query: interactions::BEST_SELLER.replace(":word", "$1"),
                key: "item.i_id",
                minimum: 1,
                maximum: items,
            }],
        };
        let folder = self.ground.folder("scripts")?;
        let scripts = interactions::write(&folder)?;
        let constant = Script::Weighted {
            files: vec![(interactions::write_constant(&folder)?, 1)],
            variables: interactions::variables(scale),
        };
        let variables = interactions::variables(scale);
        let best = interactions::place_of(interactions::BEST_SELLERS).unwrap_or_default();
        let alone = vec![(scripts[best].0.clone(), 1)];
        let parameters = parameters(&[("items", scale.items), ("customers", scale.customers)]);
        for (family, files, check) in [
            (Family::Tpcw, scripts, Check::Browsing(scale)),
            (Family::BestSeller, alone, Check::BestSellers),
        ] {
            let script = Script::Weighted {
                files,
                variables: variables.clone(),
            };
            let mut work = Scripted {
                constant: (family == Family::BestSeller).then(|| constant.clone()),
                ..self.scripted(server.address(), script, check)?
            };
            let experiment = Experiment {
                family,
                layout: &layout,
                parameters: parameters.clone(),
                ready: None,
            };
            self.run(&experiment, &mut work, runner)?;
        }
        Ok(())
    }

    fn terminals(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        if !self.has(&[Family::Tpcc]) {
            return Ok(());
        }
        let warehouses = self.scale.unwrap_or(WAREHOUSES).ceil() as i16;
        let scale = match self.args.common.quick {
            true => Warehouses::hundredth(2),
            false => Warehouses::standard(warehouses),
        };
        let server = self.ground.server("tpcc", &buffered("2GB"))?;
        let mut work = Terminals::new(server.address(), scale);
        runner.progress().begin("key-ranges: filling TPC-C's tables", 1);
        let loaded = work.load();
        runner.progress().end();
        loaded?;
        let layout = Layout {
            server: server.address().clone(),
            copies: Vec::new(),
            ranges: vec![Range {
                name: "warehouse",
                columns: &[
                    "warehouse.w_id",
                    "district.d_w_id",
                    "customer.c_w_id",
                    "history.h_w_id",
                    "new_order.no_w_id",
                    "orders.o_w_id",
                    "order_line.ol_w_id",
                    "stock.s_w_id",
                ],
                minimum: 1,
                maximum: i64::from(scale.warehouses.max(2)),
            }],
            targets: Vec::new(),
        };
        let experiment = Experiment {
            family: Family::Tpcc,
            layout: &layout,
            parameters: parameters(&[("scale", scale.warehouses as usize)]),
            ready: None,
        };
        self.run(&experiment, &mut work, runner)
    }

    fn points(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        if !self.has(&[Family::PointFit, Family::PointLarge]) {
            return Ok(());
        }
        let server = self.ground.server("points", &buffered("2GB"))?;
        // Half of a cache for the rows of its range: the other half is for what the server does with them.
        let caches = l2_bytes(&corun_topology::discover()) * all_cores() as u64;
        let sizes = if self.args.common.quick {
            [200_000, 2_000_000]
        } else {
            [caches / 2, caches * LARGE]
        };
        for (family, name, columns, bytes) in [
            (
                Family::PointFit,
                "points_fit",
                &["points_fit.id"] as &[&str],
                sizes[0],
            ),
            (Family::PointLarge, "points_large", &["points_large.id"], sizes[1]),
        ] {
            if !self.has(&[family]) {
                continue;
            }
            let table = Table::of_bytes(name, bytes);
            table.fill(server.address())?;
            let layout = Layout {
                server: server.address().clone(),
                copies: Vec::new(),
                ranges: vec![Range {
                    name: "points",
                    columns,
                    minimum: 1,
                    maximum: table.rows as i64,
                }],
                targets: Vec::new(),
            };
            let script = table.script(&self.ground.folder("scripts")?)?;
            let mut work = self.scripted(server.address(), script, Check::Points(table))?;
            let experiment = Experiment {
                family,
                layout: &layout,
                parameters: parameters(&[("rows", table.rows), ("bytes", bytes as usize)]),
                ready: None,
            };
            self.run(&experiment, &mut work, runner)?;
        }
        Ok(())
    }

    fn copies(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        let families = [
            Family::ReplicasHalf,
            Family::ReplicasHalfVolume,
            Family::ReplicasFit,
        ];
        if !self.has(&families) {
            return Ok(());
        }
        runner
            .progress()
            .begin("key-ranges: a server and two copies of it", 1);
        let copies = Copies::start(self.ground, self.scale.unwrap_or(1.0), self.args.common.quick);
        runner.progress().end();
        let copies = copies?;
        let layout = copies.layout();
        let table = copies.table();
        let script = table.script(&self.ground.folder("scripts")?)?;
        let throttles = RefCell::new(Vec::new());
        for family in families {
            let ready = || {
                throttles.borrow_mut().clear();
                if family == Family::ReplicasFit {
                    copies.free().map_err(|error| error.in_one_line())?;
                    return Ok(Vec::new());
                }
                let mut more = vec![("memory_bytes".to_owned(), Value::from(copies.halve()?))];
                if family == Family::ReplicasHalfVolume {
                    throttles.replace(copies.throttle(VOLUME_READS_PER_S)?);
                    more.push(("disk_reads_per_s".to_owned(), Value::from(VOLUME_READS_PER_S)));
                }
                Ok(more)
            };
            let mut work = Scripted {
                warm_up: match family {
                    Family::ReplicasHalfVolume => VOLUME_WARM_UP,
                    _ => COPIES_WARM_UP,
                },
                ..self.scripted(copies.primary(), script.clone(), Check::Points(table))?
            };
            let experiment = Experiment {
                family,
                layout: &layout,
                parameters: parameters(&[("rows", table.rows), ("bytes", copies.bytes() as usize)]),
                ready: Some(&ready),
            };
            self.run(&experiment, &mut work, runner)?;
        }
        Ok(())
    }
}

/// A server with so much memory of its own, that knows its data to be there, and that runs a query in one process as the paper's did.
fn buffered(size: &str) -> Setup {
    let owned = str::to_owned;
    Setup {
        settings: vec![
            ("shared_buffers", owned(size)),
            ("effective_cache_size", owned(size)),
            ("random_page_cost", owned("1.1")),
            ("max_parallel_workers_per_gather", owned("0")),
        ],
        ..Setup::default()
    }
}

fn parameters(all: &[(&str, usize)]) -> Vec<(String, Value)> {
    all.iter()
        .map(|(name, value)| ((*name).to_owned(), Value::from(*value)))
        .collect()
}

fn l2_bytes(topology: &Topology) -> u64 {
    topology.cache_bytes(2).map_or(L2_BYTES, |bytes| bytes.0)
}

fn scale(args: &KeyRangesArgs) -> Result<Option<f64>, BenchError> {
    match args.scale {
        Some(scale) if !(0.01..=100.0).contains(&scale) => Err(BenchError::BadArgument(format!(
            "--scale {scale}: {SUITE} takes 0.01 to 100: warehouses of TPC-C, hundreds of thousands of items of TPC-W"
        ))),
        scale => Ok(scale),
    }
}

#[cfg(test)]
mod tests;
