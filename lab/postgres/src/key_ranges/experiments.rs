//! [`Experiments`]: TPC-W, TPC-C, point reads and reads of copies: the server, the data and what clients do for each.
//!
//! Order of work for an experiment: a server with its data, the sides started one after the other, each case's turns
//! ([`super::contest`]), the rows.

use std::cell::RefCell;

use corun_workloads::tpcc::Scale as Warehouses;

use super::case::{Case, Family};
use super::configuration::{Layout, POOL, Range, Target as Split};
use super::contest::{self, How};
use super::points::Table;
use super::replicas::Copies;
use super::rows;
use super::target::Target;
use super::tpcw::{self, interactions, scripts};
use super::ways::LineUp;
use super::work::{Check, Scripted, Terminals, Work};
use crate::fixture::PgFixture;
use crate::fixture::address::Address;
use crate::fixture::cluster::{Cluster, Profile};
use crate::fixture::pgbench::Script;
use lab_core::error::BenchError;
use lab_core::metric::parameters;
use lab_core::row::Value;
use lab_core::run::{Plan, Runner};
use lab_core::suite::all_cores;

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

/// The sides of an experiment.
pub fn line_up(family: Family) -> LineUp {
    match family {
        Family::Tpcw => LineUp::mix(all_cores()),
        Family::BestSeller => LineUp::best_seller(&PARTS),
        Family::Tpcc | Family::PointFit | Family::PointLarge => LineUp::dispatched(),
        Family::ReplicasHalf | Family::ReplicasHalfVolume | Family::ReplicasFit => LineUp::copies(),
    }
}

/// What all experiments are given.
pub struct Experiments<'s> {
    /// Small data and turns that claim nothing.
    pub quick: bool,
    /// TPC-W as large as the paper's.
    pub full: bool,
    /// Sizes relative to the usual ones.
    pub scale: Option<f64>,
    /// The folder and the programs.
    pub fixture: &'s PgFixture,
    /// The cases to run.
    pub cases: &'s [Case],
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

