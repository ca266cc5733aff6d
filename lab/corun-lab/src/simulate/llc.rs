//! `corun-lab simulate llc`: what a mix of queries would do to each other on a last-level cache: arguments and printing; the simulation is
//! `lab_engine::shared_cache::sim`.

use std::io::Write;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use corun_cachesim::Replacement;
use corun_model::progress::Progress as _;
use corun_model::units::Bytes;
use lab_core::BenchError;
use lab_engine::shared_cache::sim::figures::{metrics, mix_name, row, with_division};
use lab_engine::shared_cache::sim::{Division, Lab, Machine, Outcome, Preset, mix};

use corun_cli::arguments::{byte_size, positive, positive_number};
use corun_cli::failure::Usage;
use corun_cli::out;
use corun_cli::progress::Bars;

/// Cells of a bar.
const BAR_CELLS: f64 = 20.0;
/// Slow-down of a full bar at least: small ones look small.
const BAR_FULL_MIN: f64 = 1.5;

/// Arguments of `corun-lab simulate llc`.
#[derive(Debug, Args)]
#[command(
    after_help = "A mix is one to eight queries with commas between them, each on a core of its own:
  plqK:hash      K of 25 categories of parts joined with lineorder, over corun's join table
  plqK@GB:hash   the same with parts of a database of GB gigabytes instead of 2: plq25@4:hash
  plqK:chained   the same over buckets with chains of cells, the layout of 2009
  plqK:index     the same through an index over lineorder
  scan           a scan with a sum
  agg:SIZE       a scan with groups that take SIZE, such as agg:64KiB

Examples:
  corun-lab simulate llc --mix plq5:hash,plq25:index --ways-weak 1..16
  corun-lab simulate llc --mix plq5:hash,plq25@4:hash --partition colours --colours-weak 4,16
  corun-lab simulate llc --mix plq5:hash,scan --preset modern --ways-weak 2,4 --json
  corun-lab simulate llc --mix agg:256KiB,scan,scan --llc 8MiB --ways 16 --replacement plru

A hash table takes the share of the cache that it took of the paper's 4 MB.

Every number is simulated, from accesses of corun's own operators over generated data.
Equal arguments give equal numbers. A slow-down of 1.56 means 1.56 times the time alone in the whole, undivided cache."
)]
pub struct LlcArgs {
    /// The queries that run together.
    #[arg(long, value_name = "QUERY,...", default_value = "plq5:hash,plq25:index")]
    mix: String,

    /// The machine whose caches and times are taken where no option says otherwise: that of paper 002, or a server of today.
    #[arg(long, value_name = "MACHINE", default_value = "paper", value_parser = PossibleValuesParser::new(Preset::NAMES))]
    preset: String,

    /// Capacity of the shared cache, 64KiB to 32MiB [default: 4MiB].
    #[arg(long, value_name = "SIZE", value_parser = byte_size, allow_negative_numbers = true)]
    llc: Option<usize>,

    /// Ways of the shared cache [default: 16].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    ways: Option<usize>,

    /// How the cache is divided: by ways for weak queries, by colours for what is not a table (paper 002), by colours with tables
    /// apart, or not at all.
    #[arg(long, value_name = "HOW", default_value = "ways", value_parser = PossibleValuesParser::new(["ways", "colours", "apart", "none"]))]
    partition: String,

    /// Ways that weak queries fill: numbers and ranges, such as 1,2,4..8 [default: 1,2,4 and so on to half of all].
    #[arg(long, value_name = "LIST", value_parser = counts, allow_negative_numbers = true)]
    ways_weak: Option<Counts>,

    /// Colours of weak queries and of everything but tables [default: 1,2,4 and so on to half of all].
    #[arg(long, value_name = "LIST", value_parser = counts, allow_negative_numbers = true)]
    colours_weak: Option<Counts>,

    /// What leaves a full set: the least recently used line, or the one a tree of bits leads to [default: the machine's].
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(["lru", "plru"]))]
    replacement: Option<String>,

    /// Capacity of each core's own cache, 8 ways; none for no such cache [default: the machine's].
    #[arg(long, value_name = "SIZE", value_parser = size_or_none, allow_negative_numbers = true)]
    private_l2: Option<usize>,

    /// Time to load a line from the shared cache, in nanoseconds [default: the machine's].
    #[arg(long, value_name = "NS", value_parser = positive_number, allow_negative_numbers = true)]
    llc_ns: Option<f64>,

    /// Time to load a line from memory, in nanoseconds [default: the machine's].
    #[arg(long, value_name = "NS", value_parser = positive_number, allow_negative_numbers = true)]
    memory_ns: Option<f64>,

    /// Accesses under way at once where they do not wait for each other [default: the machine's].
    #[arg(long, value_name = "N", value_parser = positive_number, allow_negative_numbers = true)]
    parallelism: Option<f64>,

    /// Instructions around each access, in nanoseconds [default: the machine's].
    #[arg(long, value_name = "NS", value_parser = positive_number, allow_negative_numbers = true)]
    work_ns: Option<f64>,

    /// Seed of the data.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,

    /// Print rows as one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Numbers of ways or colours, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counts(Vec<u32>);

