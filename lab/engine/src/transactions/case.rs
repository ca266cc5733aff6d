//! [`Case`]: a workload with a name, and [`Setup`]: a case with everything that its sides must have the same.

use std::time::Duration;

use corun_model::units::CpuId;
use corun_workloads::engine::Durability;
use corun_workloads::tpcc::{Kind, Mix, Scale};
use corun_workloads::ycsb::{self, Workload};

use lab_core::row::Value;

/// Terminals of a warehouse, as the specification has them.
pub const CLIENTS_OF_A_WAREHOUSE: usize = 10;
/// Clients of a worker where commits wait for the disk: with one, the disk would wait for the CPU between any two commits, and no two
/// commits could share a write. Unmeasured.
const CLIENTS_OF_A_DURABLE_WORKER: usize = 8;
/// What inputs and data are drawn from.
pub const SEED: u64 = 1;

/// What clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Transactions of TPC-C.
    Tpcc(Mix),
    /// Transactions of YCSB.
    Ycsb(Workload),
}

impl Work {
    /// The transaction whose latency is reported: what the throughput counts, or what writes.
    pub fn main_transaction(self) -> &'static str {
        match self {
            Work::Tpcc(mix) if mix == Mix::only(Kind::Payment) => Kind::Payment.as_str(),
            Work::Tpcc(_) => Kind::NewOrder.as_str(),
            Work::Ycsb(workload) => match workload {
                Workload::A => ycsb::Kind::Update,
                Workload::B | Workload::C | Workload::D => ycsb::Kind::Read,
                Workload::E => ycsb::Kind::Scan,
                Workload::F => ycsb::Kind::ReadModifyWrite,
            }
            .as_str(),
        }
    }

    /// Whether New Orders are among the transactions.
    pub fn has_new_orders(self) -> bool {
        matches!(self, Work::Tpcc(mix) if mix != Mix::only(Kind::Payment))
    }

    /// The metric that engines are compared by.
    pub fn compared_by(self) -> &'static str {
        match self {
            Work::Tpcc(Mix::STANDARD) => super::NEW_ORDERS,
            _ => super::TPS,
        }
    }
}

/// A workload of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The `workload` of its rows.
    pub name: &'static str,
    /// What it runs.
    pub work: Work,
    /// One client, whose commits are durable: nobody shares its writes.
    pub alone: bool,
}

/// All of them, in the order of the documentation.
pub const CASES: [Case; 11] = [
    tpcc_case("tpcc", Mix::STANDARD),
    tpcc_case("payment", Mix::only(Kind::Payment)),
    tpcc_case("no_delivery", Mix::NO_DELIVERY),
    ycsb_case("ycsb_a", Workload::A),
    ycsb_case("ycsb_b", Workload::B),
    ycsb_case("ycsb_c", Workload::C),
    ycsb_case("ycsb_d", Workload::D),
    ycsb_case("ycsb_e", Workload::E),
    ycsb_case("ycsb_f", Workload::F),
    alone(tpcc_case("payment_alone", Mix::only(Kind::Payment))),
    alone(ycsb_case("ycsb_f_alone", Workload::F)),
];

const fn tpcc_case(name: &'static str, mix: Mix) -> Case {
    Case {
        name,
        work: Work::Tpcc(mix),
        alone: false,
    }
}

const fn ycsb_case(name: &'static str, workload: Workload) -> Case {
    Case {
        name,
        work: Work::Ycsb(workload),
        alone: false,
    }
}

const fn alone(case: Case) -> Case {
    Case { alone: true, ..case }
}

const ALL_PROMISES: [Durability; 3] = [Durability::None, Durability::Asynchronous, Durability::Durable];

impl Case {
    /// What its commits promise, one run each: all in TPC-C; in YCSB none, and durable in A and F, which write half the time. `full`:
    /// all.
    fn promises(self, full: bool) -> Vec<Durability> {
        match self.work {
            _ if self.alone => vec![Durability::Durable],
            Work::Tpcc(_) => ALL_PROMISES.to_vec(),
            Work::Ycsb(_) if full => ALL_PROMISES.to_vec(),
            Work::Ycsb(Workload::A | Workload::F) => vec![Durability::None, Durability::Durable],
            Work::Ycsb(_) => vec![Durability::None],
        }
    }
}

/// How large data are and how long rounds take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// TPC-C.
    pub scale: Scale,
    /// YCSB.
    pub records: u64,
    /// What runs before a round counts, in each round of each side.
    pub warmup: Duration,
    /// What counts of a round.
    pub measured: Duration,
    /// Where nothing is claimed about time: so many transactions in our own rounds instead, so that a busy machine cannot leave any
    /// type out.
    pub transactions: Option<u64>,
    /// Transactions compared with the oracle's before anything is measured.
    pub compared: u64,
}

impl Sizes {
    /// Two warehouses, so that one worker and two run the same database, and a million records.
    pub fn standard() -> Sizes {
        Sizes {
            scale: Scale::standard(2),
            records: 1_000_000,
            warmup: Duration::from_millis(500),
            measured: Duration::from_secs(3),
            transactions: None,
            compared: 2_000,
        }
    }

    /// So little that everything takes seconds.
    pub fn quick() -> Sizes {
        Sizes {
            scale: Scale::hundredth(1),
            records: 1_000,
            warmup: Duration::ZERO,
            measured: Duration::from_millis(50),
            transactions: Some(200),
            compared: 100,
        }
    }
}