impl Experiments<'_> {
    /// Runs those that have cases.
    pub fn run(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        self.browsing(runner)?;
        self.terminals(runner)?;
        self.points(runner)?;
        self.copies(runner)
    }

    fn has(&self, families: &[Family]) -> bool {
        self.cases.iter().any(|case| families.contains(&case.family))
    }

    fn cases_of(&self, family: Family) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(move |case| case.family == family)
    }

    /// Runs the cases of an experiment, if there are any.
    fn run_one(
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
        let start = |spec| Target::start(spec, self.fixture, experiment.layout);
        let mut targets: Vec<Target> = line_up.sides.iter().map(start).collect();
        let how = How {
            quick: self.quick,
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

    /// A server with so much memory of its own, that knows its data to be there, and that runs a query in one process as the paper's did.
    fn buffered(&self, name: &str, size: &str) -> Result<Cluster, BenchError> {
        let settings = [
            ("shared_buffers", size),
            ("effective_cache_size", size),
            ("random_page_cost", "1.1"),
            ("max_parallel_workers_per_gather", "0"),
        ];
        self.fixture.cluster(name, &Profile::with(&settings))
    }

    fn scripted(&self, server: &Address, script: Script, check: Check) -> Result<Scripted, BenchError> {
        Ok(Scripted {
            program: self.fixture.programs.path("pgbench"),
            folder: self.fixture.folder("pgbench")?,
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
        let factor = self.scale.unwrap_or(if self.full { tpcw::PAPER } else { 1.0 });
        let scale = match self.quick && self.scale.is_none() {
            true => tpcw::Scale::QUICK,
            false => tpcw::Scale::times(factor),
        };
        // All of the data in the server's own memory, as in the paper.
        let server = self.buffered("tpcw", if factor > 2.0 { "8GB" } else { "2GB" })?;
        let address = &server.address;
        tpcw::load(address, scale, runner.progress())?;
        let (items, customers) = (scale.items as i64, scale.customers as i64);
        let mut layout = Layout::of(address, "item", &["item.i_id", "order_line.ol_i_id"], items);
        layout.ranges.push(Range {
            name: "customer",
            columns: &["customer.c_id", "orders.o_c_id"],
            minimum: 1,
            maximum: customers,
        });
        layout.targets.push(Split {
            name: "best_seller",
            query: interactions::BEST_SELLER.replace(":word", "$1"),
            key: "item.i_id",
            minimum: 1,
            maximum: items,
        });
        let folder = self.fixture.folder("scripts")?;
        let all = scripts::write(&folder)?;
        let weighted = |files| Script::Weighted {
            files,
            variables: scripts::variables(scale),
        };
        let constant = weighted(vec![(scripts::write_constant(&folder)?, 1)]);
        let best = interactions::place_of(interactions::BEST_SELLERS).unwrap_or_default();
        let alone = vec![(all[best].0.clone(), 1)];
        for (family, files, check) in [
            (Family::Tpcw, all, Check::Browsing(scale)),
            (Family::BestSeller, alone, Check::BestSellers),
        ] {
            let mut work = Scripted {
                constant: (family == Family::BestSeller).then(|| constant.clone()),
                ..self.scripted(address, weighted(files), check)?
            };
            let experiment = Experiment {
                family,
                layout: &layout,
                parameters: counts([("items", scale.items), ("customers", scale.customers)]),
                ready: None,
            };
            self.run_one(&experiment, &mut work, runner)?;
        }
        Ok(())
    }

    fn terminals(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        if !self.has(&[Family::Tpcc]) {
            return Ok(());
        }
        let warehouses = self.scale.unwrap_or(WAREHOUSES).ceil() as i16;
        let scale = match self.quick {
            true => Warehouses::hundredth(2),
            false => Warehouses::standard(warehouses),
        };
        let server = self.buffered("tpcc", "2GB")?;
        let mut work = Terminals::new(&server.address, scale);
        runner.progress().begin("key-ranges: filling TPC-C's tables", 1);
        let loaded = work.load();
        runner.progress().end();
        loaded?;
        let columns = &[
            "warehouse.w_id",
            "district.d_w_id",
            "customer.c_w_id",
            "history.h_w_id",
            "new_order.no_w_id",
            "orders.o_w_id",
            "order_line.ol_w_id",
            "stock.s_w_id",
        ];
        let maximum = i64::from(scale.warehouses.max(2));
        let experiment = Experiment {
            family: Family::Tpcc,
            layout: &Layout::of(&server.address, "warehouse", columns, maximum),
            parameters: counts([("scale", scale.warehouses as usize)]),
            ready: None,
        };
        self.run_one(&experiment, &mut work, runner)
    }

    fn points(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        if !self.has(&[Family::PointFit, Family::PointLarge]) {
            return Ok(());
        }
        let server = self.buffered("points", "2GB")?;
        // Half of a cache for the rows of its range: the other half is for what the server does with them.
        let l2_bytes = corun_topology::discover().cache_bytes(2);
        let caches = l2_bytes.map_or(L2_BYTES, |bytes| bytes.0) * all_cores() as u64;
        let [fit, large] = match self.quick {
            true => [200_000, 2_000_000],
            false => [caches / 2, caches * LARGE],
        };
        let all: [(_, _, &[&str], _); 2] = [
            (Family::PointFit, "points_fit", &["points_fit.id"], fit),
            (Family::PointLarge, "points_large", &["points_large.id"], large),
        ];
        for (family, name, columns, bytes) in all {
            if !self.has(&[family]) {
                continue;
            }
            let table = Table::of_bytes(name, bytes);
            table.fill(&server.address)?;
            let script = table.script(&self.fixture.folder("scripts")?)?;
            let mut work = self.scripted(&server.address, script, Check::Points(table))?;
            let experiment = Experiment {
                family,
                layout: &Layout::of(&server.address, "points", columns, table.rows as i64),
                parameters: counts([("rows", table.rows), ("bytes", bytes as usize)]),
                ready: None,
            };
            self.run_one(&experiment, &mut work, runner)?;
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
        let progress = runner.progress();
        progress.begin("key-ranges: a server and two copies of it", 1);
        let copies = Copies::start(self.fixture, self.scale.unwrap_or(1.0), self.quick);
        progress.end();
        let copies = copies?;
        let layout = copies.layout();
        let table = copies.table;
        let script = table.script(&self.fixture.folder("scripts")?)?;
        let throttles = RefCell::new(Vec::new());
        for family in families {
            let ready = || {
                throttles.borrow_mut().clear();
                if family == Family::ReplicasFit {
                    copies.free().map_err(|error| error.in_one_line())?;
                    return Ok(Vec::new());
                }
                let mut more = vec![("memory_bytes", Value::from(copies.halve()?))];
                if family == Family::ReplicasHalfVolume {
                    throttles.replace(copies.throttle(VOLUME_READS_PER_S)?);
                    more.push(("disk_reads_per_s", Value::from(VOLUME_READS_PER_S)));
                }
                Ok(parameters(more))
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
                parameters: counts([("rows", table.rows), ("bytes", copies.bytes as usize)]),
                ready: Some(&ready),
            };
            self.run_one(&experiment, &mut work, runner)?;
        }
        Ok(())
    }
}

fn counts<const N: usize>(all: [(&str, usize); N]) -> Vec<(String, Value)> {
    parameters(all.map(|(name, count)| (name, Value::from(count))))
}
