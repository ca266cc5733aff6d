//! [`Expects`]: the answers a server still owes, as far as the proxy must know them.
//!
//! ```text
//!  sent:      Parse'  Bind  Execute  Sync   Query   Parse Bind Execute Sync
//!  queue:     Parse'  Bind  Execute  Ready  Ready   Parse Bind Execute Ready          (' injected: its answer is swallowed)
//!  answers:   1       2     C        Z      T D C Z 1     2    C       Z
//! ```
//!
//! What stands first is what the server works on: every message that is answered or can fail has an entry, and its answer takes it
//! away. After an error in the extended protocol a server skips everything up to Sync, and so does the queue; after one in a simple query
//! it does not. Which of the two it was is told by what stands first. While a server copies in, it ignores Sync: those sent before the
//! copy's end owe no answer. What is sent while the server is known to skip has no entry.
//!
//! A *batch* is what ends with one ReadyForQuery.
//!
//! What it is not: a check of the protocol. The server refuses what is out of order.

use std::collections::{HashSet, VecDeque};

use crate::core::reply::change::{Change, Unnamed};

/// An answer that is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    /// ParseComplete. `swallow`: the client did not ask for it.
    Parse { swallow: bool },
    /// CloseComplete; the same.
    Close { swallow: bool },
    /// What ends a Bind, Describe or Execute, and the stamp of the client's statement that the message names, 0 for none.
    Step { step: Step, stamp: u64 },
    /// The client has ended a copy before the server said that it copies in.
    CopyEnd,
    /// ReadyForQuery.
    Ready(ReadySent),
}

/// A message of the extended protocol whose answer is the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Step {
    Bind,
    Describe,
    Execute,
}

/// What an error brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::core) struct Undone {
    /// What the server refused or skipped, to be taken back in this order.
    pub changes: Vec<Change>,
    /// The stamp of the statement that the refused message named.
    pub stamp: u64,
}

/// Something under way that ends with ReadyForQuery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::core) struct ReadySent {
    /// A Sync; otherwise a Query or a function call.
    pub sync: bool,
    /// A simple query that runs as a prepared statement: the answers of Parse, Bind and NoData are swallowed.
    pub lifted: bool,
    /// The client did not ask for any of it.
    pub swallow: bool,
    /// The batch runs a text that takes all statements with names away.
    pub discards: bool,
}

/// Changes under way.
#[derive(Clone, Copy, Debug, Default)]
struct Changes {
    named: usize,
    unnamed: usize,
}

/// Owed answers from which on a client's next messages wait, so that a pipeline without end takes bounded memory. The server sends what
/// it has answered once that fills its buffer of 8 KiB, which the answers to fewer than 2,000 messages do. Unmeasured.
pub(in crate::core) const OWED_MAX: usize = 1 << 14;
/// Bytes of names that count as much as one answer.
const NAME_BYTES: usize = 64;

/// The queue.
#[derive(Debug, Default)]
pub(in crate::core) struct Expects {
    queue: VecDeque<(Expect, Change)>,
    /// What each ReadyForQuery in the queue belongs to, in order.
    batches: VecDeque<ReadySent>,
    /// Names that the changes in the queue hold, in units of [`NAME_BYTES`].
    names: usize,
    /// More waits for room.
    was_full: bool,
    /// Changes in batches whose end has been sent.
    closed: Changes,
    /// Changes in the batch whose end has not been sent.
    last: Changes,
    /// The batch whose end has not been sent binds a text that takes all statements with names away: those parsed up to this stamp.
    bound_to_discard: Option<u64>,
    /// The same, and it has been told to run it.
    discards: Option<u64>,
    /// Messages of the extended protocol went out after the last Sync.
    open: bool,
    /// The server skips to the next Sync.
    skipping: bool,
    /// The server copies in.
    copying: bool,
}

impl Expects {
    /// ReadyForQuery messages owed.
    pub fn outstanding(&self) -> usize {
        self.batches.len()
    }

    /// Bytes it takes, roughly.
    pub fn bytes(&self) -> usize {
        self.queue.capacity() * size_of::<(Expect, Change)>() + self.names * NAME_BYTES
    }

