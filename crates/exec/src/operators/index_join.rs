//! [`IndexJoin`]: an index nested-loop join over a [`CsbTree`] (paper 000, sections 5.1 and 6.1), and [`lookup_batch`].
//!
//! ```text
//!   begin      RID of the tuple                     needs its key, if it is somewhere else
//!   fetch      key                                  needs the first node below the top
//!   descend    inner node: which child?             needs that child        once a level
//!   leaf       inner RIDs of the key: output
//! ```
//!
//! The top of the tree is in the cache all the time, so its levels wait for nobody: they are descended together with the
//! stage before. A node of `LINES` lines is as many references, since a search looks at all of them. The leaves after the
//! first one that has a key's entries are not asked for: few keys have so many.
//!
//! Order of calls: a tree, [`Probes`] ([`KeyedRids`], [`KeyColumn`] or [`RowKeys`]), [`IndexJoin::new`], then
//! [`crate::stage::run`]; or [`lookup_batch`], which is all that in one call.

use std::marker::PhantomData;

use corun_model::operators::mode::{Hiding, Mode, Staging, Threads};
use corun_model::operators::trace::Access;
use corun_model::units::Bytes;

use super::join_index::NO_ROW;
use super::rows::{PairSink, RidPair, Row};
use super::stream::Stream;
use super::{OperatorError, check_rows, load};
use crate::csb::{CsbTree, Key, NodeId};
use crate::prefetch::LINE_BYTES;
use crate::stage::{Context, Options, Reference, RunError, Staged, Step, run};

/// The top levels of a tree that together take at most this are descended without waiting: a part of the smallest L1 data
/// cache there is. Unmeasured.
const TOP_BYTES: f64 = 16.0 * 1024.0;

/// The probe side of an index join: tuples with a key and a RID.
pub trait Probes<'a, K>: Copy + Send + Sync {
    /// Whether the key is behind the RID, a dereference of its own; otherwise it is at hand when the tuple begins.
    const FETCHED: bool;

    /// Tuples.
    fn tuples(&self) -> usize;

    /// The RID of a tuple.
    fn rid<C: Context<'a>>(&self, tuple: usize, context: &mut C) -> u32;

    /// Where the key of a tuple with this RID is.
    fn key(&self, tuple: usize, rid: u32) -> &'a K;
}

/// A key and the row it is of.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KeyRid<K> {
    /// The key.
    pub key: K,
    /// The row.
    pub rid: u32,
}

/// A clustered stream: keys and RIDs side by side, in the order of memory.
#[derive(Clone, Copy, Debug)]
pub struct KeyedRids<'a, K>(pub &'a [KeyRid<K>]);

impl<'a, K: Key> Probes<'a, K> for KeyedRids<'a, K> {
    const FETCHED: bool = false;

    fn tuples(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn rid<C: Context<'a>>(&self, tuple: usize, context: &mut C) -> u32 {
        *load(&self.0[tuple].rid, size_of::<u32>(), context)
    }

    #[inline(always)]
    fn key(&self, tuple: usize, _: u32) -> &'a K {
        &self.0[tuple].key
    }
}

/// Keys in a column, reached through the RIDs of a stream.
#[derive(Clone, Copy, Debug)]
pub struct KeyColumn<'a, K> {
    keys: &'a [K],
    stream: Stream<'a>,
}

impl<'a, K: Key> KeyColumn<'a, K> {
    /// Element `k` is the key of row `k`.
    ///
    /// # Errors
    /// [`OperatorError::StreamOfOtherRows`] when the stream was made for another number of rows.
    pub fn new(keys: &'a [K], stream: Stream<'a>) -> Result<Self, OperatorError> {
        stream.check(keys.len())?;
        Ok(KeyColumn { keys, stream })
    }
}

impl<'a, K: Key> Probes<'a, K> for KeyColumn<'a, K> {
    const FETCHED: bool = true;

    fn tuples(&self) -> usize {
        self.stream.tuples()
    }

    #[inline(always)]
    fn rid<C: Context<'a>>(&self, tuple: usize, context: &mut C) -> u32 {
        self.stream.rid(tuple, context)
    }

    #[inline(always)]
    fn key(&self, _: usize, rid: u32) -> &'a K {
        &self.keys[rid as usize]
    }
}

/// Keys in rows, reached through the RIDs of a stream.
#[derive(Clone, Copy, Debug)]
pub struct RowKeys<'a> {
    rows: &'a [Row],
    stream: Stream<'a>,
}

