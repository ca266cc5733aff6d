//! `corun-sql sql`: SQL over files and generated data, as a shell or one-shot.
//!
//! [`run`] builds the engine, fills it ([`sources`], [`store`]) and then either runs the given text or starts the shell
//! ([`shell`]); both run statements through one [`session::Session`].

mod cells;
mod format;
mod session;
mod shell;
mod sources;
mod statements;
mod store;

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use corun_datafusion::{Engine, EngineError, EngineOptions, Joins};
use corun_distributed::Cluster;

use corun_cli::arguments::{byte_size, positive, positive_number};
use corun_cli::failure::Usage;
use corun_cli::progress::Bars;

use crate::cluster::WorkersArgs;

/// Arguments of `corun-sql sql`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun-sql sql --ssb 1                               shell over generated Star Schema Benchmark data
  corun-sql sql lineitem.parquet orders.parquet       shell over files; tables are named after them
  corun-sql sql --table o=orders/ -c 'select count(*) from o'
  corun-sql sql --tpch 0.1 -f queries.sql --format csv > answers.csv
  corun-sql sql --ssb 1 -c 'explain select sum(lo_revenue) from lineorder, part where lo_partkey = p_partkey'
  corun-sql sql --ssb 1 --stock --set datafusion.execution.collect_statistics=false
  echo 'select 1 as one;' | corun-sql sql --json
  corun-sql sql --store shop --load orders=orders.parquet --primary-key o_orderkey
  corun-sql sql --workers db1:7600,db2:7600 /data/lineitem.parquet -c 'select count(*) from lineitem'
  corun-sql sql --store shop lineitem.parquet -c 'select sum(l_tax) from lineitem join orders on l_orderkey = o_orderkey'

With --store, every statement reads all tables of the store as of one moment; SQL does not write to them.
In the shell: statements end with `;` and may span lines; \\? lists the commands; Ctrl-C cancels a running
statement; Ctrl-D leaves. History is kept in $XDG_STATE_HOME/corun (or ~/.local/state/corun).
In one-shot use the first statement that fails ends the run with exit code 1.")]
pub struct SqlArgs {
    /// Parquet or CSV files, or folders of either; each becomes a table named after the file.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// A table from a Parquet or CSV file or a folder of either.
    #[arg(long = "table", value_name = "NAME=PATH", value_parser = sources::named_path)]
    tables: Vec<(String, PathBuf)>,

    /// Generate the Star Schema Benchmark at this scale factor (1 is 6 million fact rows).
    #[arg(long, value_name = "SCALE", value_parser = positive_number, allow_negative_numbers = true)]
    ssb: Option<f64>,

    /// Generate TPC-H at this scale factor (1 is 6 million line items).
    #[arg(long, value_name = "SCALE", value_parser = positive_number, allow_negative_numbers = true)]
    tpch: Option<f64>,

    #[command(flatten)]
    store: store::StoreArgs,

    /// Run this SQL and leave; may be repeated.
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    commands: Vec<String>,

    /// Run the SQL in this file (`-`: stdin) and leave; may be repeated; after every -c.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// How results are written.
    #[arg(long, value_enum, default_value = "table")]
    format: format::Format,

    /// Same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,

    #[command(flatten)]
    engine: EngineArgs,

    #[command(flatten)]
    workers: WorkersArgs,
}

/// Arguments that set an engine up.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// Partitions of a plan: how many threads one query can use [default: all cores].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    partitions: Option<usize>,

    /// Rows of a batch [default: 8192].
    #[arg(long, value_name = "ROWS", value_parser = positive, allow_negative_numbers = true)]
    batch_size: Option<usize>,

    /// Memory all queries may hold together, such as 2GiB [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = byte_size, allow_negative_numbers = true)]
    memory_limit: Option<usize>,

    /// A setting of the engine, as `SET` takes it; `select name, value from information_schema.df_settings` lists them.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    settings: Vec<(String, String)>,

    /// Plan the engine's stock joins instead of corun's.
    #[arg(long)]
    stock: bool,
}

impl EngineArgs {
    /// Builds the engine; what it refuses here came from the command line.
    fn engine(&self, cluster: Option<&Cluster>) -> Result<Engine> {
        let defaults = EngineOptions::default();
        let options = EngineOptions {
            partitions: self.partitions.unwrap_or(defaults.partitions),
            batch_size: self.batch_size.unwrap_or(defaults.batch_size),
            memory_limit_bytes: self.memory_limit,
            joins: if self.stock { Joins::Stock } else { Joins::Corun },
            settings: self.settings.clone(),
            ..defaults
        };
        let engine = match cluster {
            Some(cluster) => cluster.engine(&options),
            None => Engine::new(&options),
        };
        engine.map_err(|error: EngineError| Usage(error.to_string()).into())
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("is not of the form KEY=VALUE".to_owned()),
    }
}

/// Runs `corun-sql sql`.
///
/// # Errors
/// Tables that cannot be read, and in one-shot use the first statement that fails.
pub fn run(args: SqlArgs) -> Result<()> {
    let runtime = crate::runtime()?;
    let cluster = runtime.block_on(args.workers.connect())?;
    let engine = args.engine.engine(cluster.as_ref())?;
    let mut names = sources::Names::default();
    runtime.block_on(args.store.open(&engine, &mut names))?;
    runtime.block_on(async {
        for path in &args.paths {
            sources::register_file(&engine, &mut names, &sources::name_of(path), path).await?;
        }
        for (name, path) in &args.tables {
            sources::register_file(&engine, &mut names, name, path).await?;
        }
        Ok::<(), anyhow::Error>(())
    })?;
    let partitions = args
        .engine
        .partitions
        .unwrap_or(EngineOptions::default().partitions);
    let bars = Bars::new();
    if let Some(scale) = args.ssb {
        sources::register_ssb(&engine, &mut names, scale, partitions, &bars)?;
    }
    if let Some(scale) = args.tpch {
        sources::register_tpch(&engine, &mut names, scale, partitions, &bars)?;
    }
    drop(bars);

    let format = if args.json {
        format::Format::Json
    } else {
        args.format
    };
    let mut session = session::Session::new(engine, format);
    let one_shot = !args.commands.is_empty() || !args.files.is_empty();
    if !one_shot && std::io::stdin().is_terminal() {
        let left = shell::run(&runtime, session);
        // A cancelled statement may compute on until its next pause; leaving does not wait for that.
        runtime.shutdown_background();
        return left;
    }
    runtime.block_on(async {
        for text in &args.commands {
            session.run_text(text).await?;
        }
        for file in &args.files {
            session.run_text(&read_script(file)?).await?;
        }
        if !one_shot {
            session.run_text(&read_script(Path::new("-"))?).await?;
        }
        Ok(())
    })
}

/// The text of a script; `-` is stdin.
fn read_script(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read SQL from stdin")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}
