//! Paper 002's figures from simulation, as rows: 2 and 5, 6 and Table 1.
//!
//! ```text
//!   case         paper      what runs                                                            rows for
//!   sim_fig2     Figure 2   each query alone in fewer and fewer ways                             ways
//!   sim_fig5     Figure 5   PLQ_5 by hash beside a weak PLQ_25, by hash or by index              colours (as there), apart, ways
//!   sim_fig6     Figure 6   PLQ_2, 6, 11, 24 by hash: beside their index joins, beside           policy default, sls, mls
//!                           themselves, beside their index joins in a divided cache
//!   sim_table1   Table 1    a query of each class beside one of each class                       class, corunner
//! ```
//!
//! The machine is the paper's, scaled. Colours and ways are given as parts of 32 and 16; of a scaled cache with fewer colours it is
//! the same part. Where the paper has a number for the same thing it stands beside ours, as `paper`.
//!
//! Not here: measured figures, which are the suite's.

use corun_model::units::Bytes;

use super::lab::{Division, Lab, Outcome};
use super::machine::{Machine, Preset};
use super::query::{Join, Query};
use corun_model::progress::{Progress, Silent};
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::stats::Spread;

/// The key `suite`.
const SUITE: &str = "llc";
/// Ways of the weak query, as parts of 16.
const WAYS: [u32; 8] = [16, 12, 8, 6, 4, 3, 2, 1];
/// Colours of the weak query, as parts of 32 (Figure 5's axis).
const COLOURS: [u32; 5] = [32, 24, 16, 8, 4];
/// What the paper gives weak queries (section 6.2), as parts of 32.
const FEW_COLOURS: u32 = 4;
/// Ways of 16 for weak queries: twice as much cache, since their own state shares the class's ways with what floods them.
const FEW_WAYS: u32 = 4;

const MODERATE: Query = Query::plq(5, Join::Hash);
const STRONG: Query = Query::plq(2, Join::Hash);
const WEAK_INDEX: Query = Query::plq(25, Join::Index);
/// PLQ_25 with part from a 4 GB database.
const WEAK_HASH: Query = Query::Plq {
    categories: 25,
    gigabytes: 4.0,
    join: Join::Hash,
};

/// A figure that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Figure 2.
    Fig2,
    /// Figure 5.
    Fig5,
    /// Figure 6.
    Fig6,
    /// Table 1.
    Table1,
}

impl Figure {
    /// All of them.
    pub const ALL: [Figure; 4] = [Figure::Fig2, Figure::Fig5, Figure::Fig6, Figure::Table1];

    /// The key `case`.
    pub fn case(self) -> &'static str {
        match self {
            Figure::Fig2 => "sim_fig2",
            Figure::Fig5 => "sim_fig5",
            Figure::Fig6 => "sim_fig6",
            Figure::Table1 => "sim_table1",
        }
    }

    /// The key `figure`.
    fn number(self) -> &'static str {
        match self {
            Figure::Fig2 => "2",
            Figure::Fig5 => "5",
            Figure::Fig6 => "6",
            Figure::Table1 => "table1",
        }
    }

    /// Simulations it takes, for a progress bar.
    fn steps(self) -> u64 {
        match self {
            Figure::Fig2 => WAYS.len() as u64,
            Figure::Fig5 => 2 * (2 * COLOURS.len() + WAYS.len()) as u64,
            Figure::Fig6 => 4 * 5,
            Figure::Table1 => 12,
        }
    }
}

/// What to simulate.
#[derive(Clone, Debug)]
pub struct SimArgs {
    /// The machine.
    pub preset: Preset,
    /// Its caches divided by this, and queries with them.
    pub scale: u64,
    /// Seed of the data.
    pub seed: u64,
    /// Which figures.
    pub figures: Vec<Figure>,
}

impl SimArgs {
    /// All figures on the paper's machine, 4 MiB in 16 ways, in half a minute; with `quick` on an eighth of it, in some three seconds.
    pub fn new(quick: bool) -> SimArgs {
        SimArgs {
            preset: Preset::Paper,
            scale: if quick { 8 } else { 1 },
            seed: 1,
            figures: Figure::ALL.to_vec(),
        }
    }
}

/// The rows of the figures. Equal arguments give equal rows.
///
/// # Errors
/// [`BenchError::Simulation`] for a scale too large for a cache to be left.
pub fn rows(args: &SimArgs) -> Result<Vec<Row>, BenchError> {
    rows_with(args, &Silent)
}

