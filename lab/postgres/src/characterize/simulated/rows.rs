//! [`Found`], what simulating a statement gave, and [`rows()`], its rows.
//!
//! Percentages are of the executions that were counted, by all code of the process: the server's and its libraries'. The kernel is not
//! simulated. Functions are ranked as in Figs. 7b and 17 of paper 001, the server's own only, libraries in one row.

use corun_cachesim::cachegrind::{Counts, Event, Profile};
use corun_cachesim::callgrind::{Executed, Function};

use super::Statement;
use super::shape::{Shape, written};
use crate::characterize::SUITE;
use lab_core::row::Row;
use lab_core::stats::Spread;

/// The server's file of code.
pub const SERVER: &str = "postgres";
/// How many functions are ranked by instructions: as many as the paper's figures have.
const FUNCTIONS: usize = 9;
/// How many of those with most misses of the last level are added.
const MISSING_FUNCTIONS: usize = 3;
/// Below this share of the server's instructions in functions with a name, functions are not ranked.
const NAMED_PERCENT_MIN: f64 = 1.0;
const MISSES: [Event; 3] = [
    Event::LastInstructionMisses,
    Event::LastLoadMisses,
    Event::LastStoreMisses,
];
/// Why the mix cannot be the one that counters of micro-operations give.
const MIX_NOTE: &str = "of instructions, not micro-operations; direct jumps, calls and returns count as other, what they push and pop as \
                        stores and loads";

/// What simulating one statement gave so far.
pub struct Found {
    pub(super) statement: Statement,
    pub(super) answer_ok: bool,
    /// What the counted executions did, by shape of caches.
    pub(super) profiles: Vec<(Shape, Profile)>,
    /// The caches callgrind simulated, the run that only warms up, and the one that executes more often.
    pub(super) executed: Option<(Shape, Executed, Executed)>,
    /// What the time did not suffice for.
    late: Vec<Shape>,
}

impl Found {
    /// Nothing yet.
    pub(super) fn of(statement: &Statement) -> Found {
        Found {
            statement: statement.clone(),
            answer_ok: true,
            profiles: Vec::new(),
            executed: None,
            late: Vec::new(),
        }
    }

    /// Leaves a shape out.
    pub(super) fn late(&mut self, shape: &Shape) {
        self.late.push(shape.clone());
    }
}

/// The rows of one statement.
pub fn rows(found: &Found, smt: &str) -> Vec<Row> {
    let maker = Maker { found, smt };
    let mut rows = Vec::new();
    for (shape, profile) in &found.profiles {
        rows.extend(maker.misses(shape, profile));
    }
    for shape in &found.late {
        let reason = "the time was used up";
        let row = Row::unavailable(SUITE, "misses", "l1d_load_miss_percent", "%", reason);
        rows.push(maker.of(row).with("platform", shape.platform.as_str()));
    }
    // How many instructions of which kind are executed does not depend on caches.
    if let Some((_, profile)) = found.profiles.first() {
        rows.extend(maker.mix(profile.total()));
        rows.push(maker.instructions(profile.total()));
    }
    match &found.executed {
        Some((shape, warm, full)) => {
            rows.extend(maker.functions(shape, &full.functions(warm)));
            rows.push(maker.footprint(shape, warm, full));
        }
        None => {
            let reason = "the time was used up";
            for (case, metric, unit) in [
                ("functions", "instructions_percent", "%"),
                ("footprint", "bytes", "bytes"),
            ] {
                rows.push(maker.of(Row::unavailable(SUITE, case, metric, unit, reason)));
            }
        }
    }
    rows
}

struct Maker<'a> {
    found: &'a Found,
    smt: &'a str,
}

