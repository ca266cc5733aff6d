//! What a run by several clients came to: as tables and a sentence, or as one JSON object a line.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use corun_cli::number::short;
use corun_cli::{out, plain};
use corun_datafusion::{EngineOptions, TakenWork};
use serde::Serialize;

use super::numbers::{Comparison, ROUNDS_MIN, Spread, Verdict, mean, noise, percentile};
use super::queries::Query;
use super::turn::{Execution, Turn};
use super::{ClientsArgs, Scheduling};

/// Who runs the queries, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// What was asked for.
    Subject,
    /// The same once more: what is different is noise.
    Again,
    /// Corun's operators, every query started at once.
    Off,
    /// DataFusion without anything of corun's, every query started at once.
    Stock,
    /// Corun's operators, one client.
    OneAfterTheOther,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Side::Subject => "corun",
            Side::Again => "corun, once more",
            Side::Off => "corun, policy off",
            Side::Stock => "stock DataFusion",
            Side::OneAfterTheOther => "one after the other",
        })
    }
}

/// A side's turns, a round each.
#[derive(Debug)]
pub struct SideTurns {
    pub(super) side: Side,
    pub(super) turns: Vec<Turn>,
}

/// Everything that was measured.
#[derive(Debug)]
pub struct Measured {
    pub(super) queries: Arc<Vec<Query>>,
    /// The subject first.
    pub(super) sides: Vec<SideTurns>,
    /// The round that was not run to its end, from one.
    pub(super) interrupted: Option<usize>,
    clients: usize,
    policy: Scheduling,
    seed: u64,
    partitions: usize,
    memory_limit_bytes: Option<usize>,
}

impl Measured {
    /// Nothing yet.
    pub fn new(
        args: &ClientsArgs,
        options: &EngineOptions,
        sides: impl Iterator<Item = Side>,
        queries: Arc<Vec<Query>>,
    ) -> Measured {
        let turns = |side| SideTurns {
            side,
            turns: Vec::new(),
        };
        Measured {
            queries,
            sides: sides.map(turns).collect(),
            interrupted: None,
            clients: args.count.unwrap_or(1),
            policy: args.policy.unwrap_or_default(),
            seed: args.seed,
            partitions: options.partitions,
            memory_limit_bytes: options.memory_limit_bytes,
        }
    }

    /// What is wrong with answers, a text a query.
    pub fn differences(&self) -> Vec<String> {
        let mut texts = Vec::new();
        for (number, query) in self
            .queries
            .iter()
            .enumerate()
            .filter(|(_, query)| !query.may_differ)
        {
            let found = self.sides.iter().find_map(|side| {
                let mut executions = side.executions(number);
                let difference = executions.find_map(|execution| execution.difference.as_ref());
                difference.map(|difference| format!("{} ({}): {difference}", query.place, side.side))
            });
            texts.extend(found);
        }
        texts
    }

    fn side(&self, side: Side) -> Option<&SideTurns> {
        self.sides.iter().find(|turns| turns.side == side)
    }

    /// Times that a side took over those of the subject, in rounds that both ended.
    fn ratios(&self, other: Side) -> Vec<f64> {
        let seconds = |side| self.side(side).map(SideTurns::seconds).unwrap_or_default();
        let pairs = seconds(Side::Subject).into_iter().zip(seconds(other));
        pairs.map(|(subject, other)| other / subject).collect()
    }

    /// The subject beside another side; `None` where that was not run.
    fn comparison(&self, other: Side) -> Option<Comparison> {
        Comparison::of(&self.ratios(other), self.noise()?)
    }

    fn noise(&self) -> Option<Spread> {
        noise(&self.ratios(Side::Again))
    }

    /// What was run beside the subject.
    fn others(&self) -> impl Iterator<Item = Side> {
        let sides = self.sides.iter().map(|turns| turns.side);
        sides.filter(|side| !matches!(side, Side::Subject | Side::Again))
    }
}

impl SideTurns {
    /// Of complete turns.
    fn seconds(&self) -> Vec<f64> {
        self.complete().map(|turn| turn.seconds).collect()
    }

    fn complete(&self) -> impl Iterator<Item = &Turn> {
        self.turns.iter().filter(|turn| turn.is_complete)
    }

    /// Queries a second, round by round.
    fn rates(&self) -> Vec<f64> {
        self.complete()
            .map(|turn| turn.executions.len() as f64 / turn.seconds.max(f64::MIN_POSITIVE))
            .collect()
    }