/// Parses `1..16`, `1,2,4`, or both mixed. Ends are included.
fn counts(text: &str) -> Result<Counts, String> {
    const USAGE: &str = "is not a list of numbers from 1 to 64 and ranges such as 1,2,4..8";
    let number = |text: &str| match text.trim().parse::<u32>() {
        Ok(number @ 1..=64) => Ok(number),
        _ => Err(USAGE.to_owned()),
    };
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once("..") {
            Some((first, last)) => (number(first)?, number(last.trim_start_matches('='))?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return Err(format!("has a range that ends before it begins, {first}..{last}"));
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Ok(Counts(all))
}

/// Parses a size, or `none` for 0.
fn size_or_none(text: &str) -> Result<usize, String> {
    match text {
        "none" => Ok(0),
        _ => byte_size(text),
    }
}

/// Powers of two to half of `all`.
fn halves(all: u32) -> Vec<u32> {
    std::iter::successors(Some(1), |count| Some(count * 2))
        .take_while(|count| *count <= (all / 2).max(1))
        .collect()
}

impl LlcArgs {
    fn machine(&self) -> Result<Machine> {
        let preset: Preset = self.preset.parse().map_err(Usage)?;
        let mut machine = Machine::preset(preset, 1);
        if let Some(bytes) = self.llc {
            machine.llc = Bytes(bytes as u64);
        }
        if let Some(ways) = self.ways {
            machine.ways = u32::try_from(ways).unwrap_or(u32::MAX);
        }
        if let Some(bytes) = self.private_l2 {
            machine.private = Bytes(bytes as u64);
        }
        match self.replacement.as_deref() {
            Some("lru") => machine.replacement = Replacement::Lru,
            Some(_) => machine.replacement = Replacement::TreePlru,
            None => {}
        }
        for (given, field) in [
            (self.llc_ns, &mut machine.llc_ns),
            (self.memory_ns, &mut machine.memory_ns),
            (self.parallelism, &mut machine.parallelism),
            (self.work_ns, &mut machine.work_ns),
        ] {
            if let Some(value) = given {
                *field = value;
            }
        }
        Ok(machine)
    }

    /// What to simulate beside the undivided cache.
    fn divisions(&self, machine: &Machine) -> Result<Vec<Division>> {
        let by_colours = matches!(self.partition.as_str(), "colours" | "apart");
        if self.ways_weak.is_some() && self.partition != "ways" {
            bail!(Usage(format!(
                "--ways-weak is for --partition ways, not for {}\nhint: --colours-weak is for colours and apart",
                self.partition
            )));
        }
        if self.colours_weak.is_some() && !by_colours {
            bail!(Usage(format!(
                "--colours-weak is for --partition colours and apart, not for {}\nhint: --ways-weak is for ways",
                self.partition
            )));
        }
        let list = |given: &Option<Counts>, all: u32| match given {
            Some(Counts(counts)) => counts.clone(),
            None => halves(all),
        };
        Ok(match self.partition.as_str() {
            "none" => Vec::new(),
            "ways" => list(&self.ways_weak, machine.ways)
                .into_iter()
                .map(Division::Ways)
                .collect(),
            how => list(&self.colours_weak, machine.colours())
                .into_iter()
                .map(|count| match how {
                    "colours" => Division::Colours(count),
                    _ => Division::Apart(count),
                })
                .collect(),
        })
    }
}

/// Runs `corun-lab simulate llc`.
///
/// # Errors
/// Arguments that describe no mix or no machine; a closed pipe.
pub fn run(args: &LlcArgs) -> Result<()> {
    let machine = args.machine()?;
    let mut divisions = vec![Division::Undivided];
    divisions.extend(args.divisions(&machine)?);
    let queries = mix(&args.mix).map_err(BenchError::from)?;
    let bars = Bars::new();
    bars.begin("simulating", divisions.len() as u64 + 1);
    let lab = Lab::new(&machine, &queries, args.seed).map_err(BenchError::from)?;
    // Before anything is printed: half a table is no use.
    for &division in &divisions {
        lab.check(division).map_err(BenchError::from)?;
    }
    bars.advance(1);
    let mut results = Vec::new();
    for &division in &divisions {
        results.push((division, lab.corun(division).map_err(BenchError::from)?));
        bars.advance(1);
    }
    drop(bars);
    let name = mix_name(&queries);
    if args.json {
        for (division, outcomes) in &results {
            for (at, outcome) in outcomes.iter().enumerate() {
                for metric in metrics(outcome) {
                    if let Some(row) = row("simulate", "llc", metric, &name, outcome) {
                        let row = with_division(row, *division)
                            .with("core", at)
                            .with("machine", args.preset.as_str())
                            .with("llc_bytes", machine.llc.0)
                            .with("llc_ways", u64::from(machine.ways));
                        out::line(&row.to_json())?;
                    }
                }
            }
        }
        return Ok(());
    }
    let mut out = out::stdout();
    print(&mut out, &machine, &results)?;
    out.flush()?;
    Ok(())
}

fn print(out: &mut impl Write, machine: &Machine, results: &[(Division, Vec<Outcome>)]) -> Result<()> {
    let replacement = match machine.replacement {
        Replacement::Lru => "least recently used",
        Replacement::TreePlru => "tree",
    };
    writeln!(
        out,
        "simulated: {} in {} ways ({replacement}) behind {}; shared cache {} ns, memory {} ns\n",
        size(machine.llc.0),
        machine.ways,
        match machine.private.0 {
            0 => "no cache of a core's own".to_owned(),
            bytes => format!("{} a core", size(bytes)),
        },
        machine.llc_ns,
        machine.memory_ns,
    )?;
    let slow_downs = results.iter().flat_map(|(_, outcomes)| outcomes);
    let most = slow_downs
        .map(|outcome| outcome.slow_down)
        .fold(BAR_FULL_MIN, f64::max);
    let mut rows = Vec::new();
    for (division, outcomes) in results {
        for (at, outcome) in outcomes.iter().enumerate() {
            let (partition, weak) = match (at, division) {
                (0, Division::Undivided) => ("none", "all".to_owned()),
                (0, _) => (division.name(), division.weak().to_string()),
                _ => ("", String::new()),
            };
            rows.push(vec![
                partition.to_owned(),
                weak,
                outcome.query.to_string(),
                outcome.locality.to_string(),
                bar(outcome.slow_down, most),
                match outcome.table.0 {
                    0 => "-".to_owned(),
                    bytes => size(bytes),
                },
                format!("{:.1} %", 100.0 * outcome.miss_rate_alone),
                format!("{:.1} %", 100.0 * outcome.miss_rate),
                format!("{:.2}", outcome.slow_down),
            ]);
        }
    }
    let headings = [
        "partition",
        "weak",
        "query",
        "class",
        "lost time",
        "table",
        "misses alone",
        "misses",
        "slow-down",
    ];
    out::table(out, &headings, 4, &rows)?;
    if let Some(text) = conclusion(results) {
        writeln!(out, "\n{text}")?;
    }
    Ok(())
}

/// The division with the least slow-down of all queries together, and what it is worth.
fn conclusion(results: &[(Division, Vec<Outcome>)]) -> Option<String> {
    let total = |outcomes: &[Outcome]| outcomes.iter().map(|outcome| outcome.slow_down.ln()).sum::<f64>();
    let (_, undivided) = results.first()?;
    let (best, divided) = results[1..]
        .iter()
        .min_by(|a, b| total(&a.1).total_cmp(&total(&b.1)))?;
    if total(divided) >= total(undivided) {
        return Some("No division is better than none (simulated).".to_owned());
    }
    let changes: Vec<String> = undivided
        .iter()
        .zip(divided)
        .map(|(before, after)| {
            format!(
                "{} {:.2} to {:.2}",
                before.query, before.slow_down, after.slow_down
            )
        })
        .collect();
    let unit = match best {
        Division::Ways(_) => "ways",
        _ => "colours",
    };
    let count = best.weak();
    Some(format!(
        "Best for all (simulated): {count} {} for weak queries. Slow-downs: {}.",
        if count == 1 { &unit[..unit.len() - 1] } else { unit },
        changes.join(", ")
    ))
}

/// A bar of the time lost, full at `most`.
fn bar(slow_down: f64, most: f64) -> String {
    let part = ((slow_down - 1.0) / (most - 1.0)).clamp(0.0, 1.0);
    "█".repeat((part * BAR_CELLS).round() as usize)
}

/// `4 MiB`, `928 KiB`, `640 B`.
fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 10 << 20 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        bytes if bytes >= 1 << 10 => format!("{:.0} KiB", bytes as f64 / f64::from(1 << 10)),
        bytes => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests;
