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

use corun_workloads::driver::{Outcome, TeamOutcome, Teams};
use corun_workloads::engine::Durability;
use corun_workloads::tpcc::{Kind, Mix, Scale};
use corun_workloads::ycsb::Workload;

use corun_model::units::CpuId;

use super::case::{CLIENTS_OF_A_WAREHOUSE, Case, Setup, Sizes, Work};
use super::contest::on_cpus;
use super::measured::Measured;
use super::ours::{self, Ours};
use corun_model::progress::Progress;
use lab_core::error::BenchError;
use lab_core::order;
use lab_core::run::Plan;
use lab_core::scratch::Scratch;
use lab_core::stats::{Verdict, not_slower, pair_ratios};

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

/// All ways, the controls last.
pub const WAYS: [Way; 8] = [
    way("one", Teams::Off, true),
    way("one_auto", Teams::Auto, true),
    way("off", Teams::Off, false),
    way("serial", Teams::Serial, false),
    way("on", Teams::On, false),
    way("auto", Teams::Auto, false),
    way("one", Teams::Off, true),
    way("off", Teams::Off, false),
];

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
/// See [`ONE`].
pub const ONE_AGAIN: usize = 6;
/// See [`ONE`].
pub const OFF_AGAIN: usize = 7;

/// What one way gave.
#[derive(Clone, Debug, Default)]
pub struct Track {
    /// By round; `None` where it did not take part.
    pub rounds: Vec<Option<Measured>>,
    /// The teams of its last round.
    pub teams: Option<TeamOutcome>,
}

/// What all ways gave.
#[derive(Clone, Debug)]
pub struct Tracks {
    /// In the order of [`WAYS`].
    pub ways: Vec<Track>,
    /// The first wrong answer, or what does not hold of the data afterwards.
    pub wrong: Option<String>,
}

impl Tracks {
    /// Throughput of one way over that of another, for each round both took part in.
    pub fn ratios(&self, subject: usize, other: usize) -> Vec<f64> {
        let pairs = self.ways[subject].rounds.iter().zip(&self.ways[other].rounds);
        let (other, subject): (Vec<f64>, Vec<f64>) = pairs
            .filter_map(|(subject, other)| Some((other.as_ref()?.tps, subject.as_ref()?.tps)))
            .unzip();
        pair_ratios(&other, &subject)
    }

    /// Whether `auto` is not slower than threads, and with one client not than one alone.
    pub fn verdict(&self, subject: usize) -> Option<Verdict> {
        let (other, again) = match subject {
            AUTO => (OFF, OFF_AGAIN),
            ONE_AUTO => (ONE, ONE_AGAIN),
            _ => return None,
        };
        Some(not_slower(
            &self.ratios(subject, other),
            &self.ratios(other, again),
        ))
    }
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
        let case = Case { name, work };
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
) -> Result<Tracks, BenchError> {
    on_cpus(&setup.cpus, || contest(setup, scratch, plan, progress))?
}

fn contest(
    setup: &Setup,
    scratch: &Scratch,
    plan: Plan,
    progress: &dyn Progress,
) -> Result<Tracks, BenchError> {
    progress.begin(&format!("oltp {}", setup.name()), 2 + plan.repetitions as u64);
    let folder = scratch.folder(setup.case.name)?;
    let mut tracks = Tracks {
        ways: vec![Track::default(); WAYS.len()],
        wrong: ours::compare(setup, &folder, true)?,
    };
    progress.advance(1);
    let (ours, _) = Ours::load(setup, &folder)?;
    progress.advance(1);
    let all: Vec<usize> = (0..WAYS.len()).collect();
    for _ in 0..plan.repetitions {
        round(setup, &ours, &mut tracks, all.clone(), plan.order_seed)?;
        progress.advance(1);
    }
    loop {
        let near = undecided(&tracks);
        if near.is_empty() || tracks.ways[OFF].rounds.len() >= plan.pairs_max {
            break;
        }
        round(setup, &ours, &mut tracks, near, plan.order_seed)?;
    }
    let wrong = ours.check()?.into_iter().next();
    tracks.wrong = tracks.wrong.take().or(wrong);
    progress.end();
    Ok(tracks)
}

