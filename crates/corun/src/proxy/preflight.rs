//! `corun proxy preflight`: what servers and accounts allow, line by line.

use std::path::PathBuf;
use std::time::Duration;

use corun_pooler::ConfigFiles;
use corun_pooler::preflight::{self, Level, Line, Options, Passwords};
use serde_json::json;

use corun_cli::failure::Failed;
use corun_cli::out;

/// See what the servers and accounts of a configuration allow.
#[derive(Debug, clap::Args)]
pub struct PreflightArgs {
    /// The configuration file.
    #[arg(long, short, value_name = "FILE", default_value_os_t = super::default_config())]
    config: PathBuf,

    /// Only this user's account; several times for several. Otherwise all the configuration and auth_file name.
    #[arg(long, value_name = "NAME")]
    user: Vec<String>,

    /// Only this database, also one that [databases."*"] stands for; several times for several.
    #[arg(long, value_name = "NAME")]
    database: Vec<String>,

    /// Longest time for connecting and for each response [default: server_connect_timeout].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// One JSON object per line.
    #[arg(long)]
    json: bool,
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = corun_cli::arguments::positive_number(text)?;
    Duration::try_from_secs_f64(seconds.min(3600.0)).map_err(|error| error.to_string())
}

/// Looks, and prints each line as soon as it is known.
///
/// # Errors
/// A configuration that is not right, or something that failed.
pub fn run(args: PreflightArgs) -> anyhow::Result<()> {
    let (files, findings) = ConfigFiles::load(&args.config)?;
    for finding in &findings {
        out::note(&finding.to_string());
    }
    let options = Options {
        users: args.user,
        databases: args.database,
        limit: args.timeout,
    };
    let mut counts = [0_usize; 3];
    let mut closed = Ok(());
    let mut ask = super::password::of;
    let worst = preflight::run(&files, &options, &mut Passwords::new(&mut ask), &mut |line| {
        counts[line.level as usize] += 1;
        if closed.is_ok() {
            closed = print(&line, args.json);
        }
    });
    closed?;
    let [ok, warn, fail] = counts;
    if worst == Level::Fail {
        return Err(Failed(format!("{fail} failed, {warn} warned, {ok} are fine")).into());
    }
    if !args.json {
        out::line(&format!("nothing failed, {warn} warned, {ok} are fine"))?;
    }
    Ok(())
}

fn print(line: &Line, json: bool) -> std::io::Result<()> {
    if json {
        return out::json_line(&json!({
            "level": line.level.word(), "check": line.check, "about": line.about, "text": line.text, "hint": line.hint,
        }));
    }
    out::line(&text(line))
}

/// A line for people; the hint below it.
fn text(line: &Line) -> String {
    let (level, check) = (line.level.word(), line.check);
    let mut text = format!("{level:<4}  {check:<11}  {}: {}", line.about, line.text);
    if let Some(hint) = &line.hint {
        text.push_str(&format!("\n      hint: {hint}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_people() {
        let line = Line {
            level: Level::Warn,
            check: "tls",
            about: "db1:5432".to_owned(),
            text: "none".to_owned(),
            hint: Some("Set ssl = on.".to_owned()),
        };
        assert_eq!(
            text(&line),
            "warn  tls          db1:5432: none\n      hint: Set ssl = on."
        );
    }
}
