//! `corun proxy learn`: which ranges of keys and which queries in parts would pay, as TOML or JSON.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use corun_pooler::ConfigFiles;
use corun_pooler::learn::{self, Learnt, Options, Proposal};
use corun_pooler::preflight::Passwords;
use corun_pooler::watch::Address;
use serde_json::{Value, json};

use corun_cli::failure::{Failed, Usage};
use corun_cli::out;

/// Propose ranges of keys and queries in parts.
#[derive(Debug, clap::Args)]
pub struct LearnArgs {
    /// The configuration file.
    #[arg(long, short, value_name = "FILE", default_value_os_t = super::default_config())]
    config: PathBuf,

    /// Log in as this user; several times for several, of which the first that gets in is taken. Otherwise those of the
    /// configuration and auth_file.
    #[arg(long, value_name = "NAME")]
    user: Vec<String>,

    /// Only this database, also one that [databases."*"] stands for; several times for several.
    #[arg(long, value_name = "NAME")]
    database: Vec<String>,

    /// Where the running pooler's console is [default: as the configuration says].
    #[arg(long, value_name = "URL")]
    dsn: Option<String>,

    /// Cores that are to share the keys [default: those of this machine].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,

    /// Longest time for connecting and for each response [default: server_connect_timeout].
    #[arg(long, value_name = "SECONDS", value_parser = super::preflight::seconds)]
    timeout: Option<Duration>,

    /// One JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Asks, and prints what is proposed.
///
/// # Errors
/// A configuration that is not right, or no database that responds.
pub fn run(args: LearnArgs) -> anyhow::Result<()> {
    let (files, findings) = ConfigFiles::load(&args.config)?;
    for finding in &findings {
        out::note(&finding.to_string());
    }
    let text = std::fs::read_to_string(&args.config)
        .with_context(|| format!("cannot read {}", args.config.display()))?;
    let console = match &args.dsn {
        Some(dsn) => Some(Address::parse(dsn, "postgres").map_err(|error| Usage(error.to_string()))?),
        None => None,
    };
    let mut options = Options {
        databases: args.database,
        users: args.user,
        workers: args.workers.map(usize::from),
        console: console.or_else(|| Address::of(&files).ok()),
        limit: args.timeout,
    };
    if let Some(console) = &mut options.console
        && console.credentials.password.is_none()
    {
        console.set_password(super::password::from_environment().as_deref());
    }
    let mut ask = super::password::of;
    let learnt = learn::run(&files, &text, &options, &mut Passwords::new(&mut ask))?;
    if args.json {
        for object in objects(&learnt) {
            out::json_line(&object)?;
        }
    } else {
        out::line(learnt.toml().trim_end())?;
    }
    if learnt.reached == 0 {
        return Err(Failed("no database responded; the remarks above say why".to_owned()).into());
    }
    Ok(())
}

/// Each proposal and remark.
fn objects(learnt: &Learnt) -> Vec<Value> {
    let proposals = learnt.proposals.iter().map(|proposal| match proposal {
        Proposal::Range(range) => json!({
            "table": "range", "name": range.name, "database": range.database, "columns": range.columns,
            "key_type": range.key_type.word(), "splits": range.splits, "replaces": range.replaces, "source": range.source,
            "keyed_part": range.keyed_part,
            "workers": range.workers.iter().map(|share| json!({
                "from": share.from, "rows": share.rows, "bytes": share.bytes, "statements_part": share.statements,
            })).collect::<Vec<Value>>(),
        }),
        Proposal::Split(split) => json!({
            "table": "split", "name": split.name, "database": split.database, "query": split.query, "key": split.key,
            "splits": split.splits, "replaces": split.replaces, "source": split.source, "calls": split.calls,
            "mean_us": split.mean_us, "time_part": split.time_part, "parts": split.parts, "expected_us": split.expected_us,
        }),
    });
    let remarks = learnt
        .remarks
        .iter()
        .map(|remark| json!({ "table": "remark", "about": remark.about, "text": remark.text }));
    let heavy_queues = learnt.heavy_queues.iter().map(|heavy_queue| {
        json!({
            "table": "heavy_queue", "database": heavy_queue.database, "source": heavy_queue.source, "heavy_queue_min_us": heavy_queue.heavy_queue_min_us,
            "time_part": heavy_queue.time_part,
            "heavy": heavy_queue.heavy.iter().map(|heavy| json!({
                "query": heavy.query, "calls": heavy.calls, "mean_us": heavy.mean_us, "time_part": heavy.time_part,
                "reads_only": heavy.reads_only,
            })).collect::<Vec<Value>>(),
        })
    });
    proposals.chain(heavy_queues).chain(remarks).collect()
}

#[cfg(test)]
mod tests {
    use corun_pooler::learn::Remark;

    use super::*;

    #[test]
    fn every_object_names_its_kind() {
        let learnt = Learnt {
            remarks: vec![Remark {
                about: "shop".to_owned(),
                text: "nothing".to_owned(),
            }],
            ..Learnt::default()
        };
        assert_eq!(
            objects(&learnt),
            [json!({ "table": "remark", "about": "shop", "text": "nothing" })]
        );
    }
}