    /// Whether so much is owed that what comes next must wait for [`Expects::has_room_again`].
    pub fn is_full(&mut self) -> bool {
        let full = self.queue.len() + self.names >= OWED_MAX;
        self.was_full |= full;
        full
    }

    /// Whether what waited because of [`Expects::is_full`] may go on; told once.
    pub fn has_room_again(&mut self) -> bool {
        let room = self.was_full && self.queue.len() + self.names <= OWED_MAX / 2;
        self.was_full &= !room;
        room
    }

    /// Whether messages were sent that no Sync has followed yet.
    pub fn open(&self) -> bool {
        self.open || self.skipping
    }

    /// Whether the server ignores everything but Sync: it is known to have refused something, and no Sync was sent since.
    pub fn skipping(&self) -> bool {
        self.skipping
    }

    /// Whether what comes next depends on no earlier answer: none is owed, or the server ignores it or, in a copy, refuses it whatever
    /// it is.
    pub fn heeds_nothing(&self) -> bool {
        self.batches.is_empty() || self.skipping || self.copying
    }

    /// Whether an earlier batch, whose end has not been answered, may still change which statements there are: those with names, or
    /// the unnamed one, unless this batch has replaced it. What fails within the batch takes what follows with it.
    pub fn unsure(&self, named: bool) -> bool {
        if named {
            self.closed.named > 0
        } else {
            self.closed.unnamed > 0 && self.last.unnamed == 0
        }
    }

    /// Whether nothing is owed and nothing is open.
    pub fn settled(&self) -> bool {
        self.batches.is_empty() && !self.open() && !self.copying
    }

    /// A Parse goes out.
    pub fn parse(&mut self, swallow: bool, change: Change) {
        self.extended(Expect::Parse { swallow }, change);
    }

    /// A Close goes out.
    pub fn close(&mut self, swallow: bool, change: Change) {
        self.extended(Expect::Close { swallow }, change);
    }

    /// A Bind, Describe or Execute goes out; `stamp` is that of the client's statement it names, 0 for none.
    pub fn step(&mut self, step: Step, stamp: u64) {
        if step == Step::Execute && self.bound_to_discard.is_some() {
            self.discards = self.bound_to_discard.take();
        }
        self.extended(Expect::Step { step, stamp }, Change::Nothing);
    }

    fn extended(&mut self, expect: Expect, change: Change) {
        self.open = true;
        self.push(expect, change);
    }

    /// What goes out next, a Bind or a Query, is of a text that takes all statements with names away: those parsed up to this stamp.
    pub fn discards(&mut self, stamp: u64) {
        self.bound_to_discard = Some(stamp);
    }

    /// Whether what was sent in this batch takes the statement of this stamp away, if all goes well.
    pub fn takes_away(&self, stamp: u64) -> bool {
        self.discards.is_some_and(|last| stamp <= last)
    }

    /// A Query goes out, or a function call.
    pub fn query(&mut self, change: Change) {
        self.open = false;
        self.end_batch(ReadySent::default(), change);
    }

    /// A Sync goes out; `lifted` as in [`ReadySent`].
    pub fn sync(&mut self, lifted: bool) {
        if self.copying {
            return;
        }
        self.open = false;
        self.skipping = false;
        let sent = ReadySent {
            sync: true,
            lifted,
            ..ReadySent::default()
        };
        self.end_batch(sent, Change::Nothing);
    }

    /// A Sync of the proxy's own goes out, behind messages whose answers nobody gets.
    pub fn own_sync(&mut self) {
        self.open = false;
        let sent = ReadySent {
            sync: true,
            swallow: true,
            ..ReadySent::default()
        };
        self.end_batch(sent, Change::Nothing);
    }

    /// A Query of the proxy's own goes out among the client's; its answer nobody gets.
    pub fn own_query(&mut self) {
        let sent = ReadySent {
            swallow: true,
            ..ReadySent::default()
        };
        self.end_batch(sent, Change::Nothing);
    }

    fn end_batch(&mut self, mut sent: ReadySent, change: Change) {
        sent.discards = self.discards.take().or(self.bound_to_discard.take()).is_some();
        self.push(Expect::Ready(sent), change);
    }