/// A case as it is run: the same for all sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The workload.
    pub case: Case,
    /// What commits promise.
    pub durability: Durability,
    /// The CPU of each worker.
    pub cpus: Vec<CpuId>,
    /// Sizes and times.
    pub sizes: Sizes,
    /// Clients at once.
    pub clients: usize,
    /// Whether all records are equally likely, so that caches are of no use; no part of the standard workloads.
    pub even: bool,
}

impl Setup {
    /// The case run by `workers` workers on the first of `cpus`.
    pub fn new(case: Case, durability: Durability, workers: usize, cpus: &[CpuId], sizes: Sizes) -> Setup {
        let clients = match case.work {
            _ if case.alone => 1,
            Work::Tpcc(_) => CLIENTS_OF_A_WAREHOUSE * usize::from(sizes.scale.warehouses.unsigned_abs()),
            Work::Ycsb(_) if durability == Durability::Durable => CLIENTS_OF_A_DURABLE_WORKER * workers,
            // Nothing to wait for: more clients than workers would only add switches between threads.
            Work::Ycsb(_) => workers,
        };
        Setup {
            case,
            durability,
            cpus: cpus.iter().copied().take(workers).collect(),
            sizes,
            clients,
            even: false,
        }
    }

    /// Workers, one a CPU.
    pub fn workers(&self) -> usize {
        self.cpus.len()
    }

    /// The `case` of its rows: `tpcc_durable_t2`.
    pub fn name(&self) -> String {
        format!("{}_{}_t{}", self.case.name, self.durability, self.workers())
    }

    /// The `scale` of its rows: warehouses or records.
    pub fn scale(&self) -> f64 {
        match self.case.work {
            Work::Tpcc(_) => f64::from(self.sizes.scale.warehouses) / f64::from(self.sizes.scale.divisor),
            Work::Ycsb(_) => self.sizes.records as f64,
        }
    }

    /// Rows or records that are loaded.
    pub fn rows(&self) -> u64 {
        match self.case.work {
            Work::Tpcc(_) => self.sizes.scale.rows(),
            Work::Ycsb(_) => self.sizes.records,
        }
    }

    /// The parameters of its rows beside `engine`.
    pub fn parameters(&self) -> Vec<(String, Value)> {
        [
            ("workload", Value::from(self.case.name)),
            ("scale", scale_value(self.scale())),
            ("workers", Value::from(self.workers())),
            ("durability", Value::from(self.durability.to_string())),
            ("teams", Value::from("off")),
            ("clients", Value::from(self.clients)),
            ("transaction", Value::from(self.case.work.main_transaction())),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .to_vec()
    }
}

/// The `scale` of a row: a whole number unless warehouses are divided for a quick run.
pub fn scale_value(scale: f64) -> Value {
    if scale.fract() == 0.0 {
        Value::Integer(scale as i64)
    } else {
        Value::Number(scale)
    }
}

/// All setups, by case, durability and workers.
pub fn setups(full: bool, worker_counts: &[usize], cpus: &[CpuId], sizes: Sizes) -> Vec<Setup> {
    let mut setups = Vec::new();
    for case in CASES {
        for durability in case.promises(full) {
            for &workers in worker_counts
                .iter()
                .filter(|workers| **workers == 1 || !case.alone)
            {
                setups.push(Setup::new(case, durability, workers, cpus, sizes));
            }
        }
    }
    setups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(full: bool) -> Vec<String> {
        let cpus = [CpuId(0), CpuId(1)];
        setups(full, &[1, 2], &cpus, Sizes::standard())
            .iter()
            .map(Setup::name)
            .collect()
    }

    #[test]
    fn cases_have_names_of_their_own() {
        let (usual, full) = (names(false), names(true));
        for wanted in [
            "tpcc_none_t1",
            "payment_async_t2",
            "ycsb_f_durable_t1",
            "ycsb_c_none_t2",
        ] {
            assert!(usual.iter().any(|name| name == wanted), "{wanted}");
        }
        assert!(!usual.iter().any(|name| name == "ycsb_c_durable_t1"));
        assert_eq!(
            (usual.len(), full.len()),
            (3 * 3 * 2 + (6 + 2) * 2 + 2, 9 * 3 * 2 + 2)
        );
        let distinct: std::collections::BTreeSet<_> = full.iter().collect();
        assert_eq!(distinct.len(), full.len());
    }

    #[test]
    fn clients_follow_what_limits_a_workload() {
        let cpus = [CpuId(0), CpuId(1)];
        let clients = |case: Case, durability| {
            [1, 2].map(|workers| Setup::new(case, durability, workers, &cpus, Sizes::standard()).clients)
        };
        assert_eq!(clients(CASES[0], Durability::Durable), [20, 20]);
        assert_eq!(clients(CASES[3], Durability::None), [1, 2]);
        assert_eq!(clients(CASES[3], Durability::Durable), [8, 16]);
        assert_eq!(clients(CASES[9], Durability::Durable)[0], 1);
    }

    #[test]
    fn engines_are_compared_by_new_orders_only_in_the_standard_mix() {
        let by: Vec<_> = CASES.iter().map(|case| case.work.compared_by()).collect();
        assert_eq!(&by[..3], ["new_orders_per_min", "tps", "tps"]);
        assert!(!CASES[1].work.has_new_orders() && CASES[2].work.has_new_orders());
        assert_eq!(CASES[1].work.main_transaction(), "payment");
        assert_eq!(CASES[8].work.main_transaction(), "read_modify_write");
    }
}