impl Maker<'_> {
    fn of(&self, row: Row) -> Row {
        let statement = &self.found.statement;
        row.with("workload", statement.workload.as_str())
            .with("smt", self.smt)
            .with("how", "cachegrind")
            .with("concurrency", 1usize)
            .with("table_rows", statement.table_rows)
            .with("executions", statement.executions)
    }

    fn simulated(&self, case: &str, metric: &str, unit: &str, value: f64) -> Row {
        let spread = Spread::one(value);
        self.of(Row::simulated(
            SUITE,
            case,
            metric,
            unit,
            spread,
            self.found.answer_ok,
        ))
    }

    fn misses(&self, shape: &Shape, profile: &Profile) -> Vec<Row> {
        let total = profile.total();
        let [l1d, last, l1i] = [shape.l1d, shape.last, shape.l1i].map(written);
        let rates = [
            ("l1d_load_miss_percent", total.l1d_load_miss_percent(), l1d),
            ("l2_load_miss_percent", total.last_load_miss_percent(), last),
            ("l1i_miss_percent", total.l1i_miss_percent(), l1i),
            (
                "branch_mispredict_percent",
                total.branch_mispredict_percent(),
                "none".to_owned(),
            ),
        ];
        let row = |(metric, percent, cache): (&str, Option<f64>, String)| {
            let row = self.simulated("misses", metric, "%", percent?);
            let row = row.with("cache", cache).with("scaled", false);
            Some(
                row.with("platform", shape.platform.as_str())
                    .with("note", shape.note.as_str()),
            )
        };
        rates.into_iter().filter_map(row).collect()
    }

    fn mix(&self, total: &Counts) -> Vec<Row> {
        let Some(mix) = total.mix() else {
            return Vec::new();
        };
        let kinds = [
            ("load", mix.load_percent),
            ("store", mix.store_percent),
            ("branch", mix.branch_percent),
            ("other", mix.other_percent),
        ];
        kinds
            .map(|(kind, percent)| {
                self.simulated("mix", "percent", "%", percent)
                    .with("kind", kind)
                    .with("note", MIX_NOTE)
            })
            .into()
    }

    fn instructions(&self, total: &Counts) -> Row {
        let each = total.get(Event::Instructions) as f64 / self.found.statement.executions as f64;
        self.simulated("resources", "instructions_per_query", "instructions", each)
    }

    fn functions(&self, shape: &Shape, functions: &[Function]) -> Vec<Row> {
        let total = sum(functions.iter());
        let (server, libraries): (Vec<&Function>, Vec<&Function>) =
            functions.iter().partition(|function| is_server(function));
        let named = sum(server.iter().copied().filter(|function| function.is_named()));
        let all_of_server = sum(server.iter().copied());
        let instructions = [Event::Instructions];
        let named_percent =
            100.0 * named.sum(&instructions) as f64 / all_of_server.sum(&instructions).max(1) as f64;
        if named_percent < NAMED_PERCENT_MIN {
            let reason = "the server has no symbols; install its debug symbols (on Debian the package postgresql-VERSION-dbgsym)";
            let row = Row::unavailable(SUITE, "functions", "instructions_percent", "%", reason);
            return vec![self.of(row)];
        }
        let mut ranked: Vec<&Function> = server.iter().copied().take(FUNCTIONS).collect();
        let mut missing = server.clone();
        missing.sort_by_key(|function| std::cmp::Reverse(function.counts.sum(&MISSES)));
        let more = missing
            .into_iter()
            .take(MISSING_FUNCTIONS)
            .filter(|function| function.counts.sum(&MISSES) > 0);
        for function in more {
            if !ranked.contains(&function) {
                ranked.push(function);
            }
        }
        let mut rows = Vec::new();
        let mut add = |name: String, rank: usize, module: &str, counts: &Counts| {
            let shares: [(&str, &[Event]); 4] = [
                ("instructions_percent", &instructions),
                ("l1i_miss_share_percent", &[Event::L1iMisses]),
                (
                    "l1d_miss_share_percent",
                    &[Event::L1dLoadMisses, Event::L1dStoreMisses],
                ),
                ("ll_miss_share_percent", &MISSES),
            ];
            for (metric, events) in shares {
                let whole = total.sum(events);
                if whole == 0 {
                    continue;
                }
                let percent = 100.0 * counts.sum(events) as f64 / whole as f64;
                let row = self.simulated("functions", metric, "%", percent);
                rows.push(
                    row.with("function", name.as_str())
                        .with("rank", rank)
                        .with("module", module)
                        .with("platform", shape.platform.as_str())
                        .with("named_percent", named_percent),
                );
            }
        };
        for (place, function) in ranked.iter().enumerate() {
            add(name(function), place + 1, "server", &function.counts);
        }
        let rest = sum(libraries.into_iter());
        add("all libraries".to_owned(), ranked.len() + 1, "libraries", &rest);
        rows
    }

    fn footprint(&self, shape: &Shape, warm: &Executed, full: &Executed) -> Row {
        let code = full.code(warm, self.found.statement.executions as u64);
        let server: u64 = code
            .lines
            .iter()
            .filter(|(path, _)| file_name(path) == SERVER)
            .map(|(path, _)| code.bytes_of(path))
            .sum();
        self.simulated("footprint", "bytes", "bytes", code.bytes() as f64)
            .with("l1i_bytes", shape.l1i.size().0)
            .with("server_bytes", server)
            .with("library_bytes", code.bytes() - server)
            .with(
                "note",
                "lines of 64 bytes in which an instruction begins that each execution needs, counted by callgrind",
            )
    }
}

fn sum<'a>(functions: impl Iterator<Item = &'a Function>) -> Counts {
    functions.fold(Counts::default(), |sum, function| {
        sum.saturating_plus(&function.counts)
    })
}