/// The same with a progress bar.
///
/// # Errors
/// As [`rows`].
pub fn rows_with(args: &SimArgs, progress: &dyn Progress) -> Result<Vec<Row>, BenchError> {
    let mut stage = Stage {
        machine: Machine::preset(args.preset, args.scale),
        preset: args.preset,
        seed: args.seed,
        rows: Vec::new(),
        progress,
    };
    for &figure in &args.figures {
        progress.begin(&format!("simulating {}", figure.case()), figure.steps());
        match figure {
            Figure::Fig2 => stage.fig2()?,
            Figure::Fig5 => stage.fig5()?,
            Figure::Fig6 => stage.fig6()?,
            Figure::Table1 => stage.table1()?,
        }
        progress.end();
    }
    Ok(stage.rows)
}

/// The mix as it is typed.
pub fn mix_name(queries: &[Query]) -> String {
    let names: Vec<String> = queries.iter().map(Query::to_string).collect();
    names.join(",")
}

/// A row of a simulated number with the keys every such row has.
pub fn row(
    suite: &str,
    case: &str,
    (metric, unit, value): (&str, &str, f64),
    mix: &str,
    of: &Outcome,
) -> Option<Row> {
    // Answers were compared when the query was recorded: a wrong one leaves no outcome.
    let row = Row::simulated(suite, case, metric, unit, Spread::of(&[value])?, true);
    Some(
        row.with("mix", mix)
            .with("query", of.query.to_string())
            .with("class", of.locality.to_string())
            .with("table_bytes", of.table.0),
    )
}

/// The metrics of an outcome.
pub fn metrics(of: &Outcome) -> [(&'static str, &'static str, f64); 3] {
    [
        ("slowdown", "x", of.slow_down),
        ("miss_rate", "percent", 100.0 * of.miss_rate),
        ("miss_rate_alone", "percent", 100.0 * of.miss_rate_alone),
    ]
}

/// Sets the keys of a division.
pub fn with_division(row: Row, division: Division) -> Row {
    let row = row.with("partition", division.name());
    match division {
        Division::Undivided => row,
        Division::Ways(ways) => row.with("ways", u64::from(ways)),
        Division::Colours(colours) | Division::Apart(colours) => row.with("colours", u64::from(colours)),
    }
}

/// Where rows of one machine gather.
struct Stage<'p> {
    machine: Machine,
    preset: Preset,
    seed: u64,
    rows: Vec<Row>,
    progress: &'p dyn Progress,
}