    fn push(&mut self, expect: Expect, change: Change) {
        self.last.count(expect, &change);
        self.names += change.name_bytes() / NAME_BYTES;
        self.queue.push_back((expect, change));
        if let Expect::Ready(sent) = expect {
            let ended = std::mem::take(&mut self.last);
            self.closed.named += ended.named;
            self.closed.unnamed += ended.unnamed;
            self.batches.push_back(sent);
        }
    }

    fn pop(&mut self) -> Option<(Expect, Change)> {
        let (expect, change) = self.queue.pop_front()?;
        let mut gone = Changes::default();
        gone.count(expect, &change);
        // The oldest changes are in the oldest batches.
        self.closed.take_away(gone, &mut self.last);
        self.names -= change.name_bytes() / NAME_BYTES;
        if let Expect::Ready(_) = expect {
            self.batches.pop_front();
        }
        Some((expect, change))
    }

    fn first(&self) -> Option<Expect> {
        self.queue.front().map(|(expect, _)| *expect)
    }

    /// What ends a Bind, Describe or Execute came.
    #[inline]
    pub fn step_complete(&mut self, done: Step) {
        self.pass_copy_ends();
        if matches!(self.first(), Some(Expect::Step { step, .. }) if step == done) {
            // It changes nothing, so nothing is counted.
            self.queue.pop_front();
        }
    }

    /// Whether what is answered now is for nobody.
    pub fn swallowed(&self) -> bool {
        self.current().is_some_and(|sent| sent.swallow)
    }

    /// Whether what is answered now is a simple query that runs as a prepared statement.
    pub fn lifted(&self) -> bool {
        self.current().is_some_and(|sent| sent.lifted)
    }

    /// What the answers now belong to.
    fn current(&self) -> Option<ReadySent> {
        self.batches.front().copied()
    }

    /// CopyDone or CopyFail goes out.
    pub fn copy_end(&mut self) {
        if self.copying {
            self.copying = false;
        } else if (!self.batches.is_empty() || self.open)
            // One that follows another ends nothing.
            && !matches!(self.queue.back(), Some((Expect::CopyEnd, _)))
        {
            self.push(Expect::CopyEnd, Change::Nothing);
        }
    }

    /// What comes behind the end of a copy is answered: there was no copy to end.
    #[inline]
    fn pass_copy_ends(&mut self) {
        while self.first() == Some(Expect::CopyEnd) {
            self.queue.pop_front();
        }
    }

    /// ParseComplete came. Returns whether it is swallowed.
    pub fn parse_complete(&mut self) -> bool {
        self.complete(|first| matches!(first, Expect::Parse { .. }))
    }

    /// CloseComplete came. Returns whether it is swallowed.
    pub fn close_complete(&mut self) -> bool {
        self.complete(|first| matches!(first, Expect::Close { .. }))
    }

    fn complete(&mut self, answers: impl FnOnce(Expect) -> bool) -> bool {
        self.pass_copy_ends();
        let done = self.first().is_some_and(answers).then(|| self.pop()).flatten();
        matches!(
            done,
            Some((
                Expect::Parse { swallow: true } | Expect::Close { swallow: true },
                _
            ))
        )
    }

    /// CopyInResponse came: every Sync sent since and before the copy's end is ignored.
    pub fn copy_in(&mut self) {
        self.pass_copy_ends();
        let mut copies = self.queue.pop_front().into_iter().collect::<Vec<_>>();
        let (mut ended, mut ignored) = (false, false);
        while let Some(next) = self.queue.pop_front() {
            match next.0 {
                Expect::CopyEnd => {
                    ended = true;
                    break;
                }
                Expect::Ready(ReadySent { sync: true, .. }) => ignored = true,
                _ => copies.push(next),
            }
        }
        for kept in copies.into_iter().rev() {
            self.queue.push_front(kept);
        }
        self.copying = !ended;
        if ignored {
            self.recount();
        }
        if self.batches.is_empty() {
            // The Sync that ends this comes after the copy.
            self.open = true;
        }
    }

    /// Counts the changes under way again.
    fn recount(&mut self) {
        (self.closed, self.last) = Default::default();
        self.batches.clear();
        self.names = 0;
        for (expect, change) in std::mem::take(&mut self.queue) {
            self.push(expect, change);
        }
    }

