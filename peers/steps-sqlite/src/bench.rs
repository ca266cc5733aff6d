//! The bench: instruction misses of serial runs and of teams on the traces of this very program (simulated caches), and times.
//!
//! Every answer is compared with the oracle's, in the traced child and in the timed runs. Not here: what is printed of it.

use corun_cachesim::instruction_cache::{CodeCache, Original};
use corun_exec::teams::patch::{Entries, Prefetch, patch};
use corun_exec::teams::{Lost, Scheduler, TeamOptions};

use crate::run::{self, Answers, Marks};
use crate::sqlite::SqliteError;
use crate::subject::{self, Mode, Subject, SubjectError};
use crate::tenant::{Kind, Request, Tenant};

/// Instruction misses of one kind of request, so many tenants taking turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Misses {
    /// Which requests.
    pub kind: Kind,
    /// Tenants, all in one team.
    pub tenants: u32,
    /// Instructions of a request, serial.
    pub instructions: u64,
    /// Bytes of the lines a request's instructions lie in, serial.
    pub footprint_bytes: u64,
    /// Lines missed in a request, serial.
    pub serial: f64,
    /// Lines missed in a request by a team, its scheduler, switches and all.
    pub team: f64,
    /// What each member but the first adds, if the first misses what a serial request does. `None` for one tenant.
    pub additional: Option<f64>,
    /// CTX calls of a member in one request.
    pub calls: f64,
}

impl Misses {
    /// How many fewer a team misses, in percent.
    pub fn reduction_percent(&self) -> f64 {
        100.0 * (1.0 - self.team / self.serial)
    }

    /// How many fewer a member behind the leading one misses, in percent.
    pub fn additional_reduction_percent(&self) -> Option<f64> {
        self.additional
            .map(|additional| 100.0 * (1.0 - additional / self.serial))
    }
}

/// Traces a round of a serial run and one of a team, and runs both through the cache, warmed by the same round.
///
/// # Errors
/// The tracer's and the child's.
pub fn misses(
    kind: Kind,
    tenants: u32,
    customers: i64,
    entries: &[String],
    caches: &[CodeCache],
) -> Result<Vec<Misses>, SubjectError> {
    let traced = |mode: Mode, entries: &[String]| {
        subject::trace(&Subject {
            kind,
            mode,
            tenants,
            customers,
            entries: entries.to_vec(),
        })
    };
    let (serial, team) = (traced(Mode::Serial, &[])?, traced(Mode::Team, entries)?);
    let calls = team.entered(entries) as f64 / f64::from(tenants);
    let of = |cache: &CodeCache| {
        let (serial, team) = (&serial.operations[0], &team.operations[0]);
        let (serial, team) = (Original::of(serial, cache)?, Original::of(team, cache)?);
        let each = |misses: u64| misses as f64 / f64::from(tenants);
        let one = each(serial.warm_misses);
        Ok(Misses {
            kind,
            tenants,
            instructions: serial.instructions / u64::from(tenants),
            footprint_bytes: serial.footprint_bytes,
            serial: one,
            team: each(team.warm_misses),
            additional: (tenants > 1).then(|| (team.warm_misses as f64 - one) / f64::from(tenants - 1)),
            calls,
        })
    };
    caches.iter().map(of).collect()
}

/// How requests run in a timed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One after the other.
    Serial,
    /// The same again: what differs is chance.
    SerialAgain,
    /// Members of a scheduler without CTX points: what the scheduler costs.
    Members,
    /// A team that switches at the profile's functions.
    Team,
    /// The same; before it switches, a member asks for the line its function's first argument points to.
    TeamPrefetch,
}

impl Way {
    /// All of them, in the order of a round.
    pub const ALL: [Self; 5] = [
        Self::Serial,
        Self::Team,
        Self::SerialAgain,
        Self::TeamPrefetch,
        Self::Members,
    ];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::SerialAgain => "serial-again",
            Self::Members => "members",
            Self::Team => "team",
            Self::TeamPrefetch => "team-prefetch",
        }
    }
}

