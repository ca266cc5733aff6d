//! How things stand: what was planned, what the kernel shows, who else is there.

use corun_model::cache::partition::{Class, Schemata};
use serde::Serialize;

use super::{Client, Files, ResctrlError};

/// What [`Client::status`] found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Each class that has a group or a plan.
    pub classes: Vec<ClassStatus>,
    /// Whether a run was cut off; `clear`, or another `apply`, takes back what it did.
    pub unfinished: bool,
    /// Groups of other tools.
    pub foreign: Vec<String>,
}

/// One class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassStatus {
    /// The class.
    pub class: Class,
    /// How its group is.
    pub state: ClassState,
    /// What the kernel shows, if there is a group.
    pub schemata: Option<Schemata>,
    /// What was planned, if corun planned it.
    pub planned: Option<Schemata>,
    /// Tasks in it.
    pub tasks: usize,
}

/// How a class's group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassState {
    /// As planned.
    Planned,
    /// Somebody changed its schemata, or the run that was to write them was cut off.
    Changed,
    /// Somebody removed it, resctrl was mounted anew, or the run that was to make it was cut off.
    Missing,
    /// It is there, but corun did not make it.
    Foreign,
}

impl<F: Files> Client<F> {
    /// How the partition stands. Changes nothing.
    ///
    /// # Errors
    /// When resctrl is unavailable or not readable.
    pub fn status(&self) -> Result<Status, ResctrlError> {
        self.mounted()?;
        let _lock = self.lock(false)?;
        let journal = self.journal()?;
        let mut classes = Vec::new();
        for class in Class::ALL {
            let folder = self.folder(class);
            let schemata = match self.exists(class)? {
                true => Some(self.schemata(&folder.join("schemata"))?),
                false => None,
            };
            let entry = journal.as_ref().and_then(|journal| journal.entry(class));
            let planned = entry.map(|entry| entry.planned());
            let state = match (&planned, &schemata) {
                (None, None) => continue,
                (None, Some(_)) => ClassState::Foreign,
                (Some(_), None) => ClassState::Missing,
                (Some(planned), Some(found)) if planned.is_part_of(found) => ClassState::Planned,
                (Some(_), Some(_)) => ClassState::Changed,
            };
            let tasks = self.read_if_there(&folder.join("tasks"))?.unwrap_or_default();
            classes.push(ClassStatus {
                class,
                state,
                schemata,
                planned,
                tasks: tasks.lines().count(),
            });
        }
        let names = self.folders(&self.settings.root)?.unwrap_or_default();
        Ok(Status {
            classes,
            unfinished: journal.is_some_and(|journal| !journal.complete),
            foreign: names.into_iter().filter(|name| self.is_foreign(name)).collect(),
        })
    }
}
