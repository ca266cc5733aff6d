//! [`History`]: what transactions read and wrote, and whether one order of them explains it. It knows nothing of the store.
//!
//! Values are lists to which transactions append numbers that are never used twice, so that a value names its whole past: the
//! order of all versions of a key, who wrote each, and who read which is read off the lists. A key that is there at first may be
//! deleted once and inserted once more (its list begins anew, in epoch 1); a key that is not may be inserted once. So "absent"
//! is one version of a key, too.
//!
//! ```text
//! ww   one wrote the version after the other's        wr   one read what the other wrote
//! rw   one read a version, the other wrote the next   rt   one had ended before the other began
//! ```
//!
//! A circle of such edges is an anomaly; which one, the kinds of its edges say. Names are those of Adya's thesis.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What a transaction found under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Absent,
    List { epoch: u8, items: Vec<u32> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Before it wrote the key itself.
    Read(u32, Value),
    /// Also of the first number of a list, which inserts the key.
    Append(u32, u32),
    Delete(u32),
}

#[derive(Clone, Debug, Default)]
pub struct Txn {
    pub ops: Vec<Op>,
    /// Numbers of parts that were rolled back.
    pub undone: Vec<u32>,
    pub committed: bool,
    /// Commit timestamp, of those that wrote.
    pub ts: Option<u64>,
    /// Of a snapshot.
    pub snapshot: Option<u64>,
    /// On a clock all share: before it began, after it had ended.
    pub from: u64,
    pub to: u64,
}

#[derive(Clone, Debug, Default)]
pub struct History {
    pub txns: Vec<Txn>,
    /// Keys that are there at first, with an empty list of epoch 0.
    pub present: BTreeSet<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// Two reads of a key have no common past.
    Incompatible,
    /// What was committed is in no list.
    Lost,
    /// Dirty write: a circle of writes.
    G0,
    /// A read of what was rolled back.
    G1a,
    /// A read of what its writer changed again.
    G1b,
    /// A circle of reads and writes of dependencies.
    G1c,
    /// A circle with one anti-dependency: read skew, lost update.
    GSingle,
    /// A circle with several: write skew.
    G2Item,
    /// One of them because something was not there: a phantom.
    G2,
    /// Explained only by an order against real time.
    NotStrict,
    /// The order of commit timestamps is another one.
    Timestamps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ww,
    Wr,
    Rw,
    /// `Rw` by who found the key absent.
    RwAbsent,
}

#[derive(Default)]
struct Key {
    /// The longest list of each epoch.
    lists: [Vec<u32>; 2],
    deleters: Vec<usize>,
}

impl Key {
    /// Number of "absent" among the versions.
    fn absent(&self, present: bool) -> usize {
        if present { self.lists[0].len() + 1 } else { 0 }
    }

    /// Number of a version; the first is 0.
    fn version(&self, value: &Value, present: bool) -> usize {
        match value {
            Value::Absent => self.absent(present),
            Value::List { epoch: 0, items } => items.len(),
            Value::List { items, .. } => self.absent(present) + items.len(),
        }
    }
}

impl History {
    /// All kinds of anomalies there are.
    pub fn anomalies(&self) -> BTreeSet<Anomaly> {
        let mut found = BTreeSet::new();
        let committed = || self.txns.iter().enumerate().filter(|(_, txn)| txn.committed);
        let mut keys: BTreeMap<u32, Key> = BTreeMap::new();
        let mut writers: HashMap<u32, usize> = HashMap::new();
        let mut never: HashSet<u32> = HashSet::new();
        for (at, txn) in self.txns.iter().enumerate() {
            never.extend(&txn.undone);
            for op in &txn.ops {
                match op {
                    Op::Append(_, number) if txn.committed => drop(writers.insert(*number, at)),
                    Op::Append(_, number) => drop(never.insert(*number)),
                    Op::Delete(key) if txn.committed => keys.entry(*key).or_default().deleters.push(at),
                    Op::Read(key, Value::List { epoch, items }) if txn.committed => {
                        let longest = &mut keys.entry(*key).or_default().lists[usize::from(*epoch)];
                        if items.len() > longest.len() {
                            longest.clone_from(items);
                        }
                    }
                    _ => {}
                }
            }
        }
        // Lists.
        let mut listed = HashSet::new();
        for key in keys.values() {
            for number in key.lists.iter().flatten() {
                if never.contains(number) {
                    found.insert(Anomaly::G1a);
                } else if !writers.contains_key(number) || !listed.insert(*number) {
                    found.insert(Anomaly::Incompatible);
                }
            }
            if key.deleters.len() > 1 {
                found.insert(Anomaly::Lost);
            }
        }
        if writers.keys().any(|number| !listed.contains(number)) {
            found.insert(Anomaly::Lost);
        }
        for (_, txn) in committed() {
            for op in &txn.ops {
                let Op::Read(key, value) = op else { continue };
                let present = self.present.contains(key);
                let known = keys.entry(*key).or_default();
                match value {
                    Value::List { epoch, items } => {
                        if items.iter().any(|number| never.contains(number)) {
                            found.insert(Anomaly::G1a);
                        }
                        if !known.lists[usize::from(*epoch)].starts_with(items)
                            || (*epoch == 0 && !present)
                            || (*epoch == 1 && items.is_empty())
                        {
                            found.insert(Anomaly::Incompatible);
                        }
                    }
                    Value::Absent if present && known.deleters.is_empty() => {
                        found.insert(Anomaly::G1a);
                    }
                    Value::Absent => {}
                }
            }
        }
        if !found.is_empty() {
            // Without an order of versions there are no edges.
            return found;
        }
        let edges = self.edges(&keys, &writers, &mut found);
        self.circles(&edges, &mut found);
        found
    }

