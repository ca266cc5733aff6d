//! Several clients at once, each a session of one process that asks one query after the other: what they gain from each other's work.
//!
//! Three kinds of questions: dashboards whose constants are drawn from ten values, the first ones far more often than the last (Zipf);
//! dashboards of which no two have the same constants; and all queries of the workload, each once. In every turn the engines are new, so
//! that nothing is left from the turn before.

use super::engines::{Files, engine};
use super::{CORUN, DATAFUSION, Pass, WorkloadArgs, fingerprint};
use crate::query::run_query;
use corun_datafusion::{Engine, Joins, QueryOutput};
use corun_workloads::numbers::{Zipf, permutation};
use lab_core::error::BenchError;
use lab_core::row::{Row, Value};
use lab_core::run::{Comparison, Runner, Sample, Side};
use lab_core::stats::{Spread, percentile};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Runtime;

/// Queries that a client of dashboards asks.
const QUESTIONS: usize = 24;
const QUESTIONS_QUICK: usize = 4;
/// Values that the constants of a dashboard are drawn from.
const VALUES: u64 = 10;
/// What all draws depend on.
const SEED: u64 = 26;

/// A query with constants that a user would change.
pub(in crate::suites) struct Dashboard {
    pub(in crate::suites) query: &'static str,
    pub(in crate::suites) choices: &'static [Choice],
}

/// A piece of a query's text, and what may stand for its end.
pub(in crate::suites) struct Choice {
    before: &'static str,
    constant: &'static str,
    values: Values,
}

impl Choice {
    /// What is before a constant in the text, the constant as it is there, and what may stand in its place.
    pub(in crate::suites) const fn new(
        before: &'static str,
        constant: &'static str,
        values: Values,
    ) -> Choice {
        Choice {
            before,
            constant,
            values,
        }
    }
}

pub(in crate::suites) enum Values {
    /// From the first to the last.
    Numbers(usize, usize),
    Words(&'static [&'static str]),
}

impl Values {
    fn count(&self) -> usize {
        match self {
            Values::Numbers(first, last) => last - first + 1,
            Values::Words(words) => words.len(),
        }
    }

    fn nth(&self, number: usize) -> String {
        match self {
            Values::Numbers(first, _) => (first + number % self.count()).to_string(),
            Values::Words(words) => words[number % words.len()].to_owned(),
        }
    }
}

impl Dashboard {
    /// The text with its `number`th constants.
    fn with(&self, text: &str, number: usize) -> Result<String, BenchError> {
        let mut text = text.to_owned();
        let mut rest = number;
        for choice in self.choices {
            let old = format!("{}{}", choice.before, choice.constant);
            if !text.contains(&old) {
                return Err(BenchError::Data(format!("{} has no {old}", self.query)));
            }
            text = text.replace(&old, &format!("{}{}", choice.before, choice.values.nth(rest)));
            rest /= choice.values.count();
        }
        Ok(text)
    }
}

/// What clients ask.
#[derive(Clone, Copy)]
enum Kind {
    DashboardsZipf,
    DashboardsDistinct,
    Different,
}

const KINDS: [Kind; 3] = [Kind::DashboardsZipf, Kind::DashboardsDistinct, Kind::Different];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::DashboardsZipf => "dashboards_zipf",
            Kind::DashboardsDistinct => "dashboards_distinct",
            Kind::Different => "different",
        }
    }
}

/// A query as a client asks it: its name in the workload, and its text.
type Question = (String, Arc<str>);

/// Names of the cases of a pass with so many clients.
pub(super) fn cases(pass: &Pass<'_>, clients: usize) -> impl Iterator<Item = String> {
    KINDS.into_iter().map(move |kind| case(pass, kind, clients))
}

fn case(pass: &Pass<'_>, kind: Kind, clients: usize) -> String {
    pass.case(&format!("{}_c{clients}", kind.name()))
}

/// What all cases of a pass have in common.
pub(super) struct Streams<'a> {
    pub(super) pass: &'a Pass<'a>,
    pub(super) files: &'a Files,
    pub(super) runtime: &'a Runtime,
}