/// The ways to run once more because nobody can say yet whether `auto` is slower.
fn undecided(tracks: &Tracks) -> Vec<usize> {
    [[ONE, ONE_AUTO, ONE_AGAIN], [OFF, AUTO, OFF_AGAIN]]
        .into_iter()
        .filter(|[_, subject, _]| tracks.verdict(*subject) == Some(Verdict::Undecided))
        .flatten()
        .collect()
}

fn round(
    setup: &Setup,
    ours: &Ours,
    tracks: &mut Tracks,
    mut order: Vec<usize>,
    seed: u64,
) -> Result<(), BenchError> {
    let number = tracks.ways[OFF].rounds.len();
    order::shuffle(&mut order, seed, &setup.name(), number);
    for track in &mut tracks.ways {
        track.rounds.push(None);
    }
    for place in order {
        let way = WAYS[place];
        let clients = if way.alone { 1 } else { setup.clients };
        let mut outcome: Outcome = ours.outcome(number + 1, clients, way.teams)?;
        let track = &mut tracks.ways[place];
        track.teams = outcome.teams.take();
        if let Some(last) = track.rounds.last_mut() {
            *last = Some(Measured::of(&outcome, setup.case.work.main_transaction()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(rates: &[Option<f64>]) -> Track {
        let round = |tps| Measured {
            tps,
            new_orders_per_min: 0.0,
            p50_us: None,
            p99_us: None,
            retries: 0.0,
        };
        Track {
            rounds: rates.iter().map(|rate| rate.map(round)).collect(),
            teams: None,
        }
    }

    fn tracks(auto: f64, pairs: usize) -> Tracks {
        let mut ways = vec![Track::default(); WAYS.len()];
        for (place, tps) in [(OFF, 100.0), (OFF_AGAIN, 101.0), (AUTO, auto)] {
            ways[place] = track(&vec![Some(tps); pairs]);
        }
        Tracks { ways, wrong: None }
    }

    #[test]
    fn auto_is_judged_by_what_threads_do_twice() {
        assert_eq!(tracks(200.0, 5).verdict(AUTO), Some(Verdict::NotSlower));
        assert_eq!(tracks(99.5, 5).verdict(AUTO), Some(Verdict::Undecided));
        assert_eq!(tracks(99.5, 30).verdict(AUTO), Some(Verdict::NotSlower));
        assert_eq!(tracks(90.0, 5).verdict(AUTO), Some(Verdict::Slower));
        assert_eq!(tracks(90.0, 5).verdict(ON), None);
        let near = tracks(99.5, 5);
        // One client has not been run at all, so nobody can say anything of it either.
        assert_eq!(undecided(&near), [ONE, ONE_AUTO, ONE_AGAIN, OFF, AUTO, OFF_AGAIN]);
    }

    #[test]
    fn ratios_are_of_rounds_both_took_part_in() {
        let mut tracks = tracks(1.0, 0);
        tracks.ways[ON] = track(&[Some(10.0), None, Some(30.0)]);
        tracks.ways[SERIAL] = track(&[Some(5.0), Some(1.0), None]);
        assert_eq!(tracks.ratios(ON, SERIAL), [2.0]);
    }

    #[test]
    fn ways_are_where_their_places_say() {
        let names =
            [ONE, ONE_AUTO, OFF, SERIAL, ON, AUTO, ONE_AGAIN, OFF_AGAIN].map(|place| WAYS[place].name);
        assert_eq!(
            names,
            ["one", "one_auto", "off", "serial", "on", "auto", "one", "off"]
        );
        for (a, b) in [(ONE, ONE_AGAIN), (OFF, OFF_AGAIN)] {
            assert_eq!(WAYS[a], WAYS[b]);
        }
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