    fn edges(
        &self,
        keys: &BTreeMap<u32, Key>,
        writers: &HashMap<u32, usize>,
        found: &mut BTreeSet<Anomaly>,
    ) -> Vec<(usize, usize, Kind)> {
        let mut edges = Vec::new();
        // Who wrote each version of a key; nobody the first.
        let mut written: HashMap<u32, Vec<Option<usize>>> = HashMap::new();
        for (name, key) in keys {
            let by = |list: &Vec<u32>| {
                list.iter()
                    .map(|number| Some(writers[number]))
                    .collect::<Vec<_>>()
            };
            let mut versions = vec![None];
            if self.present.contains(name) {
                versions.extend(by(&key.lists[0]));
                if let Some(&deleter) = key.deleters.first() {
                    versions.push(Some(deleter));
                }
            }
            versions.extend(by(&key.lists[1]));
            for pair in versions.windows(2) {
                if let (Some(a), Some(b)) = (pair[0], pair[1])
                    && a != b
                {
                    edges.push((a, b, Kind::Ww));
                }
            }
            written.insert(*name, versions);
        }
        for (at, txn) in self.txns.iter().enumerate().filter(|(_, txn)| txn.committed) {
            for op in &txn.ops {
                let Op::Read(key, value) = op else { continue };
                let versions = &written[key];
                let version = keys[key].version(value, self.present.contains(key));
                let (wrote, next) = (versions[version], versions.get(version + 1).copied().flatten());
                if let Some(writer) = wrote.filter(|writer| *writer != at) {
                    edges.push((writer, at, Kind::Wr));
                    if next == Some(writer) {
                        found.insert(Anomaly::G1b);
                    }
                }
                if let Some(writer) = next.filter(|writer| *writer != at) {
                    let kind = if *value == Value::Absent {
                        Kind::RwAbsent
                    } else {
                        Kind::Rw
                    };
                    edges.push((at, writer, kind));
                }
                // A snapshot shows what was committed up to its timestamp, and all of that.
                if let Some(ts) = txn.snapshot {
                    let ts_of = |writer: usize| self.txns[writer].ts;
                    if wrote.and_then(ts_of).is_some_and(|wrote| wrote > ts)
                        || next.and_then(ts_of).is_some_and(|next| next <= ts)
                    {
                        found.insert(Anomaly::Timestamps);
                    }
                }
            }
        }
        let against = |&(a, b, _): &(usize, usize, Kind)| {
            let ts = |at: usize| self.txns[at].ts;
            matches!((ts(a), ts(b)), (Some(a), Some(b)) if a >= b)
        };
        if edges.iter().any(against) {
            found.insert(Anomaly::Timestamps);
        }
        edges
    }

