//! Carrying a plan out, taking it back, and removing all of it.
//!
//! ```text
//! apply:  lock ─► journal (not complete) ─► for each group: mkdir, schemata, read back ─► journal (complete)
//!                                             └─ a step fails: undo what this call did, in reverse
//! clear:  lock ─► rmdir each group the journal names ─► remove the journal
//! ```
//!
//! Whatever the moment of a crash, the journal is there as long as a group of corun's is.

use std::fmt;
use std::path::{Path, PathBuf};

use corun_model::cache::partition::{Class, Plan, Schemata};
use serde::Serialize;

use super::journal::{Entry, Journal};
use super::{Client, Files, ResctrlError, is_missing};

/// Most bytes the kernel takes in one write: a page, and none is smaller.
const WRITE_BYTES_MAX: usize = 4096;

/// One change of the file system. Its text is the change as a person would make it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Make a group.
    MakeGroup {
        /// Its folder.
        path: PathBuf,
    },
    /// Write to a file, in one system call, and read back.
    Write {
        /// The file.
        path: PathBuf,
        /// The text.
        text: String,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MakeGroup { path } => write!(f, "mkdir {}", path.display()),
            Self::Write { path, text } => {
                write!(f, "printf '{}' > {}", text.replace('\n', "\\n"), path.display())
            }
        }
    }
}

/// What [`Client::clear`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cleared {
    /// Groups it removed.
    pub removed: Vec<Class>,
    /// Tasks in them, which are in the root group now.
    pub tasks_returned: usize,
    /// Groups of corun's names it left, because no journal says that corun made them.
    pub left: Vec<Class>,
}

impl<F: Files> Client<F> {
    /// What [`Client::apply`] would do now, step by step. Changes nothing.
    ///
    /// # Errors
    /// When resctrl is unavailable, or a group of corun's names is not corun's.
    pub fn steps(&self, plan: &Plan) -> Result<Vec<Step>, ResctrlError> {
        self.mounted()?;
        let _lock = self.lock(false)?;
        let owned = self.journal()?;
        self.check_owned(plan, owned.as_ref())?;
        let mut steps = Vec::new();
        for share in &plan.shares {
            // What an unfinished run made is removed before anything else.
            let entry = owned.as_ref().and_then(|journal| journal.entry(share.class));
            let complete = owned.as_ref().is_some_and(|journal| journal.complete);
            let stays = entry.is_some_and(|entry| complete || entry.was.is_some());
            steps.extend(self.steps_of(share.class, &share.schemata, stays)?);
        }
        Ok(steps)
    }

    /// Makes the plan's groups and writes their schemata. Over an older partition it changes the masks in place, tasks
    /// stay; what a crashed run left is removed first. If any step fails, what this call did is taken back.
    ///
    /// # Errors
    /// When resctrl is unavailable, a group of corun's names is not corun's, or the kernel refuses a step.
    pub fn apply(&self, plan: &Plan) -> Result<(), ResctrlError> {
        self.mounted()?;
        let _lock = self.lock(true)?;
        let mut before = self.journal()?;
        if let Some(unfinished) = before.take_if(|journal| !journal.complete) {
            self.undo(&unfinished)?;
            before = self.journal()?;
        }
        self.check_owned(plan, before.as_ref())?;
        let mut found = Vec::new();
        for share in &plan.shares {
            if self.exists(share.class)? {
                let path = self.folder(share.class).join("schemata");
                found.push((share.class, self.schemata(&path)?.to_string()));
            }
        }
        let was = |class| {
            found
                .iter()
                .find(|(known, _)| *known == class)
                .map(|(_, text)| text.clone())
        };
        let mut journal = Journal::of(plan, &self.settings.root, was);
        self.write_journal(&journal)?;
        let done = self.carry_out(plan).and_then(|()| {
            journal.complete = true;
            self.write_journal(&journal)
        });
        done.map_err(|error| match self.undo(&journal) {
            Ok(()) => error,
            Err(undo) => ResctrlError::Undo {
                error: Box::new(error),
                undo: Box::new(undo),
            },
        })
    }

    /// Removes corun's groups; their tasks go back to the root group. Nothing to remove is fine, and so is a journal of
    /// a run that was killed, or of a mount that is gone.
    ///
    /// # Errors
    /// When the journal cannot be read, or the kernel refuses; what is left can be cleared again.
    pub fn clear(&self) -> Result<Cleared, ResctrlError> {
        match self.mounted() {
            // Unmounting has removed all groups; only the journal is left.
            Err(error @ (ResctrlError::Unavailable { .. } | ResctrlError::NotMounted { .. })) => {
                return match self.journal()? {
                    Some(_) => self.remove_journal().map(|()| Cleared::default()),
                    None => Err(error),
                };
            }
            mounted => mounted?,
        }
        let _lock = self.lock(true)?;
        let mut cleared = Cleared::default();
        match self.journal()? {
            Some(journal) => {
                for entry in journal.groups.iter().rev() {
                    let tasks = self.read_if_there(&self.folder(entry.class).join("tasks"))?;
                    if self.remove_group(entry.class)? {
                        cleared.removed.push(entry.class);
                        cleared.tasks_returned += tasks.map_or(0, |tasks| tasks.lines().count());
                    }
                }
                self.remove_journal()?;
            }
            // The first write of a journal may have been cut off.
            None => self.remove_journal()?,
        }
        for class in Class::ALL {
            if self.exists(class)? {
                cleared.left.push(class);
            }
        }
        Ok(cleared)
    }

