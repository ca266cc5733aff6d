//! `--clients N -f QUERIES`: the queries of files, run by several clients at once through the coordinator, and a report.
//!
//! ```text
//!   every query once on each engine: the answers that all others must give; all are warm
//!   round 1:  each client runs every query once, in an order of its own; with --compare each side in turn, in an order
//!   round 2:  drawn anew, and nothing is kept of the turn before
//!   report:   ratios are taken within a round; the same side once more tells what is noise
//! ```
//!
//! Order of calls: [`ClientsArgs::check`], then [`run`]. [`queries`] reads, [`turn`] runs, [`numbers`] and [`report`] say what came of it.
//! It is not the lab's benchmark, whose data and queries are its own: here they are the user's.

mod numbers;
mod queries;
mod report;
mod turn;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use corun_cli::arguments::{positive, positive_number};
use corun_cli::failure::{Failed, Usage};
use corun_datafusion::{
    Coordinator, CoordinatorOptions, DecideOptions, Engine, EngineError, EngineOptions, Joins,
};
use corun_store::Store;
use corun_topology::effective_llc::effective_llc;
use corun_workloads::random::Random;
use tokio::runtime::Runtime;

use self::queries::{Expected, Query};
use self::report::{Measured, Side};
use self::turn::{LateBar, Target};
use super::format::Format;
use super::sources::Names;
use super::statements::{Piece, split};
use super::{SqlArgs, Tables};
use crate::scheduling::Scheduling;

/// Most clients: the queue of a coordinator has room for them.
const CLIENTS_MAX: usize = 1000;
/// Rounds where neither their number nor a time is given.
const ROUNDS: usize = 5;

/// Arguments of a run by several clients.
#[derive(Debug, Args)]
pub struct ClientsArgs {
    /// Run the queries of -f by this many clients at once, each in an order of its own, and report how fast.
    #[arg(long = "clients", value_name = "N", value_parser = clients, allow_negative_numbers = true, requires = "file", id = "clients")]
    count: Option<usize>,

    /// Which of the waiting queries is started next: fifo, sls, mls, learned, auto, or off for all at once [default: auto].
    #[arg(long, value_name = "POLICY", value_parser = Scheduling::parse, requires = "clients")]
    policy: Option<Scheduling>,

    /// Rounds, in each of which every client runs every query once [default: 5].
    #[arg(long, value_name = "R", value_parser = positive, allow_negative_numbers = true, requires = "clients")]
    rounds: Option<usize>,

    /// Begin rounds for this many seconds, instead of a number of them.
    #[arg(long, value_name = "SECONDS", value_parser = positive_number, allow_negative_numbers = true, requires = "clients", conflicts_with = "rounds")]
    seconds: Option<f64>,

    /// What the orders of the queries are drawn from.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "clients")]
    seed: u64,

    /// Run the same beside it in each round: without a coordinator, on stock DataFusion, one query after the other, and once more.
    #[arg(long, requires = "clients")]
    compare: bool,
}

fn clients(text: &str) -> Result<usize, String> {
    match positive(text)? {
        count if count > CLIENTS_MAX => Err(format!("must be at most {CLIENTS_MAX}")),
        count => Ok(count),
    }
}

impl ClientsArgs {
    /// Whether clients are asked for.
    pub fn are_there(&self) -> bool {
        self.count.is_some()
    }

    /// Whether the other arguments leave room for clients.
    ///
    /// # Errors
    /// Those that do not.
    pub fn check(&self, args: &SqlArgs, format: Format) -> Result<()> {
        let wrong = |what: &str, hint: &str| -> Result<()> { bail!(Usage(format!("{what}\nhint: {hint}"))) };
        if format == Format::Csv {
            return wrong(
                "the report of --clients is no CSV",
                "--json writes one object a line",
            );
        }
        if args.engine.stock {
            return wrong(
                "--clients cannot run with --stock",
                "--compare runs stock DataFusion beside corun",
            );
        }
        if args.workers.are_there() {
            return wrong(
                "--clients cannot run with --workers",
                "clients run in one process",
            );
        }
        Ok(())
    }
}

