//! `corun-lab bench list`: the suites, or the cases of one; and what is said before a long run.

use anyhow::Result;
use clap::Args;
use corun_cli::out;
use lab_core::BenchError;
use lab_core::suite::{Suite, SuiteArgs};

/// Arguments of `corun-lab bench list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun-lab bench list
  corun-lab bench list join
  corun-lab bench join --full --list     the cases of a run with other arguments")]
pub struct ListArgs {
    /// A suite, whose cases are printed.
    #[arg(value_name = "SUITE")]
    suite: Option<String>,

    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Runs `corun-lab bench list`.
///
/// # Errors
/// No such suite, or a closed pipe.
pub fn run(args: &ListArgs) -> Result<()> {
    if let Some(suite) = &args.suite {
        let suite: Suite = suite.parse()?;
        return print(cases(suite)?.iter().map(String::as_str), args.json);
    }
    let mut lines = Vec::new();
    for suite in Suite::ALL {
        let cases = cases(suite)?.len();
        let minutes = suite.minutes();
        if args.json {
            out::json_line(
                &serde_json::json!({ "suite": suite.name(), "cases": cases, "minutes": minutes, "paper": suite.paper() }),
            )?;
        }
        let time = match minutes {
            minutes if minutes >= 90 => format!("{:.1} h", f64::from(minutes) / 60.0),
            minutes => format!("{minutes} min"),
        };
        let paper = suite.paper().unwrap_or("-");
        lines.push(
            [suite.name(), paper, &cases.to_string(), &time]
                .map(str::to_owned)
                .to_vec(),
        );
    }
    if !args.json {
        out::table(
            &mut out::stdout(),
            &["suite", "paper", "cases", "about"],
            2,
            &lines,
        )?;
        out::note("Times are of all cases of the plain command on a virtual machine with two cores.");
    }
    Ok(())
}

/// Prints names, one a line.
///
/// # Errors
/// A closed pipe.
pub fn print<'n>(names: impl Iterator<Item = &'n str>, json: bool) -> Result<()> {
    for name in names {
        match json {
            true => out::json_line(&serde_json::json!({ "case": name }))?,
            false => out::line(name)?,
        }
    }
    Ok(())
}

/// Says how long so many cases of a suite will take, if that is long; `all` are those of the plain command.
pub fn announce(suite: Suite, cases: usize, all: usize) {
    let minutes = f64::from(suite.minutes()) * cases as f64 / all.max(1) as f64;
    if minutes >= 2.0 {
        out::note(&format!(
            "{cases} cases of {}: about {minutes:.0} min on a virtual machine with two cores, if they are like the others",
            suite.name()
        ));
    }
}

/// The cases of the plain command; none of a suite that is not in this program.
fn cases(suite: Suite) -> Result<Vec<String>, BenchError> {
    match suite {
        #[cfg(feature = "cpu")]
        Suite::Floor => super::FloorArgs::default().cases(),
        #[cfg(feature = "cpu")]
        Suite::MemoryLatency => super::MemoryLatencyArgs::default().cases(),
        #[cfg(feature = "cpu")]
        Suite::InstructionCache => super::InstructionCacheArgs::default().cases(),
        #[cfg(feature = "engine")]
        Suite::Join => super::JoinArgs::default().cases(),
        #[cfg(feature = "engine")]
        Suite::Aggregate => super::AggregateArgs::default().cases(),
        #[cfg(feature = "engine")]
        Suite::Ssb => super::SsbArgs::default().cases(),
        #[cfg(feature = "engine")]
        Suite::Tpch => super::TpchArgs::default().cases(),
        #[cfg(feature = "engine")]
        Suite::Tpcds => super::TpcdsArgs::default().cases(),
        #[cfg(feature = "engine")]
        Suite::H2o => super::H2oArgs::default().cases(),
        #[cfg(feature = "engine")]
        Suite::Llc => super::LlcArgs::default().cases(),
        #[cfg(feature = "engine")]
        Suite::Oltp => super::OltpArgs::default().cases(),
        #[cfg(feature = "postgres")]
        Suite::Proxy => super::ProxyArgs::default().cases(),
        #[cfg(feature = "postgres")]
        Suite::KeyRanges => super::KeyRangesArgs::default().cases(),
        #[cfg(feature = "postgres")]
        Suite::HeavyQueue => super::HeavyQueueArgs::default().cases(),
        #[cfg(feature = "postgres")]
        Suite::Serve => super::ServeArgs::default().cases(),
        #[cfg(not(all(feature = "cpu", feature = "engine", feature = "postgres")))]
        _ => Ok(Vec::new()),
    }
}
