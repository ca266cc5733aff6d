//! A checker of histories in which transactions append to lists and read them, after Elle (Kingsbury and Alvaro, VLDB 2020).
//!
//! ```text
//!   lists that were read ─► the order of each key's appends ─► edges ww, wr, rw, and of time ─► cycles that the level forbids
//! ```
//!
//! A list tells which appends came before which, so the order of versions need not be guessed. Edges of time go from each transaction to
//! those that began after it had ended, through a chain of moments: their number is linear. What it is not: a search for all
//! cycles; it shows one of each kind.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Put a value, which nobody else ever puts anywhere, at the end of a key's list.
    Append(u64, u64),
    /// The same, and went back to a savepoint before it.
    Undone(u64, u64),
    /// Found this list.
    Read(u64, Vec<u64>),
}

/// A transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// When it was begun, by a counter that all clients share: before its first statement was sent.
    pub begun: u64,
    /// When it had ended: after the answer to its last statement.
    pub ended: u64,
    pub committed: bool,
    pub ops: Vec<Op>,
}

/// Levels of isolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    ReadCommitted,
    /// Snapshot isolation.
    RepeatableRead,
    Serializable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Time,
    WriteWrite,
    WriteRead,
    ReadWrite,
}

/// What a level forbids, and was found; empty: nothing. All transactions of a history must be there, those that failed as well, and at
/// its end one that reads every list.
pub fn check(history: &[Transaction], level: Level) -> Vec<String> {
    let mut checker = Checker::new(history);
    checker.lists();
    for (number, transaction) in history.iter().enumerate().filter(|(_, of)| of.committed) {
        checker.reads(number, transaction, level);
    }
    checker.lost();
    checker.cycles(level);
    checker.found
}

struct Checker<'h> {
    history: &'h [Transaction],
    found: Vec<String>,
    /// Who has appended a value, and whether it stayed.
    writers: BTreeMap<(u64, u64), (usize, bool)>,
    /// Of each key, the longest list that was read.
    lists: BTreeMap<u64, Vec<u64>>,
    /// From each transaction, and from each moment behind them.
    edges: Vec<BTreeSet<(usize, Edge)>>,
}

