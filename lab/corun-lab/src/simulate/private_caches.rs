//! `corun-lab simulate private-caches`: what dispatching queries by key saves in private caches, on machines one may not have. Arguments; the
//! simulation is `corun_cachesim::private_caches`, its tables are [`text`]'s.

mod text;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use corun_cachesim::private_caches::platform::{CORES_MAX, Platform};
use corun_cachesim::private_caches::recording::Recording;
use corun_cachesim::private_caches::run::{CLIENTS_MAX, Dispatch, QUERIES_MAX, Scheduler};
use corun_cachesim::private_caches::study::{Setting, Split, usual_sizes};
use corun_cachesim::private_caches::workload::{Kind, STEPS_MAX, Sizes};
use corun_model::progress::Progress as _;
use corun_model::units::Bytes;
use lab_postgres::key_ranges_simulated::{Study, record, rows, workload};

use corun_cli::arguments::{byte_size, positive};
use corun_cli::failure::Usage;
use corun_cli::out;
use corun_cli::progress::Bars;

/// Clients for each hardware thread where nobody says.
const CLIENTS_PER_THREAD: usize = 2;
/// Bytes of a core's range against its second level, in a sweep.
const RATIOS: [f64; 7] = [0.0625, 0.25, 0.5, 1.0, 2.0, 8.0, 64.0];
/// Most rows of a table, and most warehouses.
const ROWS_MAX: u64 = 100_000_000;
const WAREHOUSES_MAX: u64 = 100_000;
/// Largest second level.
const L2_MAX: u64 = 64 << 20;

/// Arguments of `corun-lab simulate private-caches`.
#[derive(Debug, Args)]
#[command(after_help = "Sides that are compared:
  os free      a backend for each client; a free hardware thread takes the one that has waited longest
  os sticky    the same, but each thread keeps its own backends
  random       a backend bound to each hardware thread; a query comes to any
  range        the same; a query comes to the owner of its key

Workloads: point (reads by key, prepared), point_simple (the same as text), tpcw (the browsing mix), tpcc (New Order and Payment).

Examples:
  corun-lab simulate private-caches --cores 40 --workload tpcw
  corun-lab simulate private-caches --cores 48 --workload point --items 40000
  corun-lab simulate private-caches --workload point --sweep
  corun-lab simulate private-caches --cores 40 --best-seller-steps 500 --dispatch range
  corun-lab simulate private-caches --platform today40 --workload tpcc --json

Every number is simulated, from accesses that PostgreSQL made under valgrind. Equal arguments give equal numbers.")]
pub struct PrivateCachesArgs {
    /// Cores: 40 is the paper's Intel machine, 48 its AMD machine, 80 a server of today [default: 40, or the platform's].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    cores: Option<usize>,

    /// The machine whose caches are taken [default: by --cores].
    #[arg(long, value_name = "MACHINE", value_parser = PossibleValuesParser::new(Platform::NAMES))]
    platform: Option<String>,

    /// What is run.
    #[arg(long, value_name = "NAME", default_value = "tpcw", value_parser = PossibleValuesParser::new(Kind::NAMES))]
    workload: String,

    /// Accounts, or items of tpcw [default: 1000000].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    items: Option<usize>,

    /// Customers of tpcw [default: 2880000].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    customers: Option<usize>,

    /// Warehouses of tpcc [default: one a hardware thread].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    warehouses: Option<usize>,

    /// How uneven keys are: 0 for all alike, 0.99 for Zipf's law as benchmarks have it.
    #[arg(long, value_name = "S", default_value_t = 0.0, allow_negative_numbers = true)]
    skew: f64,

    /// Private second-level cache of each core [default: the machine's].
    #[arg(long, value_name = "SIZE", value_parser = byte_size, allow_negative_numbers = true)]
    l2: Option<usize>,

    /// Sides to compare, of os, random and range.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "os,random,range", value_parser = PossibleValuesParser::new(["os", "random", "range"]))]
    dispatch: Vec<String>,

    /// Clients, each with a backend of its own under os [default: two a hardware thread].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    clients: Option<usize>,

    /// Queries of each hardware thread that are counted, after as many as fill the caches.
    #[arg(long, value_name = "N", value_parser = positive, default_value = "60", allow_negative_numbers = true)]
    queries: usize,

    /// Steps of a Best Seller in the mix of tpcw, each an order line with its item; the paper's has some 10,000. 0: no Best Seller.
    #[arg(long, value_name = "N", default_value_t = 0)]
    best_seller_steps: usize,

    /// Compares os, random and range for databases from a sixteenth of the second-level caches to 64 times as large.
    #[arg(long)]
    sweep: bool,

    /// Traces the PostgreSQL that is here under valgrind instead of replaying the kept recording; takes minutes.
    #[arg(long, conflicts_with = "recording")]
    trace: bool,

    /// Keeps what --trace recorded.
    #[arg(long, value_name = "FILE", requires = "trace")]
    save: Option<PathBuf>,

    /// Replays what --save kept.
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,

    /// Seed of keys and clients.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,

    /// Print rows as one JSON object a line.
    #[arg(long)]
    json: bool,
}

fn bounded(name: &str, given: u64, most: u64) -> Result<u64> {
    if given > most {
        bail!(Usage(format!("{name} must be at most {most}, not {given}")));
    }
    Ok(given)
}