    /// A group that no journal names belongs to somebody else.
    fn check_owned(&self, plan: &Plan, owned: Option<&Journal>) -> Result<(), ResctrlError> {
        for share in &plan.shares {
            let ours = owned.is_some_and(|journal| journal.entry(share.class).is_some());
            if !ours && self.exists(share.class)? {
                return Err(ResctrlError::ForeignGroup {
                    path: self.folder(share.class),
                });
            }
        }
        Ok(())
    }

    /// The steps for one group. `stays` says whether a group that is there will be kept.
    fn steps_of(&self, class: Class, schemata: &Schemata, stays: bool) -> Result<Vec<Step>, ResctrlError> {
        let path = self.folder(class);
        let mut steps = Vec::new();
        if !(stays && self.exists(class)?) {
            steps.push(Step::MakeGroup { path: path.clone() });
        }
        let path = path.join("schemata");
        steps.extend(
            schemata
                .writes(WRITE_BYTES_MAX)
                .into_iter()
                .map(|text| Step::Write {
                    path: path.clone(),
                    text,
                }),
        );
        Ok(steps)
    }

    fn carry_out(&self, plan: &Plan) -> Result<(), ResctrlError> {
        for share in &plan.shares {
            for step in self.steps_of(share.class, &share.schemata, true)? {
                match step {
                    Step::MakeGroup { path } => self
                        .files
                        .make_folder(&path)
                        .map_err(|error| ResctrlError::make_group(&path, &error, self.last_status()))?,
                    Step::Write { path, text } => self.write_schemata(&path, &text)?,
                }
            }
        }
        Ok(())
    }

    /// Writes part of a schemata file and reads it back.
    fn write_schemata(&self, path: &Path, text: &str) -> Result<(), ResctrlError> {
        self.files
            .write(path, text)
            .map_err(|error| ResctrlError::write(path, text, &error, self.last_status()))?;
        let found = self.read(path)?;
        let wrote = Schemata::parse(text).unwrap_or_default();
        match Schemata::parse(&found) {
            Ok(found) if wrote.is_part_of(&found) => Ok(()),
            _ => Err(ResctrlError::NotAsWritten {
                path: path.to_owned(),
                wrote: text.to_owned(),
                found,
            }),
        }
    }

    /// A schemata file.
    pub(super) fn schemata(&self, path: &Path) -> Result<Schemata, ResctrlError> {
        Schemata::parse(&self.read(path)?).map_err(|error| ResctrlError::System {
            doing: "understand",
            path: path.to_owned(),
            reason: error.to_string(),
        })
    }

    /// Takes back what an unfinished `apply` did: groups it made are removed, groups it changed are as they were.
    fn undo(&self, journal: &Journal) -> Result<(), ResctrlError> {
        let mut kept = Vec::new();
        for entry in journal.groups.iter().rev() {
            match entry.was() {
                None => {
                    self.remove_group(entry.class)?;
                }
                Some(was) => {
                    if self.exists(entry.class)? {
                        let path = self.folder(entry.class).join("schemata");
                        for text in was.writes(WRITE_BYTES_MAX) {
                            self.write_schemata(&path, &text)?;
                        }
                        kept.insert(
                            0,
                            Entry {
                                planned: was.to_string(),
                                ..entry.clone()
                            },
                        );
                    }
                }
            }
        }
        if kept.is_empty() {
            return self.remove_journal();
        }
        let mut before = journal.clone();
        (before.complete, before.groups) = (true, kept);
        self.write_journal(&before)
    }

    /// Removes a group if it is there; says whether it was.
    fn remove_group(&self, class: Class) -> Result<bool, ResctrlError> {
        let path = self.folder(class);
        if !self.exists(class)? {
            return Ok(false);
        }
        match self.files.remove_folder(&path) {
            Ok(()) if self.exists(class)? => Err(ResctrlError::System {
                doing: "remove",
                path,
                reason: "the group is still there".to_owned(),
            }),
            Ok(()) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(ResctrlError::system("remove", &path, &error)),
        }
    }

    fn write_journal(&self, journal: &Journal) -> Result<(), ResctrlError> {
        let path = &self.settings.journal;
        let written = self.files.replace(path, &journal.text());
        written.map_err(|error| ResctrlError::system("write", path, &error))
    }

    fn remove_journal(&self) -> Result<(), ResctrlError> {
        let path = &self.settings.journal;
        let removed = self.files.remove(path);
        removed.map_err(|error| ResctrlError::system("remove", path, &error))
    }
}
