//! The `teams` cases: clients of the same store and data on threads and in teams, on one worker.
//!
//! ```text
//!   one         one client alone: its transactions one after the other, nobody beside it
//!   one_auto    one client that might form teams                            versus one:     never slower
//!   off         all clients, a thread each                                  as everywhere else in the suite
//!   serial      all clients on one thread, a transaction each in turns      user-level threads alone
//!   on          all clients in teams
//!   auto        all clients, in teams while that is faster                  versus off:     never slower
//! ```
//!
//! All ways do the same work. In TPC-C that takes care: a terminal has one home warehouse, so the one client sends the transactions of all
//! terminals in turns, where the others send those of one terminal each. As one terminal it would touch a 32nd of the data, which stays in
//! the caches.
//!
//! `one` and `off` are run twice a round: the A/A controls. Sides take turns on the same data, in an order shuffled anew each round.
//! Not here: the rows ([`super::team_rows`]).

use corun_workloads::driver::{TeamOutcome, Teams};
use corun_workloads::engine::Durability;
use corun_workloads::tpcc::{Kind, Mix, Scale};
use corun_workloads::ycsb::Workload;

use corun_model::units::CpuId;

use super::case::{CLIENTS_OF_A_WAREHOUSE, Case, Setup, Sizes, Work};
use super::contest::on_cpus;
use super::measured::{METRICS, Measured};
use super::ours::{self, Ours};
use corun_model::progress::Progress;
use lab_core::contest::{Contest, ContestResult};
use lab_core::error::BenchError;
use lab_core::run::Plan;
use lab_core::scratch::Scratch;

/// Warehouses of the large TPC-C databases.
const WAREHOUSES: i16 = 32;
/// Records of the large YCSB databases: about six gigabytes, many times the largest caches.
const RECORDS: u64 = 5_000_000;
/// Records of the small ones, which fit into a level-two cache with room for the program.
const RECORDS_SMALL: u64 = 1_000;
/// Clients of YCSB: twice a team.
const CLIENTS: usize = 32;

/// One way in which clients share the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// What it is called in rows.
    pub name: &'static str,
    /// As the driver calls it.
    pub teams: Teams,
    /// One client only, which sends the transactions of all.
    pub alone: bool,
}

const fn way(name: &'static str, teams: Teams, alone: bool) -> Way {
    Way { name, teams, alone }
}

/// All ways.
pub const WAYS: [Way; 6] = [
    way("one", Teams::Off, true),
    way("one_auto", Teams::Auto, true),
    way("off", Teams::Off, false),
    way("serial", Teams::Serial, false),
    way("on", Teams::On, false),
    way("auto", Teams::Auto, false),
];

/// Which ways go on until they are decided: what teams may not make slower.
pub const DECIDED: [(usize, usize); 2] = [(ONE_AUTO, ONE), (AUTO, OFF)];

/// The places of [`WAYS`].
pub const ONE: usize = 0;
/// See [`ONE`].
pub const ONE_AUTO: usize = 1;
/// See [`ONE`].
pub const OFF: usize = 2;
/// See [`ONE`].
pub const SERIAL: usize = 3;
/// See [`ONE`].
pub const ON: usize = 4;
/// See [`ONE`].
pub const AUTO: usize = 5;

impl Way {
    /// Its clients.
    pub fn clients(self, setup: &Setup) -> usize {
        if self.alone { 1 } else { setup.clients }
    }
}

/// What all ways gave.
pub struct Results {
    /// In the order of [`WAYS`]; what is wrong is so for all, whose data is the same.
    pub rounds: ContestResult<Measured>,
    /// The teams of each way's last round.
    pub teams: Vec<Option<TeamOutcome>>,
}