/// Runs the clients and prints the report.
///
/// # Errors
/// What cannot be read or set up; the first query that fails; answers that differ; an interruption, after what there is was printed.
pub fn run(
    runtime: &Runtime,
    tables: &Tables<'_>,
    engine: &Engine,
    store: Option<&Store>,
    json: bool,
) -> Result<()> {
    let args = tables.args;
    let queries = queries::read(&args.files)?;
    let measured = runtime.block_on(async {
        let mut interrupt = pin!(tokio::signal::ctrl_c());
        let options = args.engine.options();
        prepare_engine(args, engine).await?;
        let sides = sides(tables, engine, store).await?;
        let queries = first_runs(&sides, queries, engine, interrupt.as_mut()).await?;
        let mut measured = Measured::new(
            &args.clients,
            &options,
            sides.iter().map(|side| side.side),
            queries,
        );
        rounds(&args.clients, &sides, &mut measured, interrupt.as_mut()).await?;
        Ok::<_, anyhow::Error>(measured)
    })?;
    match json {
        true => report::json(&measured)?,
        false => report::text(&measured)?,
    }
    let differences = measured.differences();
    if !differences.is_empty() {
        bail!(Failed(format!(
            "clients got different answers\ndetail: {}\nhint: does ORDER BY leave ties before a LIMIT, or a function differ each time it is called?",
            differences.join("; ")
        )));
    }
    if let Some(round) = measured.interrupted {
        bail!(Failed(format!("interrupted in round {round}")));
    }
    Ok(())
}

/// A side, and what runs its queries.
struct Runner {
    side: Side,
    target: Target,
    /// Whose shared work is forgotten before each turn.
    engine: Engine,
}

/// Runs the statements of `-c`.
async fn prepare_engine(args: &SqlArgs, engine: &Engine) -> Result<()> {
    for text in &args.commands {
        let parts = split(text);
        let rest = (!parts.rest.is_empty()).then_some(Piece::Statement(parts.rest));
        for piece in parts.pieces.into_iter().chain(rest) {
            match piece {
                Piece::Statement(statement) => _ = engine.query(statement).await?,
                Piece::Command { command, .. } => {
                    bail!("with --clients, -c takes statements only, not {command}")
                }
            }
        }
    }
    Ok(())
}

async fn sides(tables: &Tables<'_>, engine: &Engine, store: Option<&Store>) -> Result<Vec<Runner>> {
    let args = &tables.args.clients;
    let policy = args.policy.unwrap_or_default();
    let at_once = Target::Engine(engine.clone());
    let subject = match policy.coordinator(&corun_topology::discover())? {
        Some(options) => coordinated(engine, options)?,
        None => at_once.clone(),
    };
    let of_engine = |side: Side, target: &Target| Runner {
        side,
        target: target.clone(),
        engine: engine.clone(),
    };
    let mut sides = vec![of_engine(Side::Subject, &subject)];
    if !args.compare {
        return Ok(sides);
    }
    sides.push(of_engine(Side::Again, &subject));
    if policy != Scheduling::Off {
        sides.push(of_engine(Side::Off, &at_once));
    }
    sides.push(of_engine(Side::OneAfterTheOther, &at_once));
    let stock = super::engine(
        &EngineOptions {
            joins: Joins::Stock,
            // Settings of corun's operators mean nothing to it.
            settings: tables
                .args
                .engine
                .settings
                .iter()
                .filter(|(key, _)| !key.starts_with("corun."))
                .cloned()
                .collect(),
            ..tables.args.engine.options()
        },
        None,
    )?;
    if let Some(store) = store {
        stock.attach_store(store)?;
    }
    tables.register(&stock, &mut Names::default()).await?;
    prepare_engine(tables.args, &stock).await?;
    sides.push(Runner {
        side: Side::Stock,
        target: Target::Engine(stock.clone()),
        engine: stock,
    });
    Ok(sides)
}

fn coordinated(engine: &Engine, options: CoordinatorOptions) -> Result<Target> {
    let coordinator =
        Coordinator::new(engine, options).map_err(|error: EngineError| Usage(error.to_string()))?;
    Ok(Target::Coordinator(coordinator))
}