impl<'a> RowKeys<'a> {
    /// Probes with the keys of the rows that `stream` names.
    ///
    /// # Errors
    /// [`OperatorError::StreamOfOtherRows`] when the stream was made for another number of rows.
    pub fn new(rows: &'a [Row], stream: Stream<'a>) -> Result<Self, OperatorError> {
        stream.check(rows.len())?;
        Ok(RowKeys { rows, stream })
    }
}

impl<'a> Probes<'a, u32> for RowKeys<'a> {
    const FETCHED: bool = true;

    fn tuples(&self) -> usize {
        self.stream.tuples()
    }

    #[inline(always)]
    fn rid<C: Context<'a>>(&self, tuple: usize, context: &mut C) -> u32 {
        self.stream.rid(tuple, context)
    }

    #[inline(always)]
    fn key(&self, _: usize, rid: u32) -> &'a u32 {
        &self.rows[rid as usize].key
    }
}

/// Where the matches of a tuple go.
pub trait Matches<'a>: Send {
    /// Takes the inner rows that have the key of tuple number `tuple`, whose RID is `outer`.
    fn take<C: Context<'a>>(
        &mut self,
        tuple: usize,
        outer: u32,
        inner: impl Iterator<Item = u32>,
        context: &mut C,
    );
}

impl<'a> Matches<'a> for PairSink<'a> {
    #[inline(always)]
    fn take<C: Context<'a>>(
        &mut self,
        _: usize,
        outer: u32,
        inner: impl Iterator<Item = u32>,
        context: &mut C,
    ) {
        for inner in inner {
            self.push(RidPair { outer, inner }, context);
        }
    }
}

/// The first match of each tuple, in the order of the tuples; [`NO_ROW`] for none.
#[derive(Debug)]
struct FirstMatches<'a>(&'a mut [u32]);

impl<'a> Matches<'a> for FirstMatches<'a> {
    #[inline(always)]
    fn take<C: Context<'a>>(
        &mut self,
        tuple: usize,
        _: u32,
        mut inner: impl Iterator<Item = u32>,
        context: &mut C,
    ) {
        let first = &mut self.0[tuple];
        context.touch(Access::Store, std::ptr::from_ref(first).cast(), size_of::<u32>());
        *first = inner.next().unwrap_or(NO_ROW);
    }
}

/// Keys that are looked up one after the other.
#[derive(Clone, Copy, Debug)]
struct Batch<'a, K>(&'a [K]);

impl<'a, K: Key> Probes<'a, K> for Batch<'a, K> {
    const FETCHED: bool = false;

    fn tuples(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn rid<C: Context<'a>>(&self, tuple: usize, _: &mut C) -> u32 {
        tuple as u32
    }

    #[inline(always)]
    fn key(&self, tuple: usize, _: u32) -> &'a K {
        &self.0[tuple]
    }
}

/// Joins tuples with the rows of an indexed relation: a pair of RIDs a match, inner RIDs ascending. `ONCE`: nodes of the lower
/// levels are not kept in the outer caches.
#[derive(Debug)]
pub struct IndexJoin<'a, K: Key, P, S, const LINES: usize, const ONCE: bool = false> {
    tree: &'a CsbTree<K, LINES>,
    probes: P,
    /// Nodes of levels below this one are waited for; level 0 is the leaves.
    top: u32,
    /// Nodes of levels below this one are not kept; 0 unless `ONCE`.
    kept: u32,
    output: PhantomData<fn() -> S>,
}

impl<K: Key, P: Copy, S, const LINES: usize, const ONCE: bool> Clone for IndexJoin<'_, K, P, S, LINES, ONCE> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Key, P: Copy, S, const LINES: usize, const ONCE: bool> Copy for IndexJoin<'_, K, P, S, LINES, ONCE> {}

/// A tuple between two nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexJoinState<K> {
    key: K,
    tuple: usize,
    rid: u32,
    /// The node waited for.
    node: NodeId,
    /// Its level, 0 for a leaf; [`FETCH`] while the key is waited for.
    level: u32,
}

/// No level: the key is still to be fetched.
const FETCH: u32 = u32::MAX;

impl<'a, K: Key, P: Probes<'a, K>, const LINES: usize> IndexJoin<'a, K, P, PairSink<'a>, LINES> {
    /// Looks up every tuple of `probes` in `tree`.
    pub fn new(tree: &'a CsbTree<K, LINES>, probes: P) -> Self {
        Self::with_output(tree, probes)
    }
}

