//! What was done, and what a store should hold after a part of it.
//!
//! Every commit notes its timestamp and the bytes of the rows it left, by row number. The content of a store that was opened
//! again must be that of the first P commits, P being its newest timestamp, and of nothing else. Timestamps are dense, so
//! those nobody was told (a commit that failed while it waited for the disk, definitions) are found by elimination.

use std::collections::{BTreeMap, BTreeSet};

/// What one commit did, in order.
#[derive(Clone, Debug)]
pub enum Effect {
    Put(String, u32, Vec<u8>),
    Delete(String, u32),
    CreateTable(String, Vec<String>),
    DropTable(String),
    CreateIndex(String, String),
    DropIndex(String, String),
}

/// A commit, or an attempt at one.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Its timestamp, where it is known.
    pub ts: Option<u64>,
    /// If it was made, its timestamp is above this...
    pub above: u64,
    /// ... and at most this.
    pub most: u64,
    pub effects: Vec<Effect>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableContent {
    pub rows: BTreeMap<u32, Vec<u8>>,
    pub indexes: BTreeSet<String>,
}

/// All a store holds.
pub type Content = BTreeMap<String, TableContent>;

/// Applies what a commit did; false if it cannot have happened here.
fn apply(content: &mut Content, effects: &[Effect]) -> bool {
    effects.iter().all(|effect| match effect {
        Effect::Put(table, rid, row) => content
            .get_mut(table)
            .map(|table| table.rows.insert(*rid, row.clone()))
            .is_some(),
        Effect::Delete(table, rid) => content
            .get_mut(table)
            .is_some_and(|table| table.rows.remove(rid).is_some()),
        Effect::CreateTable(name, indexes) => {
            let table = TableContent {
                rows: BTreeMap::new(),
                indexes: indexes.iter().cloned().collect(),
            };
            content.insert(name.clone(), table).is_none()
        }
        Effect::DropTable(name) => content.remove(name).is_some(),
        Effect::CreateIndex(table, name) => content
            .get_mut(table)
            .is_some_and(|table| table.indexes.insert(name.clone())),
        Effect::DropIndex(table, name) => content
            .get_mut(table)
            .is_some_and(|table| table.indexes.remove(name)),
    })
}

/// Ways to fill the gaps that are tried before a run is called undecidable.
const TRIES_MAX: usize = 20_000;

/// Looks for a way in which the commits `first..=last` over `base` give `found`. `Err` says why there is none.
pub fn explain(
    base: &Content,
    first: u64,
    last: u64,
    commits: &[Commit],
    found: &Content,
) -> Result<(), String> {
    let mut known = BTreeMap::new();
    let mut unknown = Vec::new();
    for commit in commits {
        match commit.ts {
            Some(ts) => {
                if known.insert(ts, commit).is_some() {
                    return Err(format!("commit {ts} was reported twice"));
                }
            }
            None => unknown.push(commit),
        }
    }
    let gaps: Vec<u64> = (first..=last).filter(|ts| !known.contains_key(ts)).collect();
    if gaps.len() > unknown.len() {
        return Err(format!(
            "commits {gaps:?} of {first} to {last} were made by nobody: {} are not accounted for",
            unknown.len()
        ));
    }
    let mut search = Search {
        gaps: &gaps,
        unknown: &unknown,
        used: vec![false; unknown.len()],
        order: Vec::new(),
        tries: 0,
        nearest: None,
        check: &mut |order: &[usize]| {
            let mut content = base.clone();
            let mut fill = order.iter();
            for ts in first..=last {
                let commit = match known.get(&ts) {
                    Some(commit) => commit,
                    None => unknown[*fill.next().expect("a commit for each gap")],
                };
                if !apply(&mut content, &commit.effects) {
                    return Err(format!(
                        "commit {ts} cannot have happened there: {:?}",
                        commit.effects
                    ));
                }
            }
            difference(&content, found)
        },
    };
    if search.run() {
        Ok(())
    } else {
        Err(search
            .nearest
            .unwrap_or_else(|| format!("nothing fits into the gaps {gaps:?}")))
    }
}