/// Times of one kind of request.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Which requests.
    pub kind: Kind,
    /// Tenants, all in one team.
    pub tenants: u32,
    /// Customers of each.
    pub customers: i64,
    /// By way: the median of its rounds, nanoseconds of the thread's processor time for a request.
    pub ns: Vec<(Way, f64)>,
    /// By way: the median over rounds of serial time by its time, both of the same round.
    pub ratio: Vec<(Way, f64)>,
}

/// Runs `rounds` rounds of all ways in turn, each with `requests` requests a tenant.
///
/// # Errors
/// SQLite's, the scheduler's, wrong answers.
pub fn times(
    kind: Kind,
    tenants: u32,
    customers: i64,
    entries: &[String],
    rounds: u32,
    requests: u32,
) -> Result<Times, SubjectError> {
    let known = Entries::of_this_process()?;
    let opened: Result<Vec<Tenant>, SqliteError> = (0..tenants)
        .map(|tenant| Tenant::open(tenant, customers))
        .collect();
    let mut opened = opened?;
    let options = TeamOptions {
        team_size_max: tenants as usize,
        ..TeamOptions::default()
    };
    let mut scheduler = Scheduler::new(options)?;
    let mut asked: Vec<Vec<Request>> = vec![Vec::new(); tenants as usize];
    let mut answered: Vec<Answers> = vec![Answers::new(); tenants as usize];
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); Way::ALL.len()];
    let mut number = 0;
    // The first round warms and is not counted.
    for round in 0..=rounds {
        for (way, samples) in Way::ALL.into_iter().zip(&mut samples) {
            let plan = run::requests(kind, tenants, number, requests, customers);
            number += requests;
            let prefetch = match way {
                Way::Team => Some(Prefetch::Nothing),
                Way::TeamPrefetch => Some(Prefetch::FirstArgument),
                Way::Serial | Way::SerialAgain | Way::Members => None,
            };
            // SAFETY: the only thread that runs SQLite, now and when it is dropped.
            let patched = prefetch.map(|prefetch| unsafe { patch(&known, entries, prefetch) });
            let _patched = patched.transpose()?;
            let begun = thread_ns();
            let answers = match way {
                Way::Serial | Way::SerialAgain => run::serial(&mut opened, &plan, Marks::None),
                Way::Members | Way::Team | Way::TeamPrefetch => {
                    let answers = run::team(&mut scheduler, &mut opened, &plan, Marks::None);
                    let lost = |lost: Lost| SubjectError::Lost(format!("{lost:?}"));
                    answers.into_iter().collect::<Result<_, _>>().map_err(lost)?
                }
            };
            let ns = (thread_ns() - begun) as f64 / f64::from(requests * tenants);
            if round > 0 {
                samples.push(ns);
            }
            for ((asked, answered), (plan, answers)) in asked
                .iter_mut()
                .zip(&mut answered)
                .zip(plan.into_iter().zip(answers))
            {
                asked.extend(plan);
                answered.extend(answers);
            }
        }
    }
    for (tenant, (asked, answered)) in (0..).zip(asked.iter().zip(&answered)) {
        subject::check(tenant, customers, asked, answered)?;
    }
    let ratios = |way: &[f64]| {
        median(
            samples[0]
                .iter()
                .zip(way)
                .map(|(serial, way)| serial / way)
                .collect(),
        )
    };
    Ok(Times {
        kind,
        tenants,
        customers,
        ns: Way::ALL
            .into_iter()
            .zip(&samples)
            .map(|(way, samples)| (way, median(samples.clone())))
            .collect(),
        ratio: Way::ALL
            .into_iter()
            .zip(&samples)
            .map(|(way, samples)| (way, ratios(samples)))
            .collect(),
    })
}

/// Processor time of this thread in nanoseconds: what other programs take from it does not count, only what they do to its caches.
fn thread_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the time; the clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    match samples.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => samples[middle],
        _ => (samples[middle - 1] + samples[middle]) / 2.0,
    }
}
