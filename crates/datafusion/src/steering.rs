//! [`Steering`]: which joins of a plan must, or must not, go through their index, whatever they cost.
//!
//! The coordinator plans a query several times to compare the forms its joins can take. It says which form it wants in an
//! extension of the configuration it plans with, which [`crate::rule`] reads. The extension has no settings: people steer all
//! joins of a session with `corun.index_join`.

use crate::options::JoinChoice;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::config_err;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use std::any::Any;
use std::collections::BTreeMap;

/// A join by what it joins: its keys, type and how many columns it has. The operators that replace a join keep it, and so
/// its name, whatever became of its inputs. Two joins of one plan with one name are steered alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct JoinName(String);

impl JoinName {
    /// The name of a join, or of the one that an operator stands for.
    pub fn of(join: &HashJoinExec) -> Self {
        let keys: Vec<String> = join.on().iter().map(|(l, r)| format!("{l}={r}")).collect();
        let columns = join.schema().fields().len();
        JoinName(format!("{} {} {columns}", keys.join(" "), join.join_type()))
    }
}

impl std::fmt::Display for JoinName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The wanted form of some joins.
#[derive(Debug, Clone, Default)]
pub struct Steering {
    joins: BTreeMap<JoinName, JoinChoice>,
}

impl Steering {
    /// Every join here goes through its index where that is possible (true), or does not (false).
    pub fn new(joins: impl IntoIterator<Item = (JoinName, bool)>) -> Self {
        let choice = |indexed| if indexed { JoinChoice::On } else { JoinChoice::Off };
        Steering {
            joins: joins
                .into_iter()
                .map(|(name, indexed)| (name, choice(indexed)))
                .collect(),
        }
    }

    /// What is wanted of `join` in a plan made with `config`; `None` where nothing is.
    pub fn of(config: &ConfigOptions, join: &HashJoinExec) -> Option<JoinChoice> {
        let steering = config.extensions.get::<Steering>()?;
        steering.joins.get(&JoinName::of(join)).copied()
    }
}

impl ExtensionOptions for Steering {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _value: &str) -> Result<()> {
        config_err!("there is no setting {}.{key}", Self::PREFIX)
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

impl ConfigExtension for Steering {
    const PREFIX: &'static str = "corun_steering";
}