struct Search<'a> {
    gaps: &'a [u64],
    unknown: &'a [&'a Commit],
    used: Vec<bool>,
    order: Vec<usize>,
    tries: usize,
    nearest: Option<String>,
    check: &'a mut dyn FnMut(&[usize]) -> Result<(), String>,
}

impl Search<'_> {
    fn run(&mut self) -> bool {
        let Some(&gap) = self.gaps.get(self.order.len()) else {
            self.tries += 1;
            assert!(
                self.tries < TRIES_MAX,
                "too many ways to fill the gaps {:?}",
                self.gaps
            );
            return match (self.check)(&self.order) {
                Ok(()) => true,
                Err(why) => {
                    self.nearest = Some(why);
                    false
                }
            };
        };
        for at in 0..self.unknown.len() {
            let commit = self.unknown[at];
            if self.used[at] || gap <= commit.above || gap > commit.most {
                continue;
            }
            self.used[at] = true;
            self.order.push(at);
            if self.run() {
                return true;
            }
            self.order.pop();
            self.used[at] = false;
        }
        false
    }
}

fn difference(wanted: &Content, found: &Content) -> Result<(), String> {
    if wanted == found {
        return Ok(());
    }
    let (names, found_names): (Vec<_>, Vec<_>) = (wanted.keys().collect(), found.keys().collect());
    if names != found_names {
        return Err(format!("tables should be {names:?} and are {found_names:?}"));
    }
    for (name, table) in wanted {
        let other = &found[name];
        if table.indexes != other.indexes {
            return Err(format!(
                "indexes of {name} should be {:?} and are {:?}",
                table.indexes, other.indexes
            ));
        }
        for rid in table.rows.keys().chain(other.rows.keys()) {
            let (wanted, found) = (table.rows.get(rid), other.rows.get(rid));
            if wanted != found {
                return Err(format!(
                    "row {rid} of {name} should be {wanted:?} and is {found:?}"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(ts: Option<u64>, above: u64, effect: Effect) -> Commit {
        Commit {
            ts,
            above,
            most: u64::MAX,
            effects: vec![effect],
        }
    }

    fn put(rid: u32, byte: u8) -> Effect {
        Effect::Put("t".to_owned(), rid, vec![byte])
    }

    fn content(rows: &[(u32, u8)]) -> Content {
        let table = TableContent {
            rows: rows.iter().map(|&(rid, byte)| (rid, vec![byte])).collect(),
            indexes: BTreeSet::new(),
        };
        Content::from([("t".to_owned(), table)])
    }

    #[test]
    fn a_prefix_is_told_from_everything_else() {
        let base = content(&[]);
        let commits = [
            commit(Some(1), 0, put(1, 1)),
            commit(Some(2), 0, put(2, 2)),
            commit(None, 2, put(1, 3)),
            commit(None, 2, put(1, 4)),
        ];
        let explained = |last, rows: &[(u32, u8)]| explain(&base, 1, last, &commits, &content(rows));
        explained(0, &[]).unwrap();
        explained(1, &[(1, 1)]).unwrap();
        explained(2, &[(1, 1), (2, 2)]).unwrap();
        explained(3, &[(1, 3), (2, 2)]).unwrap();
        explained(4, &[(1, 3), (2, 2)]).unwrap();
        explained(4, &[(1, 4), (2, 2)]).unwrap();
        // Half of it, a later without an earlier one, one too many, one that never was.
        explained(2, &[(1, 1)]).unwrap_err();
        explained(2, &[(2, 2)]).unwrap_err();
        explained(1, &[(1, 1), (2, 2)]).unwrap_err();
        explained(4, &[(1, 1), (2, 2)]).unwrap_err();
        explained(5, &[(1, 4), (2, 2)]).unwrap_err();
        explained(3, &[(1, 9), (2, 2)]).unwrap_err();
    }
}
