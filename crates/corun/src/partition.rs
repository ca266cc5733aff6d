//! `corun partition`: the shared cache divided between classes of queries through the kernel's resctrl.
//!
//! Everything is done by the machine crate's client; here are only the arguments, what a machine without resctrl is told,
//! and the two ways of printing: [`json`] for scripts, [`text`] for people.

mod json;
mod text;

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use corun_model::cache::partition::{Class, DefaultShare, Plan, Wishes, default_weak_ways};
use corun_model::units::Ways;
use corun_resctrl::{Assigned, Cleared, Client, ResctrlError, Settings, Status, Step, SystemFiles, Who};

use corun_cli::failure::Failed;
use corun_cli::out;

/// What queries rely on where the cache cannot be partitioned.
const INSTEAD: &str = "non-temporal streaming and co-scheduling";

/// Divide the shared cache between classes of queries: plan, apply, status, clear (needs resctrl).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  corun partition plan                          what would be written, and why; changes nothing
  corun partition apply --weak-ways 2           as root: weak queries fill two ways, the others the rest
  corun partition status                        classes, masks, tasks, and what somebody else changed
  corun partition assign --class weak --pid 42  move a process's threads into the class of weak queries
  corun partition clear                         take everything back, whatever was interrupted

Queries with weak locality (scans, index joins, tables far larger than the cache) gain nothing from the shared cache and
flush it for the others. Exit codes: 0 also where `plan` and `status` find no resctrl, which they say; 1 where `apply` or
`assign` cannot do what was asked; 2 wrong usage.")]
pub struct PartitionArgs {
    /// What to do.
    #[command(subcommand)]
    command: PartitionCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PartitionCommand {
    /// Show what `apply` would write, and why; change nothing.
    #[command(after_help = "\
Examples:
  corun partition plan
  corun partition plan --weak-ways 2 --default all
  corun partition plan --json | jq -r 'select(.kind == \"step\").command'")]
    Plan {
        #[command(flatten)]
        wishes: WishArgs,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Make the classes, and check by reading back; taken back whole if any step fails.
    #[command(after_help = "\
Examples:
  corun partition apply
  corun partition apply --weak-ways 2 --domains 0,1 --weak-bandwidth 50

Over an older partition the masks are changed in place, and tasks stay in their classes. Nothing outlives a restart of the
machine.")]
    Apply {
        #[command(flatten)]
        wishes: WishArgs,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Show classes, masks and tasks as the kernel has them, and where they differ from what was applied.
    #[command(after_help = "\
Examples:
  corun partition status
  corun partition status --json | jq 'select(.kind == \"class\")'")]
    Status {
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Remove the classes; their tasks go back to the root group. Also after a crash.
    #[command(after_help = "\
Examples:
  corun partition clear")]
    Clear {
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Move running threads into a class, such as those of a database server beside corun.
    #[command(after_help = "\
Examples:
  corun partition assign --class weak --pid 4242
  corun partition assign --class default --tree 4242   the processes it started too

Threads of other tools' groups stay there. What is started later inherits the class of whoever starts it.")]
    Assign {
        /// The class.
        #[arg(long, value_enum)]
        class: ClassName,
        #[command(flatten)]
        who: WhoArgs,
        #[command(flatten)]
        place: PlaceArgs,
    },
}

#[derive(Debug, clap::Args)]
struct WishArgs {
    /// Ways of the cache that weak queries may fill [default: an eighth of them, at least two].
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::new().range(1..=32))]
    weak_ways: Option<u32>,

    /// What the other queries may fill: the rest of the ways, or all of them (paper 002 does this with page colours).
    #[arg(long = "default", value_name = "SHARE", value_enum, default_value = "rest")]
    share: ShareName,

    /// Which cache to partition [default: the outermost that can be].
    #[arg(long, value_parser = RangedU64ValueParser::<u8>::new().range(2..=3))]
    level: Option<u8>,

    /// Partition only the caches with these ids, such as 0,2-3 [default: all].
    #[arg(long, value_name = "LIST", value_parser = domains)]
    domains: Option<Domains>,

    /// Memory bandwidth of weak queries, in percent [default: no limit].
    #[arg(long, value_name = "PERCENT", value_parser = RangedU64ValueParser::<u32>::new().range(1..=100))]
    weak_bandwidth: Option<u32>,
}

/// Ids of caches. A type of its own, because clap reads `Vec` as an option that may be repeated.
#[derive(Clone, Debug)]
struct Domains(Vec<u32>);

#[derive(Debug, clap::Args)]
struct PlaceArgs {
    /// One JSON object per line.
    #[arg(long)]
    json: bool,

    /// Where resctrl is mounted.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/sys/fs/resctrl",
        help_heading = "Unusual mounts, and tests"
    )]
    root: PathBuf,

    /// Where processes are shown.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/proc",
        help_heading = "Unusual mounts, and tests"
    )]
    proc: PathBuf,

    /// Where to keep what `clear` has to know; a place that a restart of the machine empties.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/run/corun/partition.json",
        help_heading = "Unusual mounts, and tests"
    )]
    journal: PathBuf,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct WhoArgs {
    /// One thread.
    #[arg(long, value_name = "ID")]
    tid: Option<u32>,

    /// All threads of a process.
    #[arg(long, value_name = "ID")]
    pid: Option<u32>,

    /// All threads of a process and of all processes it started.
    #[arg(long, value_name = "ID")]
    tree: Option<u32>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ShareName {
    Rest,
    All,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ClassName {
    Weak,
    Default,
}

fn domains(text: &str) -> Result<Domains, String> {
    let ids =
        corun_model::cpulist::parse(text).map_err(|_| "is not a list of ids such as 0,2-3".to_owned())?;
    match ids.as_slice() {
        [] => Err("names no cache".to_owned()),
        ids => Ok(Domains(ids.iter().map(|id| id.0).collect())),
    }
}

/// What a command found or did, for both ways of printing.
enum Outcome<'a> {
    Planned { plan: &'a Plan, steps: &'a [Step] },
    Applied { plan: &'a Plan, status: &'a Status },
    Status(&'a Status),
    Cleared(&'a Cleared),
    Assigned { class: Class, assigned: &'a Assigned },
    Unavailable(&'a ResctrlError),
}

/// Runs the command.
///
/// # Errors
/// When what was asked for cannot be done, or stdout is closed.
pub fn run(args: PartitionArgs) -> anyhow::Result<()> {
    match args.command {
        PartitionCommand::Plan { wishes, place } => {
            let client = place.client();
            let planned = wishes
                .plan(&client)
                .and_then(|plan| Ok((client.steps(&plan)?, plan)));
            match planned {
                Ok((steps, plan)) => place.print(
                    "plan",
                    &Outcome::Planned {
                        plan: &plan,
                        steps: &steps,
                    },
                ),
                Err(error) if is_absent(&error) => place.print("plan", &Outcome::Unavailable(&error)),
                Err(error) => Err(failed(&error)),
            }
        }
        PartitionCommand::Apply { wishes, place } => {
            let client = place.client();
            let applied = wishes.plan(&client).and_then(|plan| {
                client.apply(&plan)?;
                Ok((client.status()?, plan))
            });
            let (status, plan) = applied.map_err(|error| failed(&error))?;
            place.print(
                "apply",
                &Outcome::Applied {
                    plan: &plan,
                    status: &status,
                },
            )
        }
        PartitionCommand::Status { place } => match place.client().status() {
            Ok(status) => place.print("status", &Outcome::Status(&status)),
            Err(error) if is_absent(&error) => place.print("status", &Outcome::Unavailable(&error)),
            Err(error) => Err(failed(&error)),
        },
        PartitionCommand::Clear { place } => match place.client().clear() {
            Ok(cleared) => place.print("clear", &Outcome::Cleared(&cleared)),
            // Without resctrl there are no groups, so what was asked for holds.
            Err(error) if is_absent(&error) => place.print("clear", &Outcome::Unavailable(&error)),
            Err(error) => Err(failed(&error)),
        },
        PartitionCommand::Assign { class, who, place } => {
            let class = match class {
                ClassName::Weak => Class::Weak,
                ClassName::Default => Class::Default,
            };
            let assigned = place.client().assign(class, who.who());
            let assigned = assigned.map_err(|error| failed(&error))?;
            place.print(
                "assign",
                &Outcome::Assigned {
                    class,
                    assigned: &assigned,
                },
            )
        }
    }
}

impl WishArgs {
    fn plan(&self, client: &Client<SystemFiles>) -> Result<Plan, ResctrlError> {
        let capabilities = client.capabilities()?;
        let ways = self.weak_ways.map(Ways);
        let wishes = Wishes {
            weak_ways: ways.unwrap_or_else(|| default_weak_ways(&capabilities, self.level)),
            default: match self.share {
                ShareName::Rest => DefaultShare::Rest,
                ShareName::All => DefaultShare::All,
            },
            level: self.level,
            domains: self.domains.clone().map(|domains| domains.0),
            weak_bandwidth_percent: self.weak_bandwidth,
        };
        Ok(corun_model::cache::partition::plan(&capabilities, &wishes)?)
    }
}

impl PlaceArgs {
    fn client(&self) -> Client<SystemFiles> {
        let settings = Settings {
            root: self.root.clone(),
            proc: self.proc.clone(),
            journal: self.journal.clone(),
            ..Settings::default()
        };
        Client::new(SystemFiles, settings)
    }

    fn print(&self, command: &str, outcome: &Outcome<'_>) -> anyhow::Result<()> {
        if self.json {
            for row in json::rows(command, outcome) {
                out::json_line(&row)?;
            }
        } else {
            out::line(&text::report(outcome))?;
        }
        Ok(())
    }
}

impl WhoArgs {
    fn who(&self) -> Who {
        match (self.tid, self.pid, self.tree) {
            (Some(task), ..) => Who::Thread(task),
            (_, Some(process), _) => Who::Process(process),
            // clap lets exactly one through.
            (_, _, tree) => Who::Tree(tree.unwrap_or_default()),
        }
    }
}

/// Whether an error only says that there is nothing to partition with.
fn is_absent(error: &ResctrlError) -> bool {
    matches!(
        error,
        ResctrlError::Unavailable { .. } | ResctrlError::NotMounted { .. }
    )
}

/// Why there is no resctrl, in one sentence.
fn absence(error: &ResctrlError) -> String {
    match error.detail() {
        Some(detail) if matches!(error, ResctrlError::Unavailable { .. }) => format!("no resctrl: {detail}"),
        Some(detail) => format!("no resctrl: {error}; {detail}"),
        None => format!("no resctrl: {error}"),
    }
}

fn failed(error: &ResctrlError) -> anyhow::Error {
    let (detail, hint) = match error {
        ResctrlError::Unavailable { .. } => (
            Some(absence(error)),
            Some(format!(
                "instead: {INSTEAD}, which need no partition and no rights"
            )),
        ),
        _ => (error.detail(), error.hint()),
    };
    let mut text = error.to_string();
    for (name, part) in [("detail", detail), ("hint", hint)] {
        if let Some(part) = part {
            text.push_str(&format!("\n{name}: {part}"));
        }
    }
    Failed(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_domains() {
        assert_eq!(domains("0,2-3").map(|domains| domains.0), Ok(vec![0, 2, 3]));
        for wrong in ["", "x", "3-1", "-1"] {
            assert!(domains(wrong).is_err(), "{wrong}");
        }
    }
}
