//! [`run`]: one piece of work on all sides, a turn of each in every round, and its rows.
//!
//! Order of work: the sides start, each is warmed (the heavy queue learns which shapes take long and what their plans are), rounds
//! ([`lab_core::contest`]), rows. Once a round the watched queries run alone, directly, so that slow-downs are of one round.

use std::time::Duration;

use super::SUITE;
use super::clients::{Played, play};
use super::keys::{Keys, MIX_SECONDS, SLOWDOWN};
use super::query::Query;
use super::sides::{Setting, Spec};
use crate::fixture::client::Client;
use crate::fixture::contender::Contender;
use lab_core::contest::{Contest, ContestResult, Gone, SideResult, Turn};
use lab_core::error::BenchError;
use lab_core::metric::{CaseRows, MetricSpec, SideKeys, Versus};
use lab_core::row::{Row, Value};
use lab_core::run::{Plan, Runner};

/// Turns of each side before the first that counts: the first is known to take long after one run, its plans after another.
const WARM_UPS: usize = 2;

const SECONDS: MetricSpec<Played> = MetricSpec::lower(MIX_SECONDS, "s", |played| Some(played.seconds));

/// What all sides do.
pub struct Work<'w> {
    /// What rows say of it.
    pub keys: Keys,
    /// The queries.
    pub queries: &'w [Query],
    /// The class of each, for rows.
    pub classes: Vec<String>,
    /// Each client's list.
    pub lists: Vec<Vec<usize>>,
    /// Time between the first queries of two clients.
    pub apart: Duration,
    /// The sides.
    pub sides: &'w [Spec],
    /// Whose time is in the ratios: subject and other, by name.
    pub versus: &'w [(Spec, Spec)],
    /// Comparisons that go on until they are decided.
    pub decided: &'w [(Spec, Spec)],
    /// The side that runs twice a round.
    pub control: Spec,
    /// How many rounds.
    pub plan: Plan,
}

impl Work<'_> {
    fn place(&self, spec: Spec) -> Option<usize> {
        self.sides.iter().position(|side| *side == spec)
    }

    fn places(&self, pairs: &[(Spec, Spec)]) -> Vec<(usize, usize)> {
        pairs
            .iter()
            .filter_map(|&(subject, other)| Some((self.place(subject)?, self.place(other)?)))
            .collect()
    }
}

/// Runs the work.
///
/// # Errors
/// When the server is gone. What a side failed at is in its rows.
pub fn run(work: &Work<'_>, setting: &Setting<'_>, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let name = format!("{SUITE} {} {}", work.keys.case, work.keys.query);
    runner
        .progress()
        .begin(&format!("{name}: warming up"), work.sides.len() as u64);
    let mut contenders = Vec::new();
    let mut known = Vec::new();
    for &spec in work.sides {
        let mut contender = setting.start(spec);
        let mut side = SideResult {
            gone: contender.gone().cloned(),
            ..SideResult::default()
        };
        for _ in 0..WARM_UPS {
            if side.gone.is_none() {
                match one_turn(work, &mut contender) {
                    Ok((_, wrong)) => side.wrong = side.wrong.or(wrong),
                    Err(gone) => side.gone = Some(gone),
                }
            }
        }
        contenders.push(contender);
        known.push(side);
        runner.progress().advance(1);
    }
    let contest = Contest {
        name: work.keys.case,
        pairs: &work.places(work.decided),
        controls: &[work.place(work.control).unwrap_or_default()],
        metric: &SECONDS,
        plan: work.plan,
    };
    let mut direct = Client::connect(setting.server, super::PATIENCE)?;
    let mut alone_in: Option<(usize, Vec<Option<f64>>)> = None;
    let progress = runner.progress();
    progress.begin(&name, work.plan.repetitions as u64);
    let result = contest.run(known, progress, |place, round| {
        let alone = match alone_in.take() {
            Some((of, alone)) if of == round => alone,
            _ => alone(&mut direct, work.queries).map_err(|error| Gone::Failed(error.in_one_line()))?,
        };
        alone_in = Some((round, alone.clone()));
        let (mut played, wrong) = one_turn(work, &mut contenders[place])?;
        played.alone = alone;
        Ok((played, wrong))
    });
    progress.end();
    emit(work, &result, runner);
    Ok(())
}

fn one_turn(work: &Work<'_>, contender: &mut Contender) -> Turn<Played> {
    let address = contender.address().map_err(|error| contender.failure(&error))?;
    let played = play(address, work.queries, &work.lists, work.apart);
    // A proxy that has ended says more than what its clients saw of that.
    let alive = contender.alive();
    alive.and(played).map_err(|error| contender.failure(&error))
}

/// Seconds of each timed query alone.
fn alone(direct: &mut Client, queries: &[Query]) -> Result<Vec<Option<f64>>, BenchError> {
    let time = |query: &Query| match query.timed {
        true => Ok(query.seconds(&direct.run(&query.sql)?)),
        false => Ok(None),
    };
    queries.iter().map(time).collect()
}

/// A side, as rows name it.
fn keys(work: &Work<'_>, spec: Spec) -> SideKeys {
    let keys = Keys {
        target: spec.target(),
        policy: spec.policy().to_owned(),
        plan_choice: spec.plan_choice(),
        ..work.keys.clone()
    };
    let side = ("side".to_owned(), Value::from(spec.name));
    SideKeys {
        name: spec.name.to_owned(),
        keys: [keys.parameters(), vec![side]].concat(),
    }
}

fn emit(work: &Work<'_>, result: &ContestResult<Played>, runner: &mut Runner<'_>) {
    let rows = CaseRows {
        suite: SUITE,
        case: work.keys.case,
        metrics: &[SECONDS],
        compared: true,
    };
    let sides: Vec<SideKeys> = work.sides.iter().map(|&spec| keys(work, spec)).collect();
    for (place, given) in result.sides.iter().enumerate() {
        rows.side(&sides[place], given, runner);
        if given.gone.is_none() {
            for row in of_queries(work, &rows, work.sides[place], &sides[place], given) {
                runner.emit_checked(row);
            }
        }
    }
    let versus = |(subject, other): (usize, usize)| Versus {
        subject,
        other,
        versus: work.sides[other].name.to_owned(),
        keys: Vec::new(),
        verdict: work.plan.claims(),
    };
    let comparisons: Vec<Versus> = work.places(work.versus).into_iter().map(versus).collect();
    rows.compare(&SECONDS, &sides, result, &comparisons, runner);
}

/// The rows of each timed query of a side.
fn of_queries(
    work: &Work<'_>,
    rows: &CaseRows<'_, Played>,
    spec: Spec,
    side: &SideKeys,
    given: &SideResult<Played>,
) -> Vec<Row> {
    let mut all = Vec::new();
    for (place, query) in work.queries.iter().enumerate().filter(|(_, query)| query.timed) {
        let mut put = |metric: &str, unit: &str, values: &[f64]| {
            let row = rows.row(side, metric, unit, values, given.wrong.is_none());
            let of_query = |row: Row| {
                row.with("query", query.name.as_str())
                    .with("class", work.classes[place].as_str())
            };
            all.extend(row.map(of_query));
        };
        let ran = |played: &Played| played.ran.get(place).copied().flatten();
        put("ms", "ms", &given.values(|played| Some(ran(played)? * 1e3)));
        // Directly asked, more queries run than there are cores, and the time of each says nothing about caches.
        if spec.target() == "corun" {
            let slowdown = |played: &Played| Some(ran(played)? / (*played.alone.get(place)?)?);
            put(SLOWDOWN, "x", &given.values(slowdown));
        }
    }
    all
}
