//! [`run`]: one case on several targets, a turn of each in every round; [`Measured`] is what a turn gives, [`METRICS`] what rows say of it.
//!
//! A target whose turn took very long sits out the later rounds: its rows have fewer repetitions, which `n` says.

use std::time::{Duration, Instant};

use super::SUITE;
use super::case::Case;
use super::targets::Target;
use lab_core::contest::{Contest, ContestResult, Gone, SideResult};
use lab_core::error::BenchError;
use lab_core::metric::{CaseRows, MetricSpec, SideKeys, Versus};
use lab_core::row::Value;
use lab_core::run::{Plan, Runner};

/// After a turn that took longer, a target that is not ours sits out.
const LONG_TURN: Duration = Duration::from_secs(180);

/// What a turn of a target gave; what it does not measure is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Statements a second, of all clients.
    pub queries_per_s: Option<f64>,
    /// Transactions a second, of all clients.
    pub tps: Option<f64>,
    /// Half of the statements took at most so long.
    pub p50_us: Option<f64>,
    /// 99 of 100 statements.
    pub p99_us: Option<f64>,
    /// Queries a second of the streams beside.
    pub long_queries_per_s: Option<f64>,
    /// Rows fetched a second.
    pub rows_per_s: Option<f64>,
    /// Bytes fetched a second, as they came over the socket.
    pub bytes_per_s: Option<f64>,
    /// CPU time of the server for each statement.
    pub cpu_us_per_query: Option<f64>,
    /// The largest resident memory of the server's process.
    pub peak_rss_bytes: Option<f64>,
}

/// A turn; `None` of a target that sat out.
pub type Turn = Option<Measured>;

/// Statements a second, what most cases are compared by.
pub const QUERIES_PER_S: MetricSpec<Turn> =
    MetricSpec::higher("queries_per_s", "1/s", |turn| turn.as_ref()?.queries_per_s);
/// What transactions are compared by.
pub const TPS: MetricSpec<Turn> = MetricSpec::higher("tps", "1/s", |turn| turn.as_ref()?.tps);
/// What short statements beside long ones are compared by.
pub const P99_US: MetricSpec<Turn> = MetricSpec::lower("p99_us", "us", |turn| turn.as_ref()?.p99_us);
/// What fetches are compared by.
pub const ROWS_PER_S: MetricSpec<Turn> =
    MetricSpec::higher("rows_per_s", "1/s", |turn| turn.as_ref()?.rows_per_s);

/// The metrics of a case, beginning with the one it is compared by.
pub fn metrics(first: MetricSpec<Turn>) -> Vec<MetricSpec<Turn>> {
    let all = [
        QUERIES_PER_S,
        TPS,
        MetricSpec::lower("p50_us", "us", |turn: &Turn| turn.as_ref()?.p50_us),
        P99_US,
        MetricSpec::higher("long_queries_per_s", "1/s", |turn: &Turn| {
            turn.as_ref()?.long_queries_per_s
        }),
        ROWS_PER_S,
        MetricSpec::higher("bytes_per_s", "bytes/s", |turn: &Turn| turn.as_ref()?.bytes_per_s),
        MetricSpec::lower("cpu_us_per_query", "us", |turn: &Turn| {
            turn.as_ref()?.cpu_us_per_query
        }),
        MetricSpec::lower("peak_rss_bytes", "bytes", |turn: &Turn| {
            turn.as_ref()?.peak_rss_bytes
        }),
    ];
    let rest = all.into_iter().filter(|metric| metric.name != first.name);
    std::iter::once(first).chain(rest).collect()
}

/// A target, as a case has it.
#[derive(Clone, Debug)]
pub struct Side {
    /// What answers.
    pub target: Target,
    /// Why it cannot take part.
    pub missing: Option<String>,
    /// Further parameters of its rows.
    pub keys: Vec<(String, Value)>,
}

impl Side {
    /// A target that is there, if nothing speaks against it.
    pub fn new(target: Target, missing: Option<String>) -> Side {
        Side {
            target,
            missing,
            keys: Vec::new(),
        }
    }
}