impl<'a, K: Key, P: Probes<'a, K>, const LINES: usize> IndexJoin<'a, K, P, PairSink<'a>, LINES, true> {
    /// As [`IndexJoin::new`], for a tree that lookups reach all over and that is far larger than the cache: only the upper
    /// levels, as many as together take at most `kept` bytes, are worth a place in the outer caches.
    pub fn passing(tree: &'a CsbTree<K, LINES>, probes: P, kept: Bytes) -> Self {
        Self::with_output(tree, probes).keeping(kept)
    }
}

/// The lowest level of a tree that together with all above takes at most `bytes`, guessed: each level is smaller than the one
/// below by about the number of children of a node that is three quarters full. For a fuller or emptier tree this errs, which
/// costs time only.
fn level_within<K: Key, const LINES: usize>(tree: &CsbTree<K, LINES>, bytes: f64) -> u32 {
    let children = (LINES * LINE_BYTES / size_of::<K>()) as f64 * 0.75;
    let mut taken = tree.bytes() as f64;
    let mut level = 0;
    while (level as usize) < tree.height() && taken > bytes {
        taken /= children;
        level += 1;
    }
    level
}

impl<'a, K: Key, P: Probes<'a, K>, S, const LINES: usize> IndexJoin<'a, K, P, S, LINES, true> {
    fn keeping(self, kept: Bytes) -> Self {
        IndexJoin {
            kept: level_within(self.tree, kept.0 as f64),
            ..self
        }
    }
}

impl<'a, K: Key, P: Probes<'a, K>, S, const LINES: usize, const ONCE: bool>
    IndexJoin<'a, K, P, S, LINES, ONCE>
{
    fn with_output(tree: &'a CsbTree<K, LINES>, probes: P) -> Self {
        IndexJoin {
            tree,
            probes,
            top: level_within(tree, TOP_BYTES),
            kept: 0,
            output: PhantomData,
        }
    }

    /// Goes through the top and asks for the first node below.
    #[inline(always)]
    fn enter<C: Context<'a>>(&self, state: &mut IndexJoinState<K>, context: &mut C) {
        state.node = self.tree.root();
        state.level = self.tree.height() as u32;
        while state.level >= self.top.max(1) {
            self.descend(state, context);
        }
        self.need(state, context);
    }

    /// One level down.
    #[inline(always)]
    fn descend<C: Context<'a>>(&self, state: &mut IndexJoinState<K>, context: &mut C) {
        self.touch(state.node, context);
        state.node = self.tree.child(state.node, state.key);
        state.level -= 1;
    }

    #[inline(always)]
    fn need<C: Context<'a>>(&self, state: &IndexJoinState<K>, context: &mut C) {
        let bytes = self.tree.node_bytes(state.node);
        for line in 0..LINES {
            let reference = Reference::to(&bytes[line * LINE_BYTES]);
            if ONCE && state.level < self.kept {
                context.need_once(reference);
            } else {
                context.need(reference);
            }
        }
    }

    #[inline(always)]
    fn touch<C: Context<'a>>(&self, node: NodeId, context: &mut C) {
        context.touch(Access::Load, self.tree.node_address(node), LINES * LINE_BYTES);
    }
}

impl<'a, K, P, S, const LINES: usize, const ONCE: bool> Staged<'a, LINES>
    for IndexJoin<'a, K, P, S, LINES, ONCE>