impl<'h> Checker<'h> {
    fn new(history: &'h [Transaction]) -> Checker<'h> {
        let mut writers = BTreeMap::new();
        let mut lists: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (number, transaction) in history.iter().enumerate() {
            for op in &transaction.ops {
                match op {
                    Op::Append(key, value) => _ = writers.insert((*key, *value), (number, true)),
                    Op::Undone(key, value) => _ = writers.insert((*key, *value), (number, false)),
                    Op::Read(key, list) if transaction.committed => {
                        let longest = lists.entry(*key).or_default();
                        if list.len() > longest.len() {
                            longest.clone_from(list);
                        }
                    }
                    Op::Read(..) => {}
                }
            }
        }
        let mut checker = Checker {
            history,
            found: Vec::new(),
            writers,
            lists,
            edges: vec![BTreeSet::new(); history.len()],
        };
        checker.time();
        checker
    }

    fn edge(&mut self, from: usize, to: usize, edge: Edge) {
        if from != to {
            self.edges[from].insert((to, edge));
        }
    }

    fn time(&mut self) {
        let mut events = Vec::new();
        for (number, of) in self.history.iter().enumerate().filter(|(_, of)| of.committed) {
            events.push((of.begun, true, number));
            events.push((of.ended, false, number));
        }
        events.sort_unstable();
        let mut last = None;
        for (_, begins, number) in events {
            if begins {
                if let Some(last) = last {
                    self.edge(last, number, Edge::Time);
                }
                continue;
            }
            let moment = self.edges.len();
            self.edges.push(BTreeSet::new());
            self.edge(number, moment, Edge::Time);
            if let Some(last) = last {
                self.edge(last, moment, Edge::Time);
            }
            last = Some(moment);
        }
    }

    /// The lists themselves: values that somebody has committed, each once; their writers follow each other.
    fn lists(&mut self) {
        for (key, list) in self.lists.clone() {
            let mut before = None;
            let mut seen = BTreeSet::new();
            for value in list {
                if !seen.insert(value) {
                    self.found.push(format!("twice: {value} in the list of {key}"));
                }
                let Some(&(writer, stayed)) = self.writers.get(&(key, value)) else {
                    self.found
                        .push(format!("garbage: nobody has appended {value} to {key}"));
                    continue;
                };
                if !stayed || !self.history[writer].committed {
                    self.found.push(format!(
                        "G1a: {value} of {key} was read, which transaction {writer} has taken back"
                    ));
                    continue;
                }
                if let Some(before) = before {
                    self.edge(before, writer, Edge::WriteWrite);
                }
                before = Some(writer);
            }
        }
    }

    /// What one transaction has read.
    fn reads(&mut self, number: usize, transaction: &Transaction, level: Level) {
        let mut own: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut before: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for op in &transaction.ops {
            let (key, list) = match op {
                Op::Append(key, value) => {
                    own.entry(*key).or_default().push(*value);
                    continue;
                }
                Op::Undone(..) => continue,
                Op::Read(key, list) => (*key, list),
            };
            let mine = own.get(&key).map(Vec::as_slice).unwrap_or_default();
            let Some(others) = list.strip_suffix(mine) else {
                self.found.push(format!(
                    "internal: transaction {number} has appended {mine:?} to {key} and reads {list:?}"
                ));
                continue;
            };
            let longest = &self.lists[&key];
            if !longest.starts_with(list) {
                self.found.push(format!(
                    "orders: transaction {number} reads {list:?} of {key}, another {longest:?}"
                ));
                continue;
            }
            let next = longest.get(others.len()).copied();
            if level > Level::ReadCommitted {
                let earlier = before.entry(key).or_insert_with(|| others.to_vec());
                if earlier != others {
                    self.found.push(format!(
                        "unrepeatable: transaction {number} reads {earlier:?} of {key}, then {others:?}"
                    ));
                }
            }
            if let Some(last) = others.last()
                && let Some(&(writer, true)) = self.writers.get(&(key, *last))
                && self.history[writer].committed
            {
                self.edge(writer, number, Edge::WriteRead);
                let is_later = |op: &&Op| matches!(op, Op::Append(of, _) if *of == key);
                let newest = self.history[writer].ops.iter().rev().find(is_later);
                if writer != number && newest != Some(&Op::Append(key, *last)) {
                    self.found.push(format!(
                        "G1b: transaction {number} reads {last} of {key}, which is not the last that {writer} appends"
                    ));
                }
            }
            if let Some(next) = next
                && let Some(&(writer, true)) = self.writers.get(&(key, next))
            {
                self.edge(number, writer, Edge::ReadWrite);
            }
        }
    }

    /// Appends that were committed and that nobody can read.
    fn lost(&mut self) {
        for (&(key, value), &(writer, stayed)) in &self.writers {
            let list = self.lists.get(&key).map(Vec::as_slice).unwrap_or_default();
            if stayed && self.history[writer].committed && !list.contains(&value) {
                self.found.push(format!(
                    "lost: {value}, which transaction {writer} has appended to {key}"
                ));
            }
        }
    }

    fn cycles(&mut self, level: Level) {
        use Edge::{ReadWrite, Time, WriteRead, WriteWrite};
        let mut names = vec![
            ("G0", &[Time, WriteWrite][..]),
            ("G1c", &[Time, WriteWrite, WriteRead]),
        ];
        if level == Level::Serializable {
            names.push(("G2", &[Time, WriteWrite, WriteRead, ReadWrite]));
        }
        for (name, kinds) in names {
            if let Some(component) = self.components(kinds).first() {
                let within: BTreeSet<usize> = component.iter().copied().collect();
                let cycle = self.cycle(&within, kinds);
                self.found.push(format!("{name}: {cycle}"));
                return;
            }
        }
        if level == Level::RepeatableRead
            && let Some(cycle) = self.single()
        {
            self.found.push(format!("G-single: {cycle}"));
        }
    }

    /// Sets of more than one transaction of which each reaches each (Tarjan, without recursion).
    fn components(&self, kinds: &[Edge]) -> Vec<Vec<usize>> {
        const NEW: usize = usize::MAX;
        let count = self.edges.len();
        let next: Vec<Vec<usize>> = self
            .edges
            .iter()
            .map(|edges| {
                let edges = edges.iter().filter(|(_, kind)| kinds.contains(kind));
                edges.map(|(to, _)| *to).collect()
            })
            .collect();
        let (mut index, mut low) = (vec![NEW; count], vec![0; count]);
        let (mut on_stack, mut stack) = (vec![false; count], Vec::new());
        let (mut found, mut number) = (Vec::new(), 0);
        for root in 0..count {
            if index[root] != NEW {
                continue;
            }
            let mut calls = vec![(root, 0)];
            while let Some((node, at)) = calls.pop() {
                if at == 0 {
                    (index[node], low[node]) = (number, number);
                    number += 1;
                    stack.push(node);
                    on_stack[node] = true;
                }
                if let Some(&to) = next[node].get(at) {
                    calls.push((node, at + 1));
                    if index[to] == NEW {
                        calls.push((to, 0));
                    } else if on_stack[to] {
                        low[node] = low[node].min(index[to]);
                    }
                    continue;
                }
                if let Some(&(parent, _)) = calls.last() {
                    low[parent] = low[parent].min(low[node]);
                }
                if low[node] == index[node] {
                    let from = stack.iter().rposition(|of| *of == node).unwrap_or_default();
                    let component = stack.split_off(from);
                    component.iter().for_each(|of| on_stack[*of] = false);
                    if component.len() > 1 {
                        found.push(component);
                    }
                }
            }
        }
        found
    }

    /// A shortest cycle through one of these, as text.
    fn cycle(&self, within: &BTreeSet<usize>, kinds: &[Edge]) -> String {
        let starts = within.iter().filter(|of| **of < self.history.len()).take(50);
        let paths = starts.filter_map(|start| {
            self.path(
                (*start, true),
                |(node, _), first| !first && node == *start,
                |_, (to, kind)| (within.contains(&to) && kinds.contains(&kind)).then_some((to, true)),
            )
        });
        self.told(paths.min_by_key(Vec::len).unwrap_or_default())
    }

    /// A cycle in which no two anti-dependencies follow each other: none is in snapshot isolation.
    fn single(&self) -> Option<String> {
        use Edge::{ReadWrite, Time, WriteRead, WriteWrite};
        for component in self.components(&[Time, WriteWrite, WriteRead, ReadWrite]) {
            let within: BTreeSet<usize> = component.iter().copied().collect();
            for from in component {
                for &(to, kind) in &self.edges[from] {
                    if kind != ReadWrite || !within.contains(&to) {
                        continue;
                    }
                    // The second half of a node: whether the way there ended with an anti-dependency.
                    let path = self.path(
                        (to, true),
                        |node, _| node == (from, false),
                        |(_, after), (to, kind)| {
                            let again = kind == ReadWrite;
                            (within.contains(&to) && !(after && again)).then_some((to, again))
                        },
                    );
                    if let Some(mut path) = path {
                        path.insert(0, from);
                        return Some(self.told(path));
                    }
                }
            }
        }
        None
    }

    /// The nodes of a shortest way from a node to one that is wanted.
    fn path(
        &self,
        from: (usize, bool),
        is_end: impl Fn((usize, bool), bool) -> bool,
        step: impl Fn((usize, bool), (usize, Edge)) -> Option<(usize, bool)>,
    ) -> Option<Vec<usize>> {
        let mut came = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        let mut first = true;
        while let Some(node) = queue.pop_front() {
            if is_end(node, first) {
                return Some(way(&came, from, node));
            }
            first = false;
            for &edge in &self.edges[node.0] {
                let Some(to) = step(node, edge) else { continue };
                // The beginning may be the end.
                if is_end(to, false) {
                    let mut path = way(&came, from, node);
                    path.push(to.0);
                    return Some(path);
                }
                if to != from && !came.contains_key(&to) {
                    came.insert(to, node);
                    queue.push_back(to);
                }
            }
        }
        None
    }

    /// The transactions of a path, and what leads from each to the next.
    fn told(&self, path: Vec<usize>) -> String {
        let mut lines = Vec::new();
        for (at, node) in path.iter().enumerate() {
            if let Some(transaction) = self.history.get(*node) {
                lines.push(format!("transaction {node}: {:?}", transaction.ops));
            }
            if let Some(to) = path.get(at + 1) {
                let kinds = self.edges[*node].iter().filter(|(of, _)| of == to);
                let kinds: Vec<Edge> = kinds.map(|(_, kind)| *kind).collect();
                if kinds != [Edge::Time] || *to < self.history.len() {
                    lines.push(format!("  {kinds:?}"));
                }
            }
        }
        lines.join("\n")
    }
}

fn way(came: &BTreeMap<(usize, bool), (usize, bool)>, from: (usize, bool), to: (usize, bool)) -> Vec<usize> {
    let mut path = vec![to.0];
    let mut at = to;
    while at != from {
        let Some(before) = came.get(&at) else { break };
        at = *before;
        path.push(at.0);
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::Level::{ReadCommitted, RepeatableRead, Serializable};
    use super::Op::{Append, Read, Undone};
    use super::{Level, Op, Transaction, check};

    const X: u64 = 1;
    const Y: u64 = 2;

    /// Transactions that were all open at once, then one that reads these lists.
    fn history(transactions: &[&[Op]], lists: &[(u64, &[u64])]) -> Vec<Transaction> {
        let mut history: Vec<Transaction> = transactions
            .iter()
            .map(|ops| Transaction {
                begun: 0,
                ended: 10,
                committed: true,
                ops: ops.to_vec(),
            })
            .collect();
        history.push(Transaction {
            begun: 20,
            ended: 21,
            committed: true,
            ops: lists
                .iter()
                .map(|(key, list)| Read(*key, list.to_vec()))
                .collect(),
        });
        history
    }

    /// The kinds of what is found.
    fn kinds(history: &[Transaction], level: Level) -> Vec<String> {
        let kind = |told: String| told.split(':').next().unwrap_or_default().to_owned();
        check(history, level).into_iter().map(kind).collect()
    }

    /// What each of the levels says.
    fn levels(history: &[Transaction]) -> [Vec<String>; 3] {
        [ReadCommitted, RepeatableRead, Serializable].map(|level| kinds(history, level))
    }

    fn at_all(kind: &str) -> [Vec<String>; 3] {
        [(); 3].map(|()| vec![kind.to_owned()])
    }

    #[test]
    fn a_serial_history_is_right() {
        let of = history(
            &[
                &[Append(X, 1), Append(Y, 2), Read(X, vec![1])],
                &[
                    Read(X, vec![1]),
                    Append(X, 3),
                    Append(X, 4),
                    Read(X, vec![1, 3, 4]),
                ],
                &[Read(X, vec![1, 3, 4]), Read(Y, vec![2]), Undone(Y, 9)],
            ],
            &[(X, &[1, 3, 4]), (Y, &[2])],
        );
        assert_eq!(levels(&of), [(); 3].map(|()| Vec::<String>::new()));
    }

    #[test]
    fn g0_writes_in_both_orders() {
        let of = history(
            &[&[Append(X, 1), Append(Y, 2)], &[Append(X, 3), Append(Y, 4)]],
            &[(X, &[1, 3]), (Y, &[4, 2])],
        );
        assert_eq!(levels(&of), at_all("G0"));
    }

    #[test]
    fn g1a_a_read_of_what_was_taken_back() {
        let mut of = history(&[&[Append(X, 1)], &[Read(X, vec![1])]], &[(X, &[])]);
        of[0].committed = false;
        assert_eq!(
            kinds(&of, ReadCommitted),
            ["G1a", "orders"].map(str::to_owned)[..1]
        );
        let of = history(&[&[Undone(X, 1)], &[Read(X, vec![1])]], &[(X, &[1])]);
        assert_eq!(levels(&of), at_all("G1a"));
    }

    #[test]
    fn g1b_a_read_between_two_writes() {
        let of = history(
            &[&[Append(X, 1), Append(X, 2)], &[Read(X, vec![1])]],
            &[(X, &[1, 2])],
        );
        assert_eq!(kinds(&of, ReadCommitted), ["G1b"]);
    }

    #[test]
    fn g1c_each_reads_the_other() {
        let of = history(
            &[
                &[Append(X, 1), Read(Y, vec![2])],
                &[Append(Y, 2), Read(X, vec![1])],
            ],
            &[(X, &[1]), (Y, &[2])],
        );
        assert_eq!(levels(&of), at_all("G1c"));
    }

    #[test]
    fn g_single_a_read_that_is_torn() {
        let of = history(
            &[
                &[Append(X, 1), Append(Y, 2)],
                &[Read(X, vec![]), Read(Y, vec![2])],
            ],
            &[(X, &[1]), (Y, &[2])],
        );
        assert_eq!(
            levels(&of),
            [vec![], vec!["G-single".to_owned()], vec!["G2".to_owned()]]
        );
    }

    #[test]
    fn g_single_an_update_that_is_lost() {
        let of = history(
            &[&[Read(X, vec![]), Append(X, 1)], &[Read(X, vec![]), Append(X, 2)]],
            &[(X, &[1, 2])],
        );
        assert_eq!(
            levels(&of),
            [vec![], vec!["G-single".to_owned()], vec!["G2".to_owned()]]
        );
    }

    #[test]
    fn g2_write_skew() {
        let of = history(
            &[
                &[Read(X, vec![]), Read(Y, vec![]), Append(X, 1)],
                &[Read(X, vec![]), Read(Y, vec![]), Append(Y, 2)],
            ],
            &[(X, &[1]), (Y, &[2])],
        );
        assert_eq!(levels(&of), [vec![], vec![], vec!["G2".to_owned()]]);
    }

    /// Two anti-dependencies that do not follow each other: no snapshots explain it.
    #[test]
    fn a_long_fork() {
        let of = history(
            &[
                &[Append(X, 1)],
                &[Append(Y, 2)],
                &[Read(X, vec![1]), Read(Y, vec![])],
                &[Read(X, vec![]), Read(Y, vec![2])],
            ],
            &[(X, &[1]), (Y, &[2])],
        );
        assert_eq!(
            levels(&of),
            [vec![], vec!["G-single".to_owned()], vec!["G2".to_owned()]]
        );
    }

    #[test]
    fn a_read_of_the_past() {
        let mut of = history(&[&[Append(X, 1)], &[Read(X, vec![])]], &[(X, &[1])]);
        (of[0].begun, of[0].ended, of[1].begun, of[1].ended) = (0, 1, 2, 3);
        assert_eq!(
            levels(&of),
            [vec![], vec!["G-single".to_owned()], vec!["G2".to_owned()]]
        );
        // At once it is none.
        of[1].begun = 0;
        assert_eq!(levels(&of), [(); 3].map(|()| Vec::<String>::new()));
    }

    #[test]
    fn lists_that_do_not_fit() {
        let of = history(&[&[Append(X, 1)], &[Append(X, 2)]], &[(X, &[1])]);
        assert_eq!(levels(&of), at_all("lost"));
        let of = history(&[&[Append(X, 1)]], &[(X, &[1, 1])]);
        assert_eq!(levels(&of), at_all("twice"));
        let of = history(&[], &[(X, &[7])]);
        assert_eq!(levels(&of), at_all("garbage"));
        let of = history(
            &[&[Append(X, 1)], &[Append(X, 2)], &[Read(X, vec![2])]],
            &[(X, &[1, 2])],
        );
        assert_eq!(levels(&of), at_all("orders"));
        let of = history(&[&[Append(X, 1), Read(X, vec![])]], &[(X, &[1])]);
        assert_eq!(levels(&of), at_all("internal"));
    }

    #[test]
    fn a_read_that_is_not_repeatable() {
        let of = history(
            &[&[Append(X, 1)], &[Read(X, vec![]), Read(X, vec![1])]],
            &[(X, &[1])],
        );
        assert_eq!(kinds(&of, ReadCommitted), Vec::<String>::new());
        assert_eq!(kinds(&of, RepeatableRead), ["unrepeatable", "G-single"]);
        assert_eq!(kinds(&of, Serializable), ["unrepeatable", "G2"]);
    }
}