    /// ErrorResponse came. Returns what the server did not do because of it.
    pub fn error(&mut self) -> Undone {
        self.copying = false;
        self.pass_copy_ends();
        let mut undone = Undone::default();
        match self.first() {
            // A simple query, or the end of a transaction: ReadyForQuery follows.
            Some(Expect::Ready(_)) => return undone,
            Some(Expect::Step { stamp, .. }) => undone.stamp = stamp,
            _ => {}
        }
        let sync = |(expect, _): &(Expect, Change)| matches!(expect, Expect::Ready(sent) if sent.sync);
        let until = self.queue.iter().position(sync);
        if until.is_none() {
            // Not less than before: a second error is the server's last word.
            self.skipping |= self.open || !self.queue.is_empty();
            (self.bound_to_discard, self.discards) = (None, None);
        }
        let mut refused = true;
        let mut unnamed = None;
        for _ in 0..until.unwrap_or(self.queue.len()) {
            let Some((expect, mut change)) = self.pop() else {
                break;
            };
            if std::mem::take(&mut refused) {
                change = change.refused(expect == Expect::Parse { swallow: true });
            }
            match change {
                Change::Nothing => {}
                // The oldest knows what was before all of them.
                Change::Unnamed(before) => unnamed = unnamed.or(Some(before)),
                change => undone.changes.push(change),
            }
        }
        undone.changes.reverse();
        undone.changes.extend(
            unnamed
                .and_then(|before| self.unnamed_before_the_rest(before))
                .map(Change::Unnamed),
        );
        undone
    }

    /// The unnamed statement is as `before` when the server goes on. What was sent since may have replaced it again: then it is as that
    /// left it, and `before` is what to go back to. Otherwise returns `before`.
    fn unnamed_before_the_rest(&mut self, before: Unnamed) -> Option<Unnamed> {
        for (_, change) in &mut self.queue {
            if let Change::Unnamed(later) = change {
                *later = before;
                return None;
            }
        }
        Some(before)
    }

    /// The server has taken all statements with names away. Answers the names and the numbers of those that are parsed again by what is
    /// under way: they will be there.
    pub fn discarded(&mut self) -> (HashSet<Box<[u8]>>, HashSet<u64>) {
        let (mut names, mut ids) = (HashSet::new(), HashSet::new());
        for (_, change) in &mut self.queue {
            match change {
                Change::Parsed { copy, name } => {
                    if let Some(given) = name
                        && names.insert(given.name.clone())
                    {
                        given.before = None;
                    }
                    if let Some((id, before)) = copy
                        && ids.insert(*id)
                    {
                        *before = None;
                    }
                }
                Change::Closed { name, .. } if !names.contains(name) => *change = Change::Nothing,
                Change::Evicted { id, .. } if !ids.contains(id) => *change = Change::Nothing,
                _ => {}
            }
        }
        self.recount();
        (names, ids)
    }

    /// The name of a statement whose Close is under way.
    pub fn closing(&self, stamp: u64) -> Option<(&[u8], &str)> {
        self.queue.iter().find_map(|(_, change)| match change {
            Change::Closed { name, prepared } if prepared.stamp == stamp => {
                Some((&**name, &*prepared.statement.name))
            }
            _ => None,
        })
    }

    /// ReadyForQuery came. Answers what it belongs to, `None` when none was owed.
    pub fn ready(&mut self) -> Option<ReadySent> {
        self.copying = false;
        while let Some((expect, _)) = self.pop() {
            if let Expect::Ready(sent) = expect {
                return Some(sent);
            }
        }
        None
    }
}

impl Changes {
    fn count(&mut self, expect: Expect, change: &Change) {
        let discards = matches!(expect, Expect::Ready(sent) if sent.discards);
        self.named += usize::from(change.is_of_named()) + usize::from(discards);
        self.unnamed += usize::from(matches!(change, Change::Unnamed(_)));
    }

    /// Takes `gone` away, from `rest` where there are none here.
    fn take_away(&mut self, gone: Changes, rest: &mut Changes) {
        let take = |here: &mut usize, rest: &mut usize, count: usize| {
            let from_here = count.min(*here);
            *here -= from_here;
            *rest -= (count - from_here).min(*rest);
        };
        take(&mut self.named, &mut rest.named, gone.named);
        take(&mut self.unnamed, &mut rest.unnamed, gone.unnamed);
    }
}

#[cfg(test)]
mod tests;