    fn executions(&self, query: usize) -> impl Iterator<Item = &Execution> {
        let all = self.turns.iter().flat_map(|turn| &turn.executions);
        all.filter(move |execution| execution.query == query)
    }
}

/// One query on one side.
#[derive(Debug, Serialize)]
struct QueryRow<'m> {
    kind: &'static str,
    query: &'m str,
    side: Side,
    n: usize,
    p50_ms: f64,
    p95_ms: f64,
    max_ms: f64,
    /// Means; `None` without a coordinator.
    waited_ms: Option<f64>,
    ran_ms: Option<f64>,
    class: Option<String>,
    rows: Option<u64>,
    /// Runs that took a part of their work from another query, while that ran, or from what it left.
    shared_running: Option<usize>,
    shared_kept: Option<usize>,
    /// Columns of row groups taken from memory, all runs together.
    columns_taken: Option<usize>,
    answers_may_differ: bool,
    answers_differ: bool,
}

impl<'m> QueryRow<'m> {
    fn of(number: usize, query: &'m Query, side: &SideTurns) -> QueryRow<'m> {
        let times: Vec<f64> = side
            .executions(number)
            .map(|execution| execution.milliseconds)
            .collect();
        let reports = || side.executions(number).filter_map(|execution| execution.report);
        let sum = |what: fn(TakenWork) -> usize| {
            let has_reports = reports().next().is_some();
            has_reports.then(|| reports().map(|(.., taken)| what(taken)).sum())
        };
        QueryRow {
            kind: "query",
            query: &query.name,
            side: side.side,
            n: times.len(),
            p50_ms: percentile(&times, 50.0),
            p95_ms: percentile(&times, 95.0),
            max_ms: percentile(&times, 100.0),
            waited_ms: mean(reports().map(|(waited, ..)| waited)),
            ran_ms: mean(reports().map(|(_, ran, _)| ran)),
            class: query.class.map(|class| class.to_string()),
            rows: query.expected.as_ref().map(|expected| expected.answer.rows),
            shared_running: sum(|taken| usize::from(taken.parts_under_way > 0)),
            shared_kept: sum(|taken| usize::from(taken.parts_kept > 0)),
            columns_taken: sum(|taken| taken.columns),
            answers_may_differ: query.may_differ,
            answers_differ: side
                .executions(number)
                .any(|execution| execution.difference.is_some()),
        }
    }

    /// Runs that took work from others, of all.
    fn shared(&self) -> String {
        match (self.shared_running, self.shared_kept) {
            (Some(running), Some(kept)) => format!("{}/{}", running + kept, self.n),
            _ => "-".to_owned(),
        }
    }
}

/// One object a line: the run, each query on each side, each side, each comparison, the end.
///
/// # Errors
/// A closed pipe.
pub fn json(measured: &Measured) -> Result<()> {
    #[derive(Serialize)]
    struct Run<'m> {
        kind: &'static str,
        clients: usize,
        policy: &'m str,
        seed: u64,
        queries: usize,
        partitions: usize,
        memory_limit_bytes: Option<usize>,
        rounds: usize,
        interrupted: bool,
    }
    #[derive(Serialize)]
    struct SideRow {
        kind: &'static str,
        side: Side,
        queries_per_second: Option<Spread>,
        seconds: Vec<f64>,
    }
    #[derive(Serialize)]
    struct ComparisonRow {
        kind: &'static str,
        side: Side,
        times: Spread,
        noise: Spread,
        verdict: Verdict,
    }
    out::json_line(&Run {
        kind: "run",
        clients: measured.clients,
        policy: &measured.policy.to_string(),
        seed: measured.seed,
        queries: measured.queries.len(),
        partitions: measured.partitions,
        memory_limit_bytes: measured.memory_limit_bytes,
        rounds: measured.sides[0].complete().count(),
        interrupted: measured.interrupted.is_some(),
    })?;
    for side in &measured.sides {
        for (number, query) in measured.queries.iter().enumerate() {
            out::json_line(&QueryRow::of(number, query, side))?;
        }
        out::json_line(&SideRow {
            kind: "side",
            side: side.side,
            queries_per_second: Spread::of(&side.rates()),
            seconds: side.seconds(),
        })?;
    }
    for other in measured.others() {
        if let (Some(Comparison { times, verdict }), Some(noise)) =
            (measured.comparison(other), measured.noise())
        {
            out::json_line(&ComparisonRow {
                kind: "comparison",
                side: other,
                times,
                noise,
                verdict,
            })?;
        }
    }
    Ok(())
}

