//! The journal: what `clear` needs to know after a crash.
//!
//! It is written before the first change (`complete` is false) and again after the last. It names classes, never paths,
//! so that a damaged journal cannot make `clear` remove anything but corun's own groups.

use std::path::{Path, PathBuf};

use corun_model::cache::partition::{Class, Plan, Schemata};
use serde::{Deserialize, Serialize};

use super::ResctrlError;

/// The form of this file; a program that does not know it leaves it alone.
const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Journal {
    version: u32,
    /// The mount it is about.
    root: PathBuf,
    /// Whether all of it was done.
    pub(super) complete: bool,
    /// The groups, in the order they are made.
    pub(super) groups: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) class: Class,
    /// Its schemata before; `None` if it was not there.
    pub(super) was: Option<String>,
    /// Its schemata as planned.
    pub(super) planned: String,
}

impl Journal {
    /// The journal of a plan about to be carried out. `was` tells what a group has now.
    pub(super) fn of(plan: &Plan, root: &Path, was: impl Fn(Class) -> Option<String>) -> Self {
        let entry = |share: &corun_model::cache::partition::Share| Entry {
            class: share.class,
            was: was(share.class),
            planned: share.schemata.to_string(),
        };
        Self {
            version: VERSION,
            root: root.to_owned(),
            complete: false,
            groups: plan.shares.iter().map(entry).collect(),
        }
    }

    pub(super) fn read(text: &str, path: &Path, root: &Path) -> Result<Self, ResctrlError> {
        let damaged = |reason: String| ResctrlError::Journal {
            path: path.to_owned(),
            reason,
        };
        let journal: Self = serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        if journal.version != VERSION {
            return Err(damaged(format!(
                "the journal's version is {}, not {VERSION}",
                journal.version
            )));
        }
        if journal.root != root {
            return Err(damaged(format!(
                "the journal is about {}",
                journal.root.display()
            )));
        }
        let texts = journal
            .groups
            .iter()
            .flat_map(|entry| [Some(&entry.planned), entry.was.as_ref()]);
        for text in texts.flatten() {
            Schemata::parse(text).map_err(|error| damaged(error.to_string()))?;
        }
        Ok(journal)
    }

    pub(super) fn text(&self) -> String {
        // Strings, paths given as text and flags: nothing that has no JSON form.
        serde_json::to_string_pretty(self).expect("a journal is plain data") + "\n"
    }

    pub(super) fn entry(&self, class: Class) -> Option<&Entry> {
        self.groups.iter().find(|entry| entry.class == class)
    }
}

impl Entry {
    /// What was planned. [`Journal::read`] has checked the text.
    pub(super) fn planned(&self) -> Schemata {
        Schemata::parse(&self.planned).unwrap_or_default()
    }

    /// What was there before.
    pub(super) fn was(&self) -> Option<Schemata> {
        self.was
            .as_ref()
            .map(|text| Schemata::parse(text).unwrap_or_default())
    }
}