impl Streams<'_> {
    /// Runs the cases that `args` selects.
    pub(super) fn run(&self, args: &WorkloadArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        let stock = self.engine(Joins::Stock, false)?;
        let mut expected: HashMap<Arc<str>, String> = HashMap::new();
        for &clients in &args.clients {
            for kind in KINDS {
                let case = case(self.pass, kind, clients);
                if args.common.selects(&case) {
                    let asked = self.questions(kind, clients, args.common.quick)?;
                    self.add_answers(&stock, &asked, &mut expected)?;
                    self.compare(kind, &case, &asked, &expected, runner)?;
                    runner.cases_are_finished();
                }
            }
        }
        Ok(())
    }

    /// What each client asks, one after the other.
    fn questions(&self, kind: Kind, clients: usize, quick: bool) -> Result<Vec<Vec<Question>>, BenchError> {
        let Pass {
            workload,
            scale_factor,
            ..
        } = self.pass;
        let dashboards = workload.dashboards;
        let questions = if quick { QUESTIONS_QUICK } else { QUESTIONS };
        let text = |query: &str| (workload.sql)(*scale_factor, query);
        let mut all: Vec<Vec<Question>> = vec![Vec::new(); clients];
        if let Kind::Different = kind {
            let queries = &workload.queries;
            for (place, number) in permutation(SEED, queries.len()).into_iter().enumerate() {
                let query = &queries[number as usize];
                all[place % clients].push((query.clone(), text(query)?.into()));
            }
            return Ok(all);
        }
        let texts = dashboards.iter().map(|dashboard| text(dashboard.query));
        let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
        let zipf = Zipf::new(VALUES);
        let mut used = vec![0; dashboards.len()];
        for (client, asked) in all.iter_mut().enumerate() {
            for place in 0..questions {
                let at = (client + place) % dashboards.len();
                let dashboard = &dashboards[at];
                used[at] += 1;
                let number = match kind {
                    Kind::DashboardsZipf => zipf.rank(SEED, client as u64, place as u64) as usize - 1,
                    _ => used[at] - 1,
                };
                let sql = dashboard.with(&texts[at], number)?;
                asked.push((dashboard.query.to_owned(), sql.into()));
            }
        }
        Ok(all)
    }

    /// An engine that sees all tables.
    fn engine(&self, joins: Joins, share_work: bool) -> Result<Engine, BenchError> {
        let engine = engine(joins, self.pass.partitions, share_work)?;
        self.files.register(self.runtime, &engine)?;
        Ok(engine)
    }

    /// Adds the answers of `stock`, one query at a time.
    fn add_answers(
        &self,
        stock: &Engine,
        asked: &[Vec<Question>],
        expected: &mut HashMap<Arc<str>, String>,
    ) -> Result<(), BenchError> {
        for (query, sql) in asked.iter().flatten() {
            if !expected.contains_key(sql) {
                let output = run_query(self.runtime, stock, sql)?;
                expected.insert(Arc::clone(sql), self.answer(query, &output));
            }
        }
        Ok(())
    }

    fn answer(&self, query: &str, output: &QueryOutput) -> String {
        fingerprint(output, (self.pass.workload.order_by)(query))
    }

    fn compare(
        &self,
        kind: Kind,
        case: &str,
        asked: &[Vec<Question>],
        expected: &HashMap<Arc<str>, String>,
        runner: &mut Runner<'_>,
    ) -> Result<(), BenchError> {
        const RIGHT: &str = "all answers right";
        let suite = self.pass.workload.suite.name();
        let total: usize = asked.iter().map(Vec::len).sum();
        let wrong = |played: &Played| {
            let wrong = played.answers.iter().find_map(|((query, sql), output)| {
                let (want, got) = (&expected[sql], self.answer(query, output));
                (*want != got).then(|| format!("{query}: {got} instead of {want}"))
            });
            wrong.unwrap_or_else(|| RIGHT.to_owned())
        };
        let sides = [(CORUN, Joins::Corun), (DATAFUSION, Joins::Stock)];
        let noted = sides.map(|_| RefCell::new(Noted::default()));
        let works = sides.iter().zip(&noted).map(|((name, joins), noted)| {
            let wrong = &wrong;
            Side::new(name, move || {
                let engine = self.engine(*joins, true)?;
                let sample = Sample::of(
                    || play(self.runtime, &engine, asked),
                    |played| {
                        noted.borrow_mut().latencies.push(played.latency_p99_ms());
                        wrong(played)
                    },
                );
                noted.borrow_mut().kept.push(engine.shared_work().bytes as f64);
                sample
            })
        });
        let works = works.collect();
        let different: HashSet<&str> = asked.iter().flatten().map(|(_, sql)| sql.as_ref()).collect();
        let mut parameters = self.pass.parameters(kind.name());
        for (name, count) in [
            ("clients", asked.len()),
            ("queries", total),
            ("different_queries", different.len()),
        ] {
            parameters.push((name.to_owned(), Value::from(count)));
        }
        runner.compare(Comparison {
            suite,
            case,
            parameters: parameters.clone(),
            metric: "ms_a_query",
            unit: "ms",
            units_per_second: 1e3 / total as f64,
            subject: CORUN,
            baseline: DATAFUSION,
            expected: RIGHT.to_owned(),
            sides: works,
        });
        for ((name, _), noted) in sides.iter().zip(noted) {
            let Noted { latencies, kept } = noted.into_inner();
            for (metric, unit, values) in [("latency_p99_ms", "ms", latencies), ("kept_bytes", "bytes", kept)]
            {
                let timed = values.get(runner.plan().warmups..).unwrap_or_default();
                if let Some(spread) = Spread::of(timed) {
                    let row = Row::measured(suite, case, metric, unit, spread, true);
                    runner.emit(row.with("engine", *name).with_all(&parameters));
                }
            }
        }
        Ok(())
    }
}

