//! With and without simultaneous multithreading: [`Setting`]s to sweep under, and the rows that compare them (Figs. 3a and 8).
//!
//! Order of calls: [`state`], [`Setting::all`], and around each sweep [`Setting::hold`] and [`Held::restore`]; [`ratios`] at the end. What was
//! switched is restored when a [`Held`] is dropped, and by a watching process if this one is killed ([`corun_machine::smt`]).

use std::path::Path;
use std::str::FromStr;

use corun_machine::smt::{Smt, SmtError, State, Switched, has_siblings, one_of_each_core};
use corun_model::topology::Topology;

use super::SUITE;
use super::bound::Bound;
use super::rows::SPEEDUP;
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::stats::{Spread, pair_ratios};

/// Where the kernel's control files are.
const CONTROL: &str = "/sys/devices/system/cpu/smt";

/// What is done about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The machine is looked at as it is.
    #[default]
    AsIs,
    /// It is switched off and on through the kernel's control file.
    Both,
    /// The server may use one hardware thread a core, and then all.
    Affinity,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        match text {
            "as-is" => Ok(Choice::AsIs),
            "both" => Ok(Choice::Both),
            "affinity" => Ok(Choice::Affinity),
            other => Err(format!(
                "SMT cannot be looked at '{other}'; there are as-is, both and affinity"
            )),
        }
    }
}

/// How a sweep is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    choice: Choice,
    /// `on`, `off` or `none`.
    name: &'static str,
}

/// What is held while a sweep runs.
#[derive(Default)]
pub struct Held {
    control: Option<Switched>,
    affinity: Option<Bound>,
}

/// `on`, `off`, or `none` where no core has a second hardware thread.
pub fn state(topology: &Topology) -> &'static str {
    if has_siblings(topology) {
        return "on";
    }
    match control().state() {
        Ok(State::Off | State::ForceOff) => "off",
        _ => "none",
    }
}

/// That the shared cache can be divided.
///
/// # Errors
/// Why it cannot.
pub fn resctrl(topology: &Topology) -> Result<(), String> {
    match topology.resctrl.missing.as_slice() {
        [] => Ok(()),
        missing => Err(missing.join("; ")),
    }
}

fn control() -> Smt {
    Smt::at(Path::new(CONTROL))
}

fn refused(error: &SmtError) -> BenchError {
    BenchError::Machine(match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    })
}

impl Setting {
    /// The settings to sweep under. Where there are no siblings there is one, whatever was chosen.
    pub fn all(choice: Choice, state: &'static str) -> Vec<Setting> {
        let of = |name| Setting { choice, name };
        match (choice, state) {
            (Choice::Both | Choice::Affinity, "on" | "off") => vec![of("off"), of("on")],
            _ => vec![Setting {
                choice: Choice::AsIs,
                name: state,
            }],
        }
    }

    /// The word in rows.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Makes it so, until what is returned is dropped.
    pub fn hold(self, topology: &Topology, postmaster: Option<u32>) -> Result<Held, BenchError> {
        match self.choice {
            Choice::AsIs => Ok(Held::default()),
            Choice::Both => {
                let switched = control()
                    .switch(self.name == "on")
                    .map_err(|error| refused(&error))?;
                Ok(Held {
                    control: Some(switched),
                    affinity: None,
                })
            }
            Choice::Affinity => {
                let postmaster = postmaster.ok_or_else(|| {
                    BenchError::BadArgument(
                        "--smt affinity binds the server's processes, which are not on this machine"
                            .to_owned(),
                    )
                })?;
                let affinity = match self.name {
                    "off" => Some(Bound::to(postmaster, &one_of_each_core(topology))?),
                    _ => None,
                };
                Ok(Held {
                    control: None,
                    affinity,
                })
            }
        }
    }
}

impl Held {
    /// Takes it back.
    pub fn restore(self) -> Result<(), BenchError> {
        if let Some(affinity) = self.affinity {
            affinity.let_go()?;
        }
        match self.control {
            Some(control) => control.restore().map_err(|error| refused(&error)),
            None => Ok(()),
        }
    }
}

/// The rates of the sweeps by setting, each by concurrency: rows of the rate with SMT over that without.
pub fn ratios(rates: &[(&'static str, Vec<Vec<f64>>)], concurrency: &[usize]) -> Vec<Row> {
    let of = |wanted: &str| {
        rates
            .iter()
            .find(|(name, _)| *name == wanted)
            .map(|(_, rates)| rates)
    };
    let (Some(on), Some(off)) = (of("on"), of("off")) else {
        return Vec::new();
    };
    let levels = on.iter().zip(off).zip(concurrency);
    let row = |((on, off), clients): ((&Vec<f64>, &Vec<f64>), &usize)| {
        let spread = Spread::of(&pair_ratios(off, on))?;
        let row = Row::measured(SUITE, SPEEDUP, "ratio", "x", spread, true);
        let row = row.versus("smt_off").with("smt", "on").with("how", "clock");
        Some(row.with("concurrency", *clients))
    };
    levels.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_without_siblings_are_looked_at_as_they_are() {
        for choice in [Choice::AsIs, Choice::Both, Choice::Affinity] {
            let all = Setting::all(choice, "none");
            assert_eq!(all.len(), 1);
            assert_eq!((all[0].name(), all[0].choice), ("none", Choice::AsIs));
        }
        let both: Vec<&str> = Setting::all(Choice::Both, "on")
            .into_iter()
            .map(Setting::name)
            .collect();
        assert_eq!(both, ["off", "on"]);
        assert!("sometimes".parse::<Choice>().is_err());
    }

    #[test]
    fn a_ratio_above_one_means_that_smt_pays() {
        let rates = [
            ("off", vec![vec![100.0, 110.0]]),
            ("on", vec![vec![120.0, 121.0]]),
        ];
        let rows = ratios(&rates, &[4]);
        assert_eq!(rows.len(), 1);
        assert!((rows[0].median().expect("a number") - 1.15).abs() < 1e-9);
        assert!(ratios(&rates[..1], &[4]).is_empty());
    }
}