fn is_server(function: &Function) -> bool {
    file_name(&function.object) == SERVER
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Its name; of a function without one, where it is.
fn name(function: &Function) -> String {
    match function.is_named() {
        true => function.name.clone(),
        false => {
            let address = function.name.trim_start_matches("0x").trim_start_matches('0');
            format!("{SERVER}+0x{address}")
        }
    }
}

#[cfg(test)]
mod tests {
    use corun_model::topology::Topology;

    use super::super::Expect;
    use super::*;
    use lab_core::row::Label;

    fn statement() -> Statement {
        Statement {
            workload: "utpcc".to_owned(),
            settings: Vec::new(),
            before: Vec::new(),
            sql: "select 1".to_owned(),
            expect: Expect {
                sql: String::new(),
                column: String::new(),
                values: Vec::new(),
            },
            executions: 2,
            table_rows: 1000,
        }
    }

    const CACHEGRIND: &str = "events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim\nfl=???\nfn=ExecScan\n\
                              0 1000 10 1 400 40 4 200 20 2 90 9 10 1\nsummary: 1000 10 1 400 40 4 200 20 2 90 9 10 1\n";

    fn callgrind(of_named: u64) -> String {
        let total = of_named + 700;
        format!(
            "positions: instr line\nevents: Ir DLmr\nob=/usr/bin/postgres\nfl=???\nfn=ExecScan\n0x40 0 {of_named} 1\n\
             fn=0x0000000000000080\n0x80 0 400 8\n0x84 0 200\nob=/lib/libc.so.6\nfl=???\nfn=memcpy\n0x80 0 100 1\n\
             totals: {total} 10\n"
        )
    }

    fn found(of_named: u64) -> Found {
        let shape = Shape::of(&Topology::default());
        let mut found = Found::of(&statement());
        let profile = Profile::parse(CACHEGRIND).expect("a profile");
        found.profiles.push((shape.clone(), profile));
        let executed = Executed::parse(&callgrind(of_named)).expect("counts");
        found.executed = Some((shape, Executed::default(), executed));
        found
    }

    #[test]
    fn counts_become_rows_by_case() {
        let mut found = found(300);
        found.late(&Shape::paper());
        let rows = rows(&found, "none");
        let value = |case: &str, metric: &str, key: &str, text: &str| {
            let row = rows.iter().find(|row| {
                row.case == case
                    && row.metric == metric
                    && (key.is_empty() || row.text(key) == text)
                    && row.label == Label::Simulated
            });
            row.and_then(Row::median)
        };
        assert_eq!(
            value("misses", "l1d_load_miss_percent", "cache", "32k/8/64"),
            Some(10.0)
        );
        assert_eq!(
            value("misses", "l2_load_miss_percent", "cache", "1024k/16/64"),
            Some(10.0)
        );
        assert_eq!(value("misses", "l1i_miss_percent", "", ""), Some(1.0));
        assert_eq!(value("misses", "branch_mispredict_percent", "", ""), Some(10.0));
        let kinds = ["load", "store", "branch", "other"].map(|kind| value("mix", "percent", "kind", kind));
        assert_eq!(kinds, [Some(40.0), Some(20.0), Some(10.0), Some(30.0)]);
        assert_eq!(value("resources", "instructions_per_query", "", ""), Some(500.0));
        let share = |metric, function| value("functions", metric, "function", function);
        assert_eq!(share("instructions_percent", "postgres+0x80"), Some(60.0));
        assert_eq!(share("instructions_percent", "ExecScan"), Some(30.0));
        assert_eq!(share("ll_miss_share_percent", "postgres+0x80"), Some(80.0));
        assert_eq!(share("instructions_percent", "all libraries"), Some(10.0));
        assert_eq!(value("footprint", "bytes", "", ""), Some(192.0));
        let late: Vec<&Row> = rows
            .iter()
            .filter(|row| row.label == Label::Unavailable)
            .collect();
        assert_eq!(late.len(), 1);
        assert_eq!(late[0].text("platform"), "paper");
        assert!(rows.iter().all(|row| row.text("how") == "cachegrind"
            && row.text("workload") == "utpcc"
            && row.number("concurrency") == Some(1.0)));
    }

    #[test]
    fn a_server_without_symbols_is_named_as_such() {
        let rows = rows(&found(0), "none");
        let functions: Vec<&Row> = rows.iter().filter(|row| row.case == "functions").collect();
        assert_eq!(functions.len(), 1);
        assert!(functions[0].text("reason").contains("dbgsym"));
    }

    #[test]
    fn a_wrong_answer_shows_in_every_row() {
        let mut found = found(300);
        found.answer_ok = false;
        assert!(
            rows(&found, "none")
                .iter()
                .all(|row| row.answer_ok == Some(false))
        );
    }
}