/// What a side noted in its turns.
#[derive(Default)]
struct Noted {
    latencies: Vec<f64>,
    kept: Vec<f64>,
}

/// What came of a turn.
struct Played {
    answers: Vec<(Question, QueryOutput)>,
    latencies_ms: Vec<f64>,
}

impl Played {
    fn latency_p99_ms(&self) -> f64 {
        percentile(&self.latencies_ms, 99.0).unwrap_or_default()
    }
}

/// All clients at once, each with a session of its own.
fn play(runtime: &Runtime, engine: &Engine, asked: &[Vec<Question>]) -> Result<Played, BenchError> {
    let clients = asked.iter().map(|questions| {
        let (session, questions) = (engine.session(), questions.clone());
        runtime.spawn(async move {
            let mut answers = Vec::with_capacity(questions.len());
            for question in questions {
                let begun = Instant::now();
                let output = session.query(&question.1).await?;
                answers.push((question, output, begun.elapsed().as_secs_f64() * 1e3));
            }
            Ok::<_, BenchError>(answers)
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut played = Played {
        answers: Vec::new(),
        latencies_ms: Vec::new(),
    };
    for client in clients {
        let ended = runtime.block_on(client);
        let answers = ended.map_err(|panic| BenchError::Data(format!("a client did not finish: {panic}")))?;
        for (question, output, latency) in answers? {
            played.answers.push((question, output));
            played.latencies_ms.push(latency);
        }
    }
    Ok(played)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOARD: Dashboard = Dashboard {
        query: "q",
        choices: &[
            Choice::new("year = ", "1993", Values::Numbers(1992, 1994)),
            Choice::new("region = '", "ASIA", Values::Words(&["ASIA", "EUROPE"])),
        ],
    };

    #[test]
    fn every_number_has_constants_of_its_own() {
        let text = "select 1 where year = 1993 and region = 'ASIA'";
        let mut all: Vec<String> = (0..6).map(|number| BOARD.with(text, number).unwrap()).collect();
        assert_eq!(all[4], "select 1 where year = 1993 and region = 'EUROPE'");
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 6);
        assert!(BOARD.with("select 1 where year = 1993", 0).is_err());
    }
}