/// Runs every query once on each side: classes, and the answers that all later runs must give.
async fn first_runs<I: Future>(
    sides: &[Runner],
    mut queries: Vec<Query>,
    engine: &Engine,
    mut interrupt: Pin<&mut I>,
) -> Result<Arc<Vec<Query>>> {
    let cache = DecideOptions::with_cache(effective_llc(&corun_topology::discover(), None).bytes);
    // The others run what these run.
    let sides = sides
        .iter()
        .filter(|side| matches!(side.side, Side::Subject | Side::Off | Side::Stock));
    let sides: Vec<&Runner> = sides.collect();
    let mut bar = LateBar::new(
        "first run of each query".to_owned(),
        (queries.len() * sides.len()) as u64,
    );
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    for (number, query) in queries.iter_mut().enumerate() {
        let decision = engine.decide(&query.sql, &cache).await;
        query.class = Some(decision.map_err(|error| query.failed(error))?.class);
        for side in &sides {
            let ran = {
                let mut execution = pin!(side.target.execute(number, query));
                loop {
                    tokio::select! {
                        ran = &mut execution => break ran,
                        _ = interrupt.as_mut() => bail!(Failed("interrupted before the first round".to_owned())),
                        _ = ticks.tick() => bar.look(),
                    }
                }
            };
            let (schema, output, execution) = ran.map_err(|error| query.failed(error))?;
            bar.advance();
            if let Some(difference) = execution.difference.filter(|_| !query.may_differ) {
                bail!(Failed(format!(
                    "{}: {} answers differently\ndetail: {difference}\n\
                     hint: does ORDER BY leave ties before a LIMIT, or a function differ each time it is called?",
                    query.place, side.side
                )));
            }
            if side.side == Side::Subject {
                query.expected = Some(Expected::of(&schema, &output));
            }
        }
    }
    Ok(Arc::new(queries))
}

/// Runs rounds until there were enough, or somebody interrupts.
async fn rounds<I: Future>(
    args: &ClientsArgs,
    sides: &[Runner],
    measured: &mut Measured,
    mut interrupt: Pin<&mut I>,
) -> Result<()> {
    let began = Instant::now();
    let mut round = 0;
    loop {
        let orders = orders(args, round, measured.queries.len());
        let mut places: Vec<usize> = (0..sides.len()).collect();
        Random::new(args.seed, stream(round, CLIENTS_MAX)).shuffle(&mut places);
        for place in places {
            let side = &sides[place];
            side.engine.forget_shared_work();
            let orders = match side.side {
                Side::OneAfterTheOther => vec![one_after_the_other(&orders)],
                _ => orders.clone(),
            };
            let what = format!("round {}, {}", round + 1, side.side);
            let turn = turn::run(&side.target, &measured.queries, orders, what, interrupt.as_mut()).await?;
            let is_complete = turn.is_complete;
            measured.sides[place].turns.push(turn);
            if !is_complete {
                measured.interrupted = Some(round + 1);
                return Ok(());
            }
        }
        round += 1;
        tracing::info!("round {round} has ended");
        let enough = match args.seconds {
            Some(seconds) => began.elapsed().as_secs_f64() >= seconds,
            None => round == args.rounds.unwrap_or(ROUNDS),
        };
        if enough {
            return Ok(());
        }
    }
}

/// A stream of random numbers for each client of each round.
fn stream(round: usize, client: usize) -> u64 {
    (round * (CLIENTS_MAX + 1) + client) as u64
}

/// Each client's order of the queries.
fn orders(args: &ClientsArgs, round: usize, queries: usize) -> Vec<Vec<usize>> {
    let of_client = |client| {
        let mut order: Vec<usize> = (0..queries).collect();
        Random::new(args.seed, stream(round, client)).shuffle(&mut order);
        order
    };
    (0..args.count.unwrap_or(1)).map(of_client).collect()
}

/// The same queries for a single client: the clients' first ones, then their second ones, and so on.
fn one_after_the_other(orders: &[Vec<usize>]) -> Vec<usize> {
    let longest = orders.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .flat_map(|at| orders.iter().filter_map(move |order| order.get(at).copied()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_drawn_from_the_seed() {
        let args = |seed| ClientsArgs {
            count: Some(4),
            policy: None,
            rounds: None,
            seconds: None,
            seed,
            compare: false,
        };
        let drawn = orders(&args(7), 0, 20);
        assert_eq!(drawn, orders(&args(7), 0, 20));
        assert_ne!(drawn, orders(&args(8), 0, 20));
        assert_ne!(drawn, orders(&args(7), 1, 20));
        assert_ne!(drawn[0], drawn[1]);
        let mut single = one_after_the_other(&drawn);
        assert_eq!(single[..4], [drawn[0][0], drawn[1][0], drawn[2][0], drawn[3][0]]);
        single.sort_unstable();
        assert_eq!(single, (0..20).flat_map(|query| [query; 4]).collect::<Vec<_>>());
    }
}