impl PrivateCachesArgs {
    fn platform(&self) -> Result<Platform> {
        let name = match (&self.platform, self.cores) {
            (Some(name), _) => name.as_str(),
            (None, None | Some(40)) => "intel",
            (None, Some(48)) => "amd",
            (None, Some(80)) => "today80",
            (None, Some(other)) => bail!(Usage(format!(
                "there is no machine of {other} cores\nhint: --cores 40, 48 or 80, or any number with --platform"
            ))),
        };
        let mut platform = Platform::preset(name).with_context(|| format!("there is no platform {name}"))?;
        if let Some(cores) = self.cores {
            platform.cores = bounded("--cores", cores as u64, CORES_MAX as u64)? as usize;
        }
        if let Some(bytes) = self.l2 {
            let bytes = bounded("--l2", bytes as u64, L2_MAX)?;
            platform = platform.with_l2(Bytes(bytes)).map_err(|error| {
                Usage(format!(
                    "the second level: {error}\nhint: sizes are a multiple of ways times 64 bytes"
                ))
            })?;
        }
        Ok(platform)
    }

    fn setting(&self) -> Result<Setting> {
        let platform = self.platform()?;
        let usual = usual_sizes(&platform);
        let or = |name: &str, given: Option<usize>, usual: u64, most: u64| match given {
            Some(given) => bounded(name, given as u64, most),
            None => Ok(usual),
        };
        if !(0.0..=2.0).contains(&self.skew) {
            bail!(Usage(format!(
                "--skew must be between 0 and 2, not {}",
                self.skew
            )));
        }
        let kind =
            Kind::named(&self.workload).with_context(|| format!("there is no workload {}", self.workload))?;
        if self.best_seller_steps > 0 && kind != Kind::Tpcw {
            bail!(Usage(format!(
                "there is no Best Seller in {}\nhint: --workload tpcw",
                self.workload
            )));
        }
        Ok(Setting {
            kind,
            sizes: Sizes {
                items: or("--items", self.items, usual.items, ROWS_MAX)?,
                customers: or("--customers", self.customers, usual.customers, ROWS_MAX)?,
                warehouses: or("--warehouses", self.warehouses, usual.warehouses, WAREHOUSES_MAX)?,
                skew: self.skew,
                best_seller_steps: bounded(
                    "--best-seller-steps",
                    self.best_seller_steps as u64,
                    STEPS_MAX as u64,
                )? as usize,
            },
            clients: bounded(
                "--clients",
                self.clients.unwrap_or(CLIENTS_PER_THREAD * platform.threads()) as u64,
                CLIENTS_MAX as u64,
            )? as usize,
            counted: bounded("--queries", self.queries as u64, QUERIES_MAX as u64)? as usize,
            seed: self.seed,
            platform,
        })
    }

    fn takes(&self, dispatch: &str) -> bool {
        self.dispatch.iter().any(|known| known == dispatch)
    }

    /// What is replayed, if not the kept recording.
    fn recording(&self) -> Result<Option<Recording>> {
        if let Some(path) = &self.recording {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("could not read {}", path.display()))?;
            return Ok(Some(
                Recording::parse(&text).with_context(|| format!("could not read {}", path.display()))?,
            ));
        }
        if !self.trace {
            return Ok(None);
        }
        let folder = tempfile::tempdir().context("could not make a folder for PostgreSQL")?;
        let bars = Bars::new();
        let recording = record(folder.path(), &bars)?;
        if let Some(path) = &self.save {
            std::fs::write(path, recording.to_text())
                .with_context(|| format!("could not write {}", path.display()))?;
        }
        Ok(Some(recording))
    }
}

/// Runs `corun-lab simulate private-caches`.
///
/// # Errors
/// Arguments that describe no machine; no PostgreSQL or valgrind for `--trace`; a closed pipe.
pub fn run(args: &PrivateCachesArgs) -> Result<()> {
    let setting = args.setting()?;
    let recording = args.recording()?;
    let recording = recording.as_ref();
    let bars = Bars::new();
    if args.sweep {
        let base = workload(&setting, recording)?;
        let sides: Vec<_> = [Dispatch::Os(Scheduler::Free), Dispatch::Random, Dispatch::Range]
            .map(|dispatch| corun_cachesim::private_caches::study::Side {
                dispatch,
                split: Split::Mixed,
            })
            .into();
        bars.begin("simulating", (RATIOS.len() * sides.len()) as u64);
        let mut studies = Vec::new();
        for ratio in RATIOS {
            studies.push(Study::run(
                setting.with_range_of(ratio, &base),
                &sides,
                recording,
                &bars,
            )?);
        }
        drop(bars);
        return match args.json {
            true => print_rows(&studies),
            false => text::print_sweep(&studies),
        };
    }
    let sides = setting.sides(args.takes("os"), args.takes("random"), args.takes("range"));
    bars.begin("simulating", sides.len() as u64);
    let study = Study::run(setting, &sides, recording, &bars)?;
    drop(bars);
    match args.json {
        true => print_rows(&[study]),
        false => text::print(&study),
    }
}

fn print_rows(studies: &[Study]) -> Result<()> {
    for row in studies.iter().flat_map(rows) {
        out::line(&row.to_json())?;
    }
    Ok(())
}