impl Stage<'_> {
    fn lab(&self, queries: &[Query]) -> Result<Lab, BenchError> {
        Ok(Lab::new(&self.machine, queries, self.seed)?)
    }

    /// So many of 32 colours of the paper, in a cache that may have fewer.
    fn colours(&self, of_32: u32) -> u32 {
        (self.machine.colours() * of_32 / 32).max(1)
    }

    fn run(&self, lab: &Lab, division: Division) -> Result<Vec<Outcome>, BenchError> {
        let outcomes = lab.corun(division)?;
        self.progress.advance(1);
        Ok(outcomes)
    }

    /// The rows of one outcome; `paper` is what the paper has for the slow-down and the miss rate.
    fn emit(
        &mut self,
        figure: Figure,
        mix: &str,
        of: &Outcome,
        paper: [Option<f64>; 2],
        keys: impl Fn(Row) -> Row,
    ) {
        let papers = [paper[0], paper[1], None];
        for (metric, paper) in metrics(of).into_iter().zip(papers) {
            let Some(row) = row(SUITE, figure.case(), metric, mix, of) else {
                continue;
            };
            let row = row
                .with("figure", figure.number())
                .with("machine", self.preset.name())
                .with("llc_bytes", self.machine.llc.0);
            let row = match paper {
                Some(paper) => row.with("paper", paper),
                None => row,
            };
            self.rows.push(keys(row));
        }
    }

    fn fig2(&mut self) -> Result<(), BenchError> {
        // A fortieth of the cache is the paper's 100 KB of an aggregation (section 4.1).
        let groups = Bytes((self.machine.llc.0 / 40 / 64 * 64).max(64));
        let mut queries: Vec<Query> = [1, 2, 5, 11].map(|count| Query::plq(count, Join::Hash)).to_vec();
        queries.extend([WEAK_HASH, WEAK_INDEX, Query::Scan, Query::Aggregate { groups }]);
        let lab = self.lab(&queries)?;
        for ways in WAYS {
            for outcome in lab.confined(ways)? {
                let mix = outcome.query.to_string();
                self.emit(Figure::Fig2, &mix, &outcome, [None; 2], |row| {
                    with_division(row, Division::Ways(ways))
                });
            }
            self.progress.advance(1);
        }
        Ok(())
    }

    fn fig5(&mut self) -> Result<(), BenchError> {
        for weak in [WEAK_HASH, WEAK_INDEX] {
            let queries = [MODERATE, weak];
            let (lab, mix) = (self.lab(&queries)?, mix_name(&queries));
            let colours = COLOURS.map(|of_32| self.colours(of_32));
            let all = self.machine.colours();
            let apart = colours.into_iter().filter(|&count| count < all);
            let divisions = std::iter::once(Division::Undivided)
                .chain(colours.map(Division::Colours))
                .chain(apart.map(Division::Apart))
                .chain(WAYS.map(Division::Ways));
            for division in divisions {
                for (at, outcome) in self.run(&lab, division)?.iter().enumerate() {
                    let paper = match at {
                        0 => paper_fig5(weak, division, all),
                        _ => [None; 2],
                    };
                    let corunner = queries[1 - at].to_string();
                    self.emit(Figure::Fig5, &mix, outcome, paper, |row| {
                        with_division(row, division).with("corunner", corunner.as_str())
                    });
                }
            }
        }
        Ok(())
    }

    fn fig6(&mut self) -> Result<(), BenchError> {
        for categories in [2, 6, 11, 24] {
            let [hash, index] = [Join::Hash, Join::Index].map(|join| Query::plq(categories, join));
            let few = self.colours(FEW_COLOURS);
            let runs = [
                ("default", [hash, index], vec![Division::Undivided]),
                ("sls", [hash, hash], vec![Division::Undivided]),
                (
                    "mls",
                    [hash, index],
                    vec![
                        Division::Colours(few),
                        Division::Apart(few),
                        Division::Ways(FEW_WAYS),
                    ],
                ),
            ];
            for (policy, queries, divisions) in runs {
                let (lab, mix) = (self.lab(&queries)?, mix_name(&queries));
                for division in divisions {
                    let outcomes = self.run(&lab, division)?;
                    // As the paper does, only the hash join is looked at.
                    self.emit(Figure::Fig6, &mix, &outcomes[0], [None; 2], |row| {
                        with_division(row, division)
                            .with("policy", policy)
                            .with("corunner", queries[1].to_string())
                    });
                }
            }
        }
        Ok(())
    }

    fn table1(&mut self) -> Result<(), BenchError> {
        let classes = [STRONG, MODERATE, WEAK_HASH];
        let corunners = [STRONG, MODERATE, WEAK_HASH, WEAK_INDEX];
        for target in classes {
            for corunner in corunners {
                let queries = [target, corunner];
                let (lab, mix) = (self.lab(&queries)?, mix_name(&queries));
                let outcomes = self.run(&lab, Division::Undivided)?;
                let (class, other) = (outcomes[0].locality, outcomes[1].locality);
                let grade = paper_grade(class as usize, other as usize);
                self.emit(Figure::Table1, &mix, &outcomes[0], [None; 2], |row| {
                    with_division(row, Division::Undivided)
                        .with("corunner", corunner.to_string())
                        .with("corunner_class", other.to_string())
                        .with("paper_grade", grade)
                });
            }
        }
        Ok(())
    }
}

/// What Table 1 says of a query of one class beside one of another; strong is 0.
fn paper_grade(class: usize, corunner: usize) -> &'static str {
    const GRADES: [[&str; 3]; 3] = [
        ["low", "moderate", "high"],
        ["moderate", "high", "high"],
        ["low", "low", "low"],
    ];
    GRADES[class][corunner]
}

/// Slow-down and miss rate (percent) of the moderate query in section 7.1, where it gives them: 42.19 s alone.
fn paper_fig5(weak: Query, division: Division, all: u32) -> [Option<f64>; 2] {
    const ALONE_S: f64 = 42.19;
    let undivided = division == Division::Undivided || division == Division::Colours(all);
    match (weak == WEAK_INDEX, undivided, division) {
        (false, true, _) => [Some(54.0 / ALONE_S), Some(19.0)],
        (true, true, _) => [Some(66.0 / ALONE_S), Some(28.0)],
        // "Reduced by 33 %, compared with the case without cache partitioning".
        (true, _, Division::Colours(few)) if few * 32 == all * FEW_COLOURS => {
            [Some(66.0 * 0.67 / ALONE_S), None]
        }
        _ => [None, None],
    }
}
