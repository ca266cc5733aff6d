//! [`Splits`]: the queries that may run in parts, and what one event loop knows of them.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use corun_model::pooler::split::{Core, History, HistorySettings};
use lru::LruCache;

use super::job::Job;
use crate::config::{AutoCount, Config};
use crate::core::classify::classifier::Classifier;
use crate::keys::Column;
use crate::split::Confirmed;
use crate::understand::Shape;

/// Texts of which it is known how they are split, or why not. Unmeasured.
const KNOWN_MAX: usize = 512;

/// All of them.
pub(in crate::core) struct Splits {
    pub rules: Vec<Rule>,
    /// By text, and by what it means.
    pub known: LruCache<Vec<u8>, Known>,
    /// Those that run in parts now, by number.
    pub jobs: HashMap<u64, Job>,
    /// The hardware threads for parts.
    pub cores: Vec<Core>,
}

/// One of `[splits.NAME]`.
pub(in crate::core) struct Rule {
    // From the configuration.
    pub name: String,
    pub database: String,
    pub shape: Shape,
    pub key: Column,
    cuts: Cuts,
    pub parts: Option<usize>,
    // Learnt.
    pub history: History,
    /// Times it ran in parts, and whole.
    pub split: u64,
    pub whole: u64,
    /// Why it ran whole, lately.
    pub why: String,
}

/// Where the key is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cuts {
    /// Values with about equal work between them.
    Values(Vec<String>),
    /// Evenly.
    Even(i64, i64),
}

/// What is known of a text.
#[derive(Clone)]
pub(in crate::core) struct Known {
    /// It holds while this does.
    pub stamp: u64,
    pub how: Result<Arc<How>, String>,
}

/// How a text is split.
pub(in crate::core) struct How {
    pub confirmed: Confirmed,
    /// Column types of the parts.
    pub part_types: Vec<u32>,
    /// RowDescription of the original, its body.
    pub description: Vec<u8>,
    /// Types of its parameters, as in a Parse.
    pub types: Vec<u8>,
}

impl Default for Splits {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            known: LruCache::new(NonZeroUsize::new(KNOWN_MAX).unwrap_or(NonZeroUsize::MIN)),
            jobs: HashMap::new(),
            cores: Vec::new(),
        }
    }
}

impl Splits {
    /// What the configuration says; what was learnt of a rule that stays stays with it, and so do jobs.
    pub fn of(config: &Config, classifier: &mut Classifier, mut old: Splits) -> Splits {
        let mut rules = Vec::new();
        for (name, split) in &config.splits {
            // The check of the configuration has refused what has no key or nothing to cut by.
            let Some(key) = Column::parse(&split.key) else {
                continue;
            };
            let cuts = match (split.minimum, split.maximum) {
                (Some(minimum), Some(maximum)) if split.splits.is_empty() => Cuts::Even(minimum, maximum),
                _ => Cuts::Values(split.splits.iter().map(|value| value.0.clone()).collect()),
            };
            let mut rule = Rule {
                name: name.clone(),
                database: split.database.clone(),
                shape: classifier.understanding.of(split.query.as_bytes()).shape,
                key,
                cuts,
                parts: match split.parts {
                    AutoCount::Auto => None,
                    AutoCount::Count(count) => Some(count as usize),
                },
                history: History::new(HistorySettings::default()),
                split: 0,
                whole: 0,
                why: String::new(),
            };
            if let Some(same) = old.rules.iter_mut().find(|old| {
                (&old.name, old.shape, &old.key, &old.cuts) == (&rule.name, rule.shape, &rule.key, &rule.cuts)
            }) {
                std::mem::swap(&mut rule.history, &mut same.history);
                (rule.split, rule.whole) = (same.split, same.whole);
            }
            rules.push(rule);
        }
        let mut jobs = old.jobs;
        for job in jobs.values_mut() {
            // What it finds out belongs to a rule that may be gone: then to none.
            let same = |rule: &Rule| {
                let before = old.rules.get(job.rule);
                before.is_some_and(|old| {
                    (&old.name, old.shape, &old.key) == (&rule.name, rule.shape, &rule.key)
                })
            };
            job.rule = rules.iter().position(same).unwrap_or(usize::MAX);
        }
        Splits {
            rules,
            jobs,
            cores: old.cores,
            ..Splits::default()
        }
    }

    /// The rule for a text of this shape.
    pub fn find(&self, database: &str, shape: Shape) -> Option<usize> {
        if shape == Shape::UNKNOWN {
            return None;
        }
        self.rules
            .iter()
            .position(|rule| rule.shape == shape && rule.database == database)
    }
}

impl Rule {
    /// It was to run in so many parts, and runs whole.
    pub fn did_not_run(&mut self, parts: usize) {
        self.whole += 1;
        self.history.did_not_run(parts);
    }

    /// Parts at most: more would have no keys.
    pub fn parts_max(&self) -> usize {
        let cuts = match &self.cuts {
            Cuts::Values(values) => values.len() + 1,
            Cuts::Even(minimum, maximum) => usize::try_from(maximum.abs_diff(*minimum)).unwrap_or(usize::MAX),
        };
        cuts.clamp(1, Confirmed::PARTS_MAX)
    }

    /// Where to cut for so many parts.
    pub fn cuts(&self, parts: usize) -> Vec<String> {
        match &self.cuts {
            Cuts::Values(values) => (1..parts)
                .filter_map(|part| values.get(part * (values.len() + 1) / parts - 1).cloned())
                .collect(),
            Cuts::Even(minimum, maximum) => {
                let width = i128::from(*maximum) - i128::from(*minimum) + 1;
                let cut = |part: usize| i128::from(*minimum) + width * part as i128 / parts as i128;
                (1..parts).map(|part| cut(part).to_string()).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_spread_over_what_there_is() {
        let config = |text: &str| {
            let text = format!(
                "[proxy]\nauth_type = \"any\"\n[databases.a]\nhost = \"h\"\nuser = \"u\"\n[splits.s]\ndatabase = \"a\"\nquery = \"select 1\"\nkey = \"t.k\"\n{text}"
            );
            Config::parse(&text, "corun.toml")
                .expect("a configuration")
                .config
        };
        let rule = |text: &str| {
            let mut classifier = Classifier::new(
                crate::understand::Limits::default(),
                Arc::new(crate::session::prepared::Statements::new(1)),
                Arc::default(),
                Arc::default(),
            );
            Splits::of(&config(text), &mut classifier, Splits::default())
                .rules
                .remove(0)
        };
        let values = rule("splits = [10, 20, 30]");
        assert_eq!(values.parts_max(), 4);
        assert_eq!(values.cuts(2), ["20"]);
        assert_eq!(values.cuts(4), ["10", "20", "30"]);
        assert_eq!(values.cuts(3), ["10", "20"]);
        assert!(values.cuts(1).is_empty());
        let even = rule("minimum = 1\nmaximum = 100");
        assert_eq!(even.cuts(2), ["51"]);
        assert_eq!(even.cuts(4), ["26", "51", "76"]);
    }
}