    fn circles(&self, edges: &[(usize, usize, Kind)], found: &mut BTreeSet<Anomaly>) {
        let count = self.txns.len();
        let graph = |keep: &dyn Fn(Kind) -> bool| {
            let mut next = vec![Vec::new(); count];
            for &(a, b, kind) in edges {
                if keep(kind) {
                    next[a].push(b);
                }
            }
            next
        };
        let parts = |next: &[Vec<usize>]| components(next);
        let has_circle = |parts: &[usize], keep: &dyn Fn(Kind) -> bool| {
            edges
                .iter()
                .any(|&(a, b, kind)| keep(kind) && parts[a] == parts[b])
        };
        let writes = |kind: Kind| kind == Kind::Ww;
        if has_circle(&parts(&graph(&writes)), &writes) {
            found.insert(Anomaly::G0);
        }
        let depends = |kind: Kind| matches!(kind, Kind::Ww | Kind::Wr);
        let dependencies = graph(&depends);
        if has_circle(&parts(&dependencies), &|kind| kind == Kind::Wr) {
            found.insert(Anomaly::G1c);
        }
        let all = graph(&|_| true);
        let parts_of_all = parts(&all);
        for &(a, b, kind) in edges {
            if parts_of_all[a] != parts_of_all[b] || depends(kind) {
                continue;
            }
            found.insert(if reaches(&dependencies, b, a) {
                Anomaly::GSingle
            } else if kind == Kind::RwAbsent {
                Anomaly::G2
            } else {
                Anomaly::G2Item
            });
        }
        // A chain of moments, so that there is an edge or two for each transaction, not for each pair.
        let mut moments: Vec<(u64, bool, usize)> = Vec::new();
        for (at, txn) in self.txns.iter().enumerate().filter(|(_, txn)| txn.committed) {
            moments.push((txn.from, true, at));
            moments.push((txn.to, false, at));
        }
        moments.sort_unstable();
        let mut next = all;
        next.resize(count + moments.len(), Vec::new());
        for (number, (_, begins, at)) in moments.iter().enumerate() {
            if number + 1 < moments.len() {
                next[count + number].push(count + number + 1);
            }
            if *begins {
                next[count + number].push(*at);
            } else {
                next[*at].push(count + number);
            }
        }
        let parts = components(&next);
        let in_time = edges.iter().any(|&(a, b, _)| parts[a] == parts[b]);
        if in_time && found.is_empty() {
            found.insert(Anomaly::NotStrict);
        }
    }

    /// Whether some order of the committed transactions, one after the other, gives every read and the last state.
    pub fn has_serial_order(&self, last: &BTreeMap<u32, Value>) -> bool {
        let committed: Vec<&Txn> = self.txns.iter().filter(|txn| txn.committed).collect();
        let state = self.present.iter().map(|key| {
            let items = Vec::new();
            (*key, Value::List { epoch: 0, items })
        });
        runs(&committed, 0, &state.collect(), last)
    }
}

fn runs(txns: &[&Txn], done: u32, state: &BTreeMap<u32, Value>, last: &BTreeMap<u32, Value>) -> bool {
    if done.count_ones() as usize == txns.len() {
        let get = |of: &BTreeMap<u32, Value>, key| of.get(key).cloned().unwrap_or(Value::Absent);
        return state
            .keys()
            .chain(last.keys())
            .all(|key| get(state, key) == get(last, key));
    }
    (0..txns.len()).filter(|at| done & (1 << at) == 0).any(|at| {
        let mut state = state.clone();
        let fits = txns[at].ops.iter().all(|op| match op {
            Op::Read(key, value) => state.get(key).unwrap_or(&Value::Absent) == value,
            Op::Append(key, number) => {
                match state.entry(*key).or_insert(Value::Absent) {
                    Value::List { items, .. } => items.push(*number),
                    absent => {
                        *absent = Value::List {
                            epoch: 1,
                            items: vec![*number],
                        }
                    }
                }
                true
            }
            Op::Delete(key) => {
                state.insert(*key, Value::Absent);
                true
            }
        });
        fits && runs(txns, done | (1 << at), &state, last)
    })
}

fn reaches(next: &[Vec<usize>], from: usize, to: usize) -> bool {
    let mut seen = vec![false; next.len()];
    let mut ahead = vec![from];
    while let Some(at) = ahead.pop() {
        if at == to {
            return true;
        }
        if !std::mem::replace(&mut seen[at], true) {
            ahead.extend(&next[at]);
        }
    }
    false
}

/// The strongly connected component of each node: Tarjan's algorithm, with a stack of its own.
fn components(next: &[Vec<usize>]) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let mut component = vec![NONE; next.len()];
    let (mut index, mut low) = (vec![NONE; next.len()], vec![0; next.len()]);
    let (mut open, mut counter, mut components) = (Vec::new(), 0, 0);
    for root in 0..next.len() {
        let mut calls = vec![(root, 0)];
        while let Some((at, edge)) = calls.pop() {
            if edge == 0 {
                if index[at] != NONE {
                    continue;
                }
                index[at] = counter;
                low[at] = counter;
                counter += 1;
                open.push(at);
            } else {
                let child = next[at][edge - 1];
                if component[child] == NONE {
                    low[at] = low[at].min(low[child]);
                }
            }
            if let Some(&child) = next[at].get(edge) {
                calls.push((at, edge + 1));
                if index[child] == NONE {
                    calls.push((child, 0));
                } else if component[child] == NONE {
                    low[at] = low[at].min(index[child]);
                }
                continue;
            }
            if low[at] == index[at] {
                while let Some(member) = open.pop() {
                    component[member] = components;
                    if member == at {
                        break;
                    }
                }
                components += 1;
            }
        }
    }
    component
}