/// For people.
///
/// # Errors
/// A closed pipe.
pub fn text(measured: &Measured) -> Result<()> {
    let mut out = out::stdout();
    let rounds = measured.sides[0].complete().count();
    let limit = match measured.memory_limit_bytes {
        Some(bytes) => format!(", memory limit {}", corun_cli::number::bytes(bytes as f64)),
        None => String::new(),
    };
    let title = format!(
        "{} clients, policy {}, {rounds} rounds of {} queries each, seed {}, {} partitions{limit}",
        measured.clients,
        measured.policy,
        measured.queries.len(),
        measured.seed,
        measured.partitions,
    );
    writeln!(out, "{}", plain::paragraph("", &title))?;
    out.write_all(queries(measured).as_bytes())?;
    out.write_all(shared(measured).as_bytes())?;
    if measured.sides.len() > 1 {
        writeln!(out, "\n{}", by_side(measured))?;
        writeln!(out, "{}", sides(measured))?;
    } else {
        writeln!(out)?;
    }
    out.write_all(plain::paragraph("", &headline(measured)).as_bytes())?;
    Ok(out.flush()?)
}

/// The subject's queries.
fn queries(measured: &Measured) -> String {
    let headings = [
        "query", "class", "n", "p50 ms", "p95 ms", "max ms", "waited", "ran", "shared",
    ];
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), short);
    let rows = measured.queries.iter().enumerate().map(|(number_of, query)| {
        let row = QueryRow::of(number_of, query, &measured.sides[0]);
        vec![
            query.name.clone(),
            row.class.clone().unwrap_or_default(),
            row.n.to_string(),
            short(row.p50_ms),
            short(row.p95_ms),
            short(row.max_ms),
            number(row.waited_ms),
            number(row.ran_ms),
            row.shared(),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    plain::table_within(out::line_width(), &headings, 7, &rows)
}

/// What queries took from each other, and which may answer differently.
fn shared(measured: &Measured) -> String {
    let rows = measured.queries.iter().enumerate();
    let rows: Vec<QueryRow<'_>> = rows
        .map(|(number, query)| QueryRow::of(number, query, &measured.sides[0]))
        .collect();
    let sum = |what: fn(&QueryRow<'_>) -> Option<usize>| rows.iter().filter_map(what).sum::<usize>();
    let mut text = String::new();
    if rows.iter().any(|row| row.shared_kept.is_some()) {
        let words = format!(
            "shared: of {} runs, {} took rows that another query was making and {} such that it had made; {} columns of files came from memory",
            sum(|row| Some(row.n)),
            sum(|row| row.shared_running),
            sum(|row| row.shared_kept),
            sum(|row| row.columns_taken),
        );
        text.push('\n');
        text.push_str(&plain::paragraph("", &words));
    }
    let may: Vec<&str> = measured
        .queries
        .iter()
        .filter(|query| query.may_differ)
        .map(|query| query.name.as_str())
        .collect();
    if !may.is_empty() {
        let words = format!(
            "not compared, as LIMIT without ORDER BY may leave other rows each time: {}",
            may.join(", ")
        );
        text.push_str(&plain::paragraph("", &words));
    }
    text
}

/// The middle time of each query on each side.
fn by_side(measured: &Measured) -> String {
    let names = measured.sides.iter().map(|side| match side.side {
        Side::Subject => "corun",
        Side::Again => "again",
        Side::Off => "off",
        Side::Stock => "stock",
        Side::OneAfterTheOther => "alone",
    });
    let headings: Vec<&str> = std::iter::once("p50 ms").chain(names).collect();
    let rows = measured.queries.iter().enumerate().map(|(number, query)| {
        let of_side = measured
            .sides
            .iter()
            .map(|side| short(QueryRow::of(number, query, side).p50_ms));
        std::iter::once(query.name.clone()).chain(of_side).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    plain::table_within(out::line_width(), &headings, measured.sides.len(), &rows)
}

/// Each side's rate, and how many times the subject's it takes.
fn sides(measured: &Measured) -> String {
    let headings = ["side", "queries/s", "takes", "from", "to", ""];
    let rows = measured.sides.iter().map(|side| {
        let rate = Spread::of(&side.rates()).map_or_else(|| "-".to_owned(), |rate| short(rate.median));
        let ratios = match side.side {
            Side::Subject => None,
            other => Spread::of(&measured.ratios(other)),
        };
        let verdict = match (side.side, measured.comparison(side.side)) {
            (Side::Subject, _) | (_, None) => "",
            (Side::Again, _) => "what noise does",
            (_, Some(comparison)) => words(comparison.verdict),
        };
        let times = |of: fn(Spread) -> f64| {
            ratios.map_or_else(|| "-".to_owned(), |ratios| format!("{:.2} x", of(ratios)))
        };
        vec![
            side.side.to_string(),
            rate,
            times(|spread| spread.median),
            times(|spread| spread.min),
            times(|spread| spread.max),
            verdict.to_owned(),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    plain::table_within(out::line_width(), &headings, 5, &rows)
}

/// What a comparison comes to, of the other side.
fn words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "slower",
        Verdict::Slower => "faster",
        Verdict::Unclear => "unclear",
        Verdict::WithinNoise => "within noise",
        Verdict::TooFewRounds => "too few rounds",
    }
}

/// The one line: a rate, and what it is beside the same queries one after the other.
fn headline(measured: &Measured) -> String {
    let Some(rate) = Spread::of(&measured.sides[0].rates()) else {
        return "no round was run to its end".to_owned();
    };
    let rates = format!("{} queries/s", short(rate.median));
    let rounds = measured.ratios(Side::OneAfterTheOther).len();
    let (Some(Comparison { times, verdict }), Some(noise)) =
        (measured.comparison(Side::OneAfterTheOther), measured.noise())
    else {
        return format!("{rates} ({} to {})", short(rate.min), short(rate.max));
    };
    let Spread { min, median, max } = times;
    let spread = format!("{median:.2} times ({min:.2} to {max:.2})");
    let control = format!("the same twice differs by {:.2} to {:.2}", noise.min, noise.max);
    match verdict {
        Verdict::Faster => format!("{rates}, {spread} of one after the other in {rounds} rounds; {control}"),
        Verdict::Slower => {
            format!("{rates}, slower than one after the other: {spread} of it in {rounds} rounds; {control}")
        }
        Verdict::Unclear => {
            format!(
                "{rates}; whether that is more than one after the other is not clear: {spread} of it; {control}"
            )
        }
        Verdict::WithinNoise => {
            format!(
                "{rates}, no different from one after the other: {spread} of it is within the noise; {control}"
            )
        }
        Verdict::TooFewRounds => {
            format!(
                "{rates}, {spread} of one after the other; {rounds} rounds are too few to tell, {ROUNDS_MIN} are needed"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of one query with these seconds of the subject, of it once more, and of one after the other.
    fn measured(seconds: [&[f64]; 3]) -> Measured {
        let turn = |seconds: &f64| Turn {
            seconds: *seconds,
            executions: vec![Execution {
                query: 0,
                milliseconds: *seconds * 1e3,
                report: Some((1.0, 2.0, TakenWork::default())),
                difference: None,
            }],
            is_complete: true,
        };
        let sides = [Side::Subject, Side::Again, Side::OneAfterTheOther];
        let sides = sides.into_iter().zip(seconds).map(|(side, seconds)| SideTurns {
            side,
            turns: seconds.iter().map(turn).collect(),
        });
        Measured {
            queries: Arc::new(Vec::new()),
            sides: sides.collect(),
            interrupted: None,
            clients: 2,
            policy: Scheduling::default(),
            seed: 1,
            partitions: 2,
            memory_limit_bytes: None,
        }
    }

    #[test]
    fn the_headline_says_no_more_than_was_measured() {
        let even = [1.0; 5];
        let slow = [2.0, 2.1, 1.9, 2.0, 2.2];
        assert_eq!(
            headline(&measured([&even, &even, &slow])),
            "1 queries/s, 2.00 times (1.90 to 2.20) of one after the other in 5 rounds; the same twice differs by 1.00 to 1.00"
        );
        let noisy = [1.0, 3.0, 1.0, 1.0, 1.0];
        assert!(
            headline(&measured([&even, &noisy, &slow])).contains("no different from one after the other")
        );
        assert!(headline(&measured([&even[..2], &even[..2], &slow[..2]])).contains("2 rounds are too few"));
        assert!(headline(&measured([&slow, &slow, &even])).contains("slower than one after the other"));
        assert_eq!(
            headline(&measured([&[], &[], &[]])),
            "no round was run to its end"
        );
        assert_eq!(headline(&measured([&even, &[], &[]])), "1 queries/s (1 to 1)");
    }
}