/// Runs a case and emits its rows. The first side is compared with all others and is its own control. `turn` gives what was measured
/// and the first wrong answer.
pub fn run(
    case: Case,
    sides: &[Side],
    first: MetricSpec<Turn>,
    plan: Plan,
    runner: &mut Runner<'_>,
    mut turn: impl FnMut(Target, usize) -> Result<(Measured, Option<String>), BenchError>,
) {
    let name = case.name();
    let pairs: Vec<(usize, usize)> = (1..sides.len()).map(|other| (0, other)).collect();
    let contest = Contest {
        name: &format!("{SUITE} {name}"),
        pairs: &pairs,
        controls: &[0],
        metric: &first,
        plan,
    };
    let known = sides.iter().map(|side| SideResult {
        gone: side.missing.clone().map(Gone::Unavailable),
        ..SideResult::default()
    });
    let known = known.collect();
    let mut sits_out = vec![false; sides.len()];
    let progress = runner.progress();
    progress.begin(contest.name, (plan.warmups + plan.repetitions) as u64);
    let result = contest.run(known, progress, |place, round| {
        if sits_out[place] {
            return Ok((None, None));
        }
        let target = sides[place].target;
        let begin = Instant::now();
        let given = turn(target, round);
        sits_out[place] = !target.is_ours() && begin.elapsed() > LONG_TURN;
        let (measured, wrong) = given.map_err(|error| match target.is_ours() {
            true => Gone::Failed(error.in_one_line()),
            false => Gone::Unavailable(error.in_one_line()),
        })?;
        Ok((Some(measured), wrong))
    });
    progress.end();
    emit(case, sides, first, plan, &result, runner);
}

/// The rows of a case.
fn emit(
    case: Case,
    sides: &[Side],
    first: MetricSpec<Turn>,
    plan: Plan,
    result: &ContestResult<Turn>,
    runner: &mut Runner<'_>,
) {
    let named: Vec<SideKeys> = sides.iter().map(|side| keys(case, side)).collect();
    let versus = (1..sides.len()).map(|other| Versus {
        subject: 0,
        other,
        versus: named[other].name.clone(),
        keys: Vec::new(),
        verdict: plan.claims(),
    });
    let rows = CaseRows {
        suite: SUITE,
        case: &case.name(),
        metrics: &metrics(first),
        compared: true,
    };
    rows.emit(&named, result, &versus.collect::<Vec<_>>(), runner);
    runner.cases_are_finished();
}

/// A side, as rows name it.
pub fn keys(case: Case, side: &Side) -> SideKeys {
    let named = [
        ("target".to_owned(), Value::from(side.target.name())),
        ("side".to_owned(), Value::from(side.target.side())),
    ];
    SideKeys {
        name: side.target.side().to_owned(),
        keys: [named.to_vec(), case.parameters(), side.keys.clone()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::case::Workload;
    use corun_model::progress::Silent;
    use lab_core::row::{Label, Row};

    #[test]
    fn ours_is_compared_with_each_other_and_what_is_missing_is_said() {
        let mut rows: Vec<Row> = Vec::new();
        let mut take = |row| rows.push(row);
        let mut runner = Runner::new(Plan::quick(), &mut take, &Silent);
        let sides = [
            Side::new(Target::Corun, None),
            Side::new(Target::Datafusion, None),
            Side::new(Target::Postgresql, Some("not installed".to_owned())),
            Side::new(Target::Duckdb, None),
        ];
        let case = Case::Streams(Workload::Ssb, 4);
        run(
            case,
            &sides,
            QUERIES_PER_S,
            Plan::quick(),
            &mut runner,
            |target, _| {
                let rate = match target {
                    Target::Corun => 20.0,
                    Target::Datafusion => 10.0,
                    _ => return Err(BenchError::Machine("it fell over".to_owned())),
                };
                let measured = Measured {
                    queries_per_s: Some(rate),
                    ..Measured::default()
                };
                let wrong = (target == Target::Datafusion).then(|| "q1: wrong".to_owned());
                Ok((measured, wrong))
            },
        );
        let failures = runner.finish().failures;
        assert_eq!(failures.len(), 1, "{failures:?}");
        let of = |target: &str| {
            rows.iter()
                .find(|row| row.text("target") == target)
                .expect("a row")
        };
        assert_eq!(of("postgresql").text("reason"), "not installed");
        assert_eq!(of("duckdb").label, Label::Unavailable);
        assert_eq!(of("corun").number("streams"), Some(4.0));
        let ratio = |versus: &str| rows.iter().find(|row| row.versus.as_deref() == Some(versus));
        let with_datafusion = ratio("datafusion").expect("a ratio");
        assert_eq!(
            (with_datafusion.median(), with_datafusion.answer_ok),
            (Some(2.0), Some(false))
        );
        assert_eq!(ratio("corun").map(|row| row.text("control")), Some("a/a"));
        assert!(ratio("duckdb").is_none() && ratio("postgresql").is_none());
    }

    #[test]
    fn the_metric_that_is_compared_comes_first_and_once() {
        let names: Vec<&str> = metrics(P99_US).iter().map(|metric| metric.name).collect();
        assert_eq!(names[0], "p99_us");
        assert_eq!(names.iter().filter(|name| **name == "p99_us").count(), 1);
        assert_eq!(names.len(), metrics(QUERIES_PER_S).len());
    }
}