/// All cases: data far beyond the caches, and small data. `scale` and `records` replace the sizes of the large ones.
pub fn setups(quick: bool, scale: Option<Scale>, records: Option<u64>, cpus: &[CpuId]) -> Vec<Setup> {
    let usual = if quick { Sizes::quick() } else { Sizes::standard() };
    let small = Sizes {
        records: RECORDS_SMALL,
        ..usual
    };
    let large = Sizes {
        scale: scale.unwrap_or(if quick {
            usual.scale
        } else {
            Scale::standard(WAREHOUSES)
        }),
        records: records.unwrap_or(if quick { usual.records } else { RECORDS }),
        ..usual
    };
    let read = Work::Ycsb(Workload::C);
    let cases = [
        ("teams_ycsb_c", read, large, false),
        ("teams_ycsb_c_even", read, large, true),
        ("teams_ycsb_c_small", read, small, false),
        ("teams_tpcc", Work::Tpcc(Mix::STANDARD), large, false),
        (
            "teams_payment",
            Work::Tpcc(Mix::only(Kind::Payment)),
            large,
            false,
        ),
        ("teams_tpcc_small", Work::Tpcc(Mix::STANDARD), small, false),
    ];
    let setup = |(name, work, sizes, even)| {
        let case = Case {
            name,
            work,
            alone: false,
        };
        let mut setup = Setup::new(case, Durability::None, 1, cpus, sizes);
        setup.even = even;
        setup.clients = match work {
            Work::Tpcc(_) => CLIENTS_OF_A_WAREHOUSE * usize::from(sizes.scale.warehouses.unsigned_abs()),
            Work::Ycsb(_) => CLIENTS,
        };
        setup
    };
    cases.into_iter().map(setup).collect()
}

/// Runs a case.
///
/// # Errors
/// The store's and the clients', and when the CPUs are not ours.
pub fn run(
    setup: &Setup,
    scratch: &Scratch,
    plan: Plan,
    progress: &dyn Progress,
) -> Result<Results, BenchError> {
    on_cpus(&setup.cpus, || run_here(setup, scratch, plan, progress))?
}

fn run_here(
    setup: &Setup,
    scratch: &Scratch,
    plan: Plan,
    progress: &dyn Progress,
) -> Result<Results, BenchError> {
    progress.begin(&format!("oltp {}", setup.name()), 2 + plan.repetitions as u64);
    let folder = scratch.folder(setup.case.name)?;
    let differs = ours::compare(setup, &folder, true)?;
    progress.advance(1);
    let (ours, _) = Ours::load(setup, &folder)?;
    progress.advance(1);
    let contest = Contest {
        name: &setup.name(),
        pairs: &DECIDED,
        controls: &[ONE, OFF],
        metric: &METRICS[0],
        plan,
    };
    let mut teams = vec![None; WAYS.len()];
    let mut rounds = contest.run_all(WAYS.len(), progress, |place, round| {
        let way = WAYS[place];
        let mut outcome = ours.outcome(round + 1, way.clients(setup), way.teams)?;
        teams[place] = outcome.teams.take();
        Ok((Measured::of(&outcome, setup.case.work.main_transaction()), None))
    })?;
    let wrong = differs.or(ours.check()?.into_iter().next());
    for side in rounds.all_mut() {
        side.wrong = wrong.clone();
    }
    // Rows have the control of `off` first.
    rounds.controls.reverse();
    progress.end();
    Ok(Results { rounds, teams })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_where_their_places_say() {
        let names = [ONE, ONE_AUTO, OFF, SERIAL, ON, AUTO].map(|place| WAYS[place].name);
        assert_eq!(names, ["one", "one_auto", "off", "serial", "on", "auto"]);
    }

    #[test]
    fn sizes_are_the_large_ones_unless_told() {
        let cpus = [CpuId(0), CpuId(1)];
        let clients = |quick, scale| -> Vec<usize> {
            setups(quick, scale, None, &cpus)
                .iter()
                .map(|setup| setup.clients)
                .collect()
        };
        assert_eq!(clients(false, None), [32, 32, 32, 320, 320, 20]);
        assert_eq!(clients(false, Some(Scale::standard(40)))[3..], [400, 400, 20]);
        assert_eq!(clients(true, None), [32, 32, 32, 10, 10, 10]);
        assert!(
            setups(false, None, None, &cpus)
                .iter()
                .all(|setup| setup.workers() == 1)
        );
    }
}
