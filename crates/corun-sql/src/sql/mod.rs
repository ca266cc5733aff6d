//! `corun-sql sql`: SQL over files and generated data, as a shell or one-shot.
//!
//! [`run`] builds the engine, fills it ([`sources`], [`store`]) and then either runs the given text or starts the shell
//! ([`shell`]); both run statements through one [`session::Session`]. With `--clients` the text is run by several at once
//! ([`clients`]).

mod catalog;
mod cells;
mod clients;
mod commands;
mod display;
mod format;
mod session;
mod shell;
mod sources;
mod statements;
mod store;
mod widths;

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use corun_datafusion::{Engine, EngineError, EngineOptions, Joins};
use corun_distributed::Cluster;

use corun_cli::arguments::{byte_size, positive, positive_number};
use corun_cli::failure::Usage;
use corun_cli::progress::Bars;
use corun_workloads::dataset::Dataset;

use crate::cluster::WorkersArgs;
use format::Format;

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
  corun-sql sql data --clients 4 -f queries           four clients run the queries of a folder at once, and how fast
  corun-sql sql data --clients 4 -f queries --compare --seconds 60   beside the same without corun

With --store, every statement reads all tables of the store as of one moment; SQL does not write to them.
In the shell: statements end with `;` and may span lines; \\? lists the commands; Ctrl-C cancels a running
statement; Ctrl-D leaves. History is kept in $XDG_STATE_HOME/corun (or ~/.local/state/corun).
In one-shot use the first statement that fails ends the run with exit code 1.")]
pub struct SqlArgs {
    /// Parquet or CSV files, each a table named after it, or folders with a table a file (a folder of numbered parts is one table).
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

    /// Run the SQL in this file (`-`: stdin), or in the .sql files of this folder, and leave; may be repeated; after every -c.
    #[arg(short = 'f', long = "file", value_name = "FILE", id = "file")]
    files: Vec<PathBuf>,

    /// How results are written.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,

    /// Same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,

    #[command(flatten)]
    engine: EngineArgs,

    #[command(flatten)]
    workers: WorkersArgs,

    #[command(flatten)]
    clients: clients::ClientsArgs,
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
    fn options(&self) -> EngineOptions {
        let defaults = EngineOptions::default();
        EngineOptions {
            partitions: self.partitions.unwrap_or(defaults.partitions),
            batch_size: self.batch_size.unwrap_or(defaults.batch_size),
            memory_limit_bytes: self.memory_limit,
            joins: if self.stock { Joins::Stock } else { Joins::Corun },
            settings: self.settings.clone(),
            ..defaults
        }
    }
}

/// Builds an engine; what it refuses here came from the command line.
fn engine(options: &EngineOptions, cluster: Option<&Cluster>) -> Result<Engine> {
    let engine = match cluster {
        Some(cluster) => cluster.engine(options),
        None => Engine::new(options),
    };
    engine.map_err(|error: EngineError| Usage(error.to_string()).into())
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("is not of the form KEY=VALUE".to_owned()),
    }
}

/// What the tables of a command line are made of, for one engine or several.
struct Tables<'a> {
    args: &'a SqlArgs,
    /// Generated data, and by which option.
    generated: Vec<(Dataset, &'static str)>,
}

impl<'a> Tables<'a> {
    fn generate(args: &'a SqlArgs, partitions: usize) -> Result<Tables<'a>> {
        let bars = Bars::new();
        let mut generated = Vec::new();
        if let Some(scale) = args.ssb {
            generated.push((sources::ssb(scale, partitions, &bars)?, "generated by --ssb"));
        }
        if let Some(scale) = args.tpch {
            generated.push((sources::tpch(scale, partitions, &bars)?, "generated by --tpch"));
        }
        Ok(Tables { args, generated })
    }

    /// Makes them tables of an engine.
    async fn register(&self, engine: &Engine, names: &mut sources::Names) -> Result<()> {
        for path in &self.args.paths {
            for (name, path) in sources::tables_of(path)? {
                sources::register_file(engine, names, &name, &path).await?;
            }
        }
        for (name, path) in &self.args.tables {
            sources::register_file(engine, names, name, path).await?;
        }
        for (dataset, origin) in &self.generated {
            sources::register(engine, names, dataset, origin)?;
        }
        Ok(())
    }
}

/// Runs `corun-sql sql`.
///
/// # Errors
/// Tables that cannot be read, and in one-shot use the first statement that fails.
pub fn run(args: SqlArgs) -> Result<()> {
    let format = if args.json { Format::Json } else { args.format };
    if args.clients.are_there() {
        args.clients.check(&args, format)?;
    }
    let runtime = crate::runtime()?;
    let cluster = runtime.block_on(args.workers.connect())?;
    let options = args.engine.options();
    let engine = engine(&options, cluster.as_ref())?;
    let mut names = sources::Names::default();
    let store = runtime.block_on(args.store.open(&engine, &mut names))?;
    let tables = Tables::generate(&args, options.partitions)?;
    runtime.block_on(tables.register(&engine, &mut names))?;

    if args.clients.are_there() {
        let ran = clients::run(&runtime, &tables, &engine, store.as_ref(), format == Format::Json);
        // A query that was cut off may compute on until its next pause.
        runtime.shutdown_background();
        return ran;
    }
    let mut session = session::Session::new(engine, format);
    let one_shot = !args.commands.is_empty() || !args.files.is_empty();
    if !one_shot && std::io::stdin().is_terminal() {
        let left = shell::run(&runtime, session.interactive());
        // A cancelled statement may compute on until its next pause; leaving does not wait for that.
        runtime.shutdown_background();
        return left;
    }
    runtime.block_on(async {
        for text in &args.commands {
            if session.run_text(text).await? == session::Next::Leave {
                return Ok(());
            }
        }
        for file in scripts(&args.files)? {
            session.run_text(&read_script(&file)?).await?;
        }
        if !one_shot {
            session.run_text(&read_script(Path::new("-"))?).await?;
        }
        Ok(())
    })
}

/// The files that `-f` names: of a folder its files that end in `.sql`, by name.
///
/// # Errors
/// A folder that cannot be read, or has none.
fn scripts(files: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut scripts = Vec::new();
    for file in files {
        if !file.is_dir() {
            scripts.push(file.clone());
            continue;
        }
        let mut found = sources::entries(file)?;
        found.retain(|path| path.extension().is_some_and(|ending| ending == "sql") && path.is_file());
        if found.is_empty() {
            bail!("the folder {} has no files that end in .sql", file.display());
        }
        found.sort_by_key(|path| by_number(path));
        scripts.extend(found);
    }
    Ok(scripts)
}

/// So that `q10.sql` comes after `q9.sql`.
fn by_number(path: &Path) -> (String, u64, String) {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let begin = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let digits = name[begin..]
        .find(|c: char| !c.is_ascii_digit())
        .map_or(name.len(), |at| begin + at);
    let number = name[begin..digits].parse().unwrap_or(u64::MAX);
    (name[..begin].to_owned(), number, name)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut files = ["q10.sql", "q2.sql", "a.sql", "q2b.sql", "q1.sql"].map(PathBuf::from);
        files.sort_by_key(|path| by_number(path));
        assert_eq!(
            files,
            ["a.sql", "q1.sql", "q2.sql", "q2b.sql", "q10.sql"].map(PathBuf::from)
        );
    }
}