where
    K: Key + Default,
    P: Probes<'a, K>,
    S: Matches<'a>,
{
    type State = IndexJoinState<K>;
    type Output = S;
    const REFERENCES_MIN: usize = if P::FETCHED { 1 } else { LINES };
    const PASSES: bool = ONCE;

    fn tuples(&self) -> usize {
        self.probes.tuples()
    }

    fn stages(&self) -> usize {
        self.tree.height().min(self.top.max(1) as usize - 1) + 1 + usize::from(P::FETCHED)
    }

    #[inline(always)]
    fn begin<C: Context<'a>>(&self, tuple: usize, state: &mut IndexJoinState<K>, _: &mut S, context: &mut C) {
        state.tuple = tuple;
        state.rid = self.probes.rid(tuple, context);
        let key = self.probes.key(tuple, state.rid);
        if P::FETCHED {
            state.level = FETCH;
            context.need(Reference::to(key));
        } else {
            state.key = *load(key, size_of::<K>(), context);
            self.enter(state, context);
        }
    }

    #[inline(always)]
    fn resume<C: Context<'a>>(&self, state: &mut IndexJoinState<K>, output: &mut S, context: &mut C) -> Step {
        match state.level {
            0 => {
                self.touch(state.node, context);
                let inner = self.tree.leaf_entries_from(state.node, state.key);
                output.take(state.tuple, state.rid, inner, context);
                return Step::Done;
            }
            FETCH if P::FETCHED => {
                state.key = *load(self.probes.key(state.tuple, state.rid), size_of::<K>(), context);
                self.enter(state, context);
            }
            _ => {
                self.descend(state, context);
                self.need(state, context);
            }
        }
        Step::Wait
    }

    #[inline(always)]
    fn plain<C: Context<'a>>(&self, tuple: usize, output: &mut S, context: &mut C) {
        let rid = self.probes.rid(tuple, context);
        let key = *load(self.probes.key(tuple, rid), size_of::<K>(), context);
        if !C::TRACED {
            return output.take(tuple, rid, self.tree.rids(key), context);
        }
        let mut node = self.tree.root();
        for _ in 0..self.tree.height() {
            self.touch(node, context);
            node = self.tree.child(node, key);
        }
        self.touch(node, context);
        output.take(tuple, rid, self.tree.leaf_entries_from(node, key), context);
    }
}

/// A batch that cannot be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// There is not one place for each key.
    #[error("{keys} keys, but places for {places} RIDs")]
    Lengths {
        /// Keys given.
        keys: usize,
        /// Places given.
        places: usize,
    },
    /// More keys than a batch may have.
    #[error(transparent)]
    Keys(#[from] OperatorError),
    /// The latency hiding is impossible.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Sets `rids[i]` to the smallest RID that has key `keys[i]`, or to [`NO_ROW`]. On the calling thread; [`Hiding::None`]
/// looks up one key after the other.
///
/// # Errors
/// [`LookupError`], before anything was looked up.
///
/// ```
/// use corun_exec::csb::CsbTree;
/// use corun_exec::operators::{NO_ROW, lookup_batch};
/// use corun_model::operators::mode::{Hiding, Schedule};
///
/// let tree: CsbTree<u32> = CsbTree::bulk_load(&[10, 20, 20, 30], &[0, 1, 2, 3], 0.75)?;
/// let mut rids = [0; 3];
/// let hiding = Hiding::Prefetch { schedule: Schedule::Group, distance: 32 };
/// lookup_batch(&tree, &[20, 25, 30], &mut rids, hiding)?;
/// assert_eq!(rids, [1, NO_ROW, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn lookup_batch<K: Key + Default, const LINES: usize>(
    tree: &CsbTree<K, LINES>,
    keys: &[K],
    rids: &mut [u32],
    hiding: Hiding,
) -> Result<(), LookupError> {
    if keys.len() != rids.len() {
        return Err(LookupError::Lengths {
            keys: keys.len(),
            places: rids.len(),
        });
    }
    lookup_matches(tree, keys, &mut FirstMatches(rids), hiding, None)
}

/// Hands the RIDs of each key of `keys` to `output`, on the calling thread. Keys are numbered as they stand in `keys`; with
/// latency hiding they are not done in that order. `kept`: as in [`IndexJoin::passing`]; `None` keeps the whole tree.
///
/// # Errors
/// [`LookupError`], before anything was looked up.
pub fn lookup_matches<'a, K: Key + Default, S: Matches<'a>, const LINES: usize>(
    tree: &'a CsbTree<K, LINES>,
    keys: &'a [K],
    output: &mut S,
    hiding: Hiding,
    kept: Option<Bytes>,
) -> Result<(), LookupError> {
    check_rows(keys.len())?;
    let staging = match hiding {
        Hiding::None => Staging::Plain,
        Hiding::Prefetch { .. } | Hiding::WorkAhead(_) => Staging::Staged,
    };
    let mode = Mode {
        threads: Threads::One,
        staging,
        hiding,
    };
    let outputs = std::slice::from_mut(output);
    let probes = Batch(keys);
    match kept {
        None => {
            let join = IndexJoin::<K, _, S, LINES, false>::with_output(tree, probes);
            run(mode, &[&join], outputs, &Options::default())?;
        }
        Some(kept) => {
            let join = IndexJoin::with_output(tree, probes).keeping(kept);
            run(mode, &[&join], outputs, &Options::default())?;
        }
    }
    Ok(())
}
