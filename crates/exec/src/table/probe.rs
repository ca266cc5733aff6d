//! Probing: [`JoinTable::probe`], [`JoinTable::matches`] and [`JoinTable::mark`].

use std::marker::PhantomData;
use std::num::NonZeroU64;

use corun_model::cache::reuse::Reuse;

use super::kernel::{
    Consecutive, DenseView, LineView, Probe, RowSink, Selected, Sink, Source, ValueSink, Visit,
};
use super::layout::{LIST_PIECE, SEVERAL};
use super::members::MembersProbe;
use super::simd::{Instructions, PACK_SLACK, with_compare};
use super::{Index, JoinTable};
use crate::codes::{Codes, Validity};
use crate::prefetch::{Ask, Kept, Near, Passing};
use crate::visited::Visited;

/// Probe rows handled at once where results are buffered.
const BLOCK_ROWS: usize = 1024;

/// A batch is selective if fewer than one row in so many has a partner. Unmeasured between 2 and 16.
const SELECTIVE: usize = 4;

/// Most pairs expanded between two looks at the output's capacity.
const EXPAND_ROWS: usize = 1 << 14;

/// How many duplicate lists ahead of the one being copied are asked for. Unmeasured.
const LISTS_AHEAD: usize = 16;

/// Pairs of rows with equal codes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Build rows.
    pub build: Vec<u32>,
    /// Probe rows, ascending if the selection is; as many as build rows.
    pub probe: Vec<u32>,
}

impl Pairs {
    /// How many.
    pub fn len(&self) -> usize {
        self.probe.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.probe.is_empty()
    }

    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.build.clear();
        self.probe.clear();
    }
}

/// Where a probe of one batch stands between calls, and its reusable buffers.
#[derive(Debug, Default)]
pub struct ProbeCursor {
    /// The table whose values are not yet turned into pairs.
    table: Option<NonZeroU64>,
    /// Does the batch come straight from memory, to be read once?
    read_once: bool,
    /// Rows (or selected rows) looked up so far.
    position: usize,
    /// Values found but not yet turned into pairs, only for tables with duplicates.
    values: Vec<u32>,
    /// Their probe rows.
    rows: Vec<u32>,
    /// The first of them that is not finished, and how many rows of its list were given out.
    next: usize,
    given: usize,
    /// Rows with a partner of this batch.
    found: usize,
    /// Of the last batch few rows had a partner: of the next, only the members are looked up in the index.
    pub(super) selective: bool,
    /// The members among this batch's rows, where they were `asked` for.
    members: Vec<u32>,
    pub(super) asked: bool,
}

impl ProbeCursor {
    /// A cursor for batches whose codes come straight from memory and are not used again: they are then read with
    /// [`prefetch_once`](crate::prefetch::prefetch_once), which leaves the outer caches to the table and to others. Only
    /// for probes without a selection, where codes are read in sequence; others ignore it.
    pub fn read_once() -> Self {
        ProbeCursor {
            read_once: true,
            ..ProbeCursor::default()
        }
    }

    /// Begins a new batch; the buffers stay.
    pub fn reset(&mut self) {
        self.position = 0;
        self.values.clear();
        self.rows.clear();
        self.next = 0;
        self.given = 0;
        self.found = 0;
        self.asked = false;
    }
}

/// What one call probes.
#[derive(Clone, Copy)]
struct Batch<'a> {
    codes: &'a Codes<'a>,
    valid: Option<Validity<'a>>,
    selection: Option<&'a [u32]>,
    read_once: bool,
}

/// A piece of the probe rows: consecutive ones or selected ones.
#[derive(Clone, Copy)]
enum Rows<'a> {
    Range(usize, usize),
    Selection(&'a [u32]),
}

impl JoinTable {
    /// Finds pairs of a build row and a probe row with equal codes: probe rows in order, the build rows of each
    /// ascending. Replaces `out` by at most `limit` pairs and returns whether the batch is finished; otherwise call
    /// again with the same arguments to go on.
    ///
    /// Rows that are not `valid` find nothing. With a `selection` only these rows are probed, in its order; `None` means
    /// all. The cursor must be fresh (or [`ProbeCursor::reset`]) for each batch.
    ///
    /// # Panics
    /// When `limit` is 0, a selected row is out of range, or `valid` and `codes` differ in length; when the cursor stands in the midst of a batch
    /// of another table, or further than this batch goes.
    pub fn probe(
        &self,
        codes: &Codes<'_>,
        valid: Option<Validity<'_>>,
        selection: Option<&[u32]>,
        cursor: &mut ProbeCursor,
        limit: usize,
        out: &mut Pairs,
    ) -> bool {
        assert!(limit > 0, "a probe must be allowed to give at least one pair");
        if cursor.position == 0 {
            cursor.table = Some(self.id);
        }
        assert!(
            cursor.table == Some(self.id),
            "a cursor in the midst of a batch stays with its table"
        );
        let batch = Batch {
            codes,
            valid,
            selection,
            read_once: cursor.read_once,
        };
        let mut members = std::mem::take(&mut cursor.members);
        if cursor.position == 0 && !cursor.asked {
            cursor.asked = cursor.selective && self.members.is_some();
            if cursor.asked {
                self.matches(codes, valid, selection, &mut members);
            }
        }
        let left = match cursor.asked {
            true => Batch {
                valid: None,
                selection: Some(&members),
                ..batch
            },
            false => batch,
        };
        let finished = self.probe_index(&left, cursor, limit, out);
        if finished {
            cursor.selective = cursor.found < batch.rows() / SELECTIVE;
        }
        cursor.members = members;
        finished
    }

    /// [`JoinTable::probe`] in the index.
    fn probe_index(
        &self,
        batch: &Batch<'_>,
        cursor: &mut ProbeCursor,
        limit: usize,
        out: &mut Pairs,
    ) -> bool {
        out.clear();
        let total = batch.rows();
        assert!(
            cursor.position <= total,
            "a cursor in the midst of a batch stays with it"
        );
        loop {
            if cursor.next < cursor.values.len() {
                self.expand(cursor, limit, out);
            }
            let room = limit - out.len();
            if cursor.next < cursor.values.len() || (room == 0 && cursor.position < total) {
                return false;
            }
            if cursor.position == total {
                return true;
            }
            let unique = self.is_unique();
            let mut rows = total - cursor.position;
            if !unique {
                rows = rows.min(BLOCK_ROWS);
            }
            if unique {
                rows = rows.min(room);
                let before = out.len();
                self.append(batch, cursor.position, rows, 1, &mut out.build, &mut out.probe);
                cursor.found += out.len() - before;
            } else {
                cursor.values.clear();
                cursor.rows.clear();
                (cursor.next, cursor.given) = (0, 0);
                let (values, found) = (&mut cursor.values, &mut cursor.rows);
                self.append(batch, cursor.position, rows, 0, values, found);
                cursor.found += found.len();
            }
            cursor.position += rows;
        }
    }

    /// Turns found values into pairs until `out` holds `limit`.
    fn expand(&self, cursor: &mut ProbeCursor, limit: usize, out: &mut Pairs) {
        while cursor.next < cursor.values.len() && out.len() < limit {
            // A piece of the output at a time, so that a large limit does not take memory that is not needed.
            let room = (limit - out.len()).min(EXPAND_ROWS);
            out.build.reserve(room + LIST_PIECE);
            out.probe.reserve(room + LIST_PIECE);
            // SAFETY: there is room, and the function returns how many pairs it wrote.
            unsafe {
                let (build, probe) = (
                    out.build.as_mut_ptr().add(out.len()),
                    out.probe.as_mut_ptr().add(out.len()),
                );
                let written = self.expand_into(cursor, room, build, probe);
                out.build.set_len(out.build.len() + written);
                out.probe.set_len(out.probe.len() + written);
            }
        }
    }

    /// Writes at most `room` pairs and returns how many.
    ///
    /// # Safety
    /// There must be room for [`LIST_PIECE`] more than `room` elements at both.
    unsafe fn expand_into(
        &self,
        cursor: &mut ProbeCursor,
        room: usize,
        build: *mut u32,
        probe: *mut u32,
    ) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            match self.reuse {
                _ if self.duplicates.bytes() <= super::plan::LISTS_NEAR_BYTES => {
                    self.expand_asking::<Near>(cursor, room, build, probe)
                }
                Reuse::Keep => self.expand_asking::<Kept>(cursor, room, build, probe),
                Reuse::Once => self.expand_asking::<Passing>(cursor, room, build, probe),
            }
        }
    }

    /// # Safety
    /// As [`JoinTable::expand_into`].
    #[inline(always)]
    unsafe fn expand_asking<A: Ask>(
        &self,
        cursor: &mut ProbeCursor,
        room: usize,
        build: *mut u32,
        probe: *mut u32,
    ) -> usize {
        let ProbeCursor {
            values,
            rows,
            next,
            given,
            ..
        } = cursor;
        let mut written = 0;
        while written < room
            && let Some((&value, &row)) = values.get(*next).zip(rows.get(*next))
        {
            if A::ASKS
                && let Some(&later) = values.get(*next + LISTS_AHEAD)
            {
                // The value of a key with one row names no list; the hint is then useless and harmless.
                A::ask(self.duplicates.as_ptr().wrapping_add((later & !SEVERAL) as usize));
            }
            if value & SEVERAL == 0 {
                // SAFETY: there is room for one more.
                unsafe {
                    build.add(written).write(value - 1);
                    probe.add(written).write(row);
                }
                written += 1;
                *next += 1;
                continue;
            }
            let (first, length) = self.list_range(value);
            let first = first + *given;
            let count = (length - *given).min(room - written);
            // Pieces of a fixed length need no loop for short lists, the usual ones; what is copied too much is
            // overwritten by the next pairs or never looked at.
            for start in (0..count).step_by(LIST_PIECE) {
                // SAFETY: a list is followed by others or by `LIST_PIECE` elements, and there is as much room after `room`.
                unsafe {
                    let list = self.duplicates.as_ptr().add(first + start);
                    let piece = list.cast::<[u32; LIST_PIECE]>().read_unaligned();
                    build
                        .add(written + start)
                        .cast::<[u32; LIST_PIECE]>()
                        .write_unaligned(piece);
                    probe
                        .add(written + start)
                        .cast::<[u32; LIST_PIECE]>()
                        .write_unaligned([row; LIST_PIECE]);
                }
            }
            written += count;
            *given += count;
            if *given == length {
                *next += 1;
                *given = 0;
            }
        }
        written
    }

    /// Where the rows of a key with several begin among the duplicates, and how many they are.
    #[inline(always)]
    fn list_range(&self, value: u32) -> (usize, usize) {
        let offset = (value & !SEVERAL) as usize;
        (offset + 1, self.duplicates[offset] as usize)
    }

    /// The rows of a key with several.
    pub(super) fn list(&self, value: u32) -> &[u32] {
        let (first, length) = self.list_range(value);
        &self.duplicates[first..first + length]
    }

    /// Sets `out` to the probe rows that have at least one partner, in the order they are probed in. `valid` and
    /// `selection` as in [`JoinTable::probe`].
    ///
    /// # Panics
    /// When a selected row is out of range, or `valid` and `codes` differ in length.
    pub fn matches(
        &self,
        codes: &Codes<'_>,
        valid: Option<Validity<'_>>,
        selection: Option<&[u32]>,
        out: &mut Vec<u32>,
    ) {
        out.clear();
        let batch = Batch {
            codes,
            valid,
            selection,
            read_once: false,
        };
        let total = batch.rows();
        out.reserve(total + PACK_SLACK);
        // SAFETY: room for all rows was reserved, a batch's rows are as many as its piece, and the sink writes as many as it counts.
        unsafe {
            let (piece, rows) = (batch.piece(0, total), out.as_mut_ptr());
            let found = match (&self.members, self.bounds) {
                (Some(members), Some((min, _))) => batch.visit(
                    piece,
                    MembersProbe {
                        members,
                        min,
                        isa: self.isa,
                        rows,
                    },
                ),
                _ => {
                    let sink = RowSink { rows, count: 0 };
                    batch.visit(piece, IndexProbe { table: self, sink }).count
                }
            };
            out.set_len(found);
        }
        if let Some(valid) = valid {
            // Few rows are found where this is used most, so that asking them is less than asking all.
            out.retain(|&row| valid.is_valid(row as usize));
        }
    }

    /// Marks every build row that has a partner among the probe rows. `valid` and `selection` as in
    /// [`JoinTable::probe`]; `visited` must cover all build row numbers.
    ///
    /// The rows of one key are marked together, its first row last, and a key whose first row is marked is passed over:
    /// so marking rows of the same bitmap one by one as well would lose some. Concurrent calls are fine.
    ///
    /// # Panics
    /// When a selected row is out of range, `valid` and `codes` differ in length, or `visited` is too short.
    pub fn mark(
        &self,
        codes: &Codes<'_>,
        valid: Option<Validity<'_>>,
        selection: Option<&[u32]>,
        visited: &Visited,
    ) {
        let batch = Batch {
            codes,
            valid,
            selection,
            read_once: false,
        };
        let total = batch.rows();
        let (mut values, mut found) = (Vec::new(), Vec::new());
        let mut position = 0;
        while position < total {
            let rows = BLOCK_ROWS.min(total - position);
            values.clear();
            found.clear();
            let minus = u32::from(self.is_unique());
            self.append(&batch, position, rows, minus, &mut values, &mut found);
            if self.is_unique() {
                visited.mark_rows(&values);
            } else {
                for &value in &values {
                    if value & SEVERAL == 0 {
                        visited.mark(value - 1);
                    } else {
                        let list = self.list(value);
                        if !visited.is_marked(list[0]) {
                            list.iter().rev().for_each(|&row| visited.mark(row));
                        }
                    }
                }
            }
            position += rows;
        }
    }

    /// Appends the found values (less `minus`) and rows of a piece of the batch.
    fn append(
        &self,
        batch: &Batch<'_>,
        position: usize,
        rows: usize,
        minus: u32,
        values: &mut Vec<u32>,
        found: &mut Vec<u32>,
    ) {
        values.reserve(rows + PACK_SLACK);
        found.reserve(rows + PACK_SLACK);
        let before = found.len();
        // SAFETY: a pointer to the end of a vector's elements is in its allocation, there is room for `rows` results, the piece
        // has as many rows, and the sink writes as many as it counts, to both.
        unsafe {
            let sink = ValueSink {
                values: values.as_mut_ptr().add(values.len()),
                rows: found.as_mut_ptr().add(before),
                count: 0,
                minus,
            };
            let sink = batch.visit(batch.piece(position, rows), IndexProbe { table: self, sink });
            values.set_len(values.len() + sink.count);
            found.set_len(before + sink.count);
        }
        if let Some(valid) = batch.valid {
            keep_valid(valid, before, values, found);
        }
    }
}

/// Looks rows up in the index and hands what is found to the sink.
struct IndexProbe<'a, K> {
    table: &'a JoinTable,
    sink: K,
}

impl<K: Sink> Visit for IndexProbe<'_, K> {
    type Output = K;

    /// Also asks that the sink has room for all rows of the source, and [`PACK_SLACK`].
    unsafe fn visit<S: Source>(self, source: S) -> K {
        let IndexProbe { table, sink } = self;
        let far = (table.index_bytes() >= table.prefetch_from_bytes).then_some(table.reuse);
        let (min, max) = table.bounds.unwrap_or((0, 0));
        let (mixer, range) = (table.mixer, max - min);
        match &table.index {
            Index::Dense { values } => with_compare!(table.isa, C => {
                let view = DenseView { values, min };
                let probe = Probe { view, source, sink, far, instructions: PhantomData::<C> };
                // SAFETY: the caller's promise; `isa` was detected.
                unsafe { C::enter(probe) }
            }),
            Index::Lines32 { lines, bits } => with_compare!(table.isa, C => {
                let bits = *bits;
                let view = LineView::<_, C> { lines, bits, mixer, min, range, compare: PhantomData };
                let probe = Probe { view, source, sink, far, instructions: PhantomData::<C> };
                // SAFETY: the caller's promise; `isa` was detected.
                unsafe { C::enter(probe) }
            }),
            Index::Lines64 { lines, bits } => with_compare!(table.isa, C => {
                let bits = *bits;
                let view = LineView::<_, C> { lines, bits, mixer, min, range, compare: PhantomData };
                let probe = Probe { view, source, sink, far, instructions: PhantomData::<C> };
                // SAFETY: the caller's promise; `isa` was detected.
                unsafe { C::enter(probe) }
            }),
        }
    }
}

impl Batch<'_> {
    /// The number of rows to probe.
    fn rows(&self) -> usize {
        if let Some(valid) = self.valid {
            assert_eq!(
                valid.len(),
                self.codes.len(),
                "validity and codes differ in length"
            );
        }
        assert!(
            self.codes.len() <= u32::MAX as usize,
            "a probe batch has more rows than row numbers"
        );
        self.selection.map_or(self.codes.len(), <[u32]>::len)
    }

    /// Hands the rows of a piece to `visitor`.
    ///
    /// # Safety
    /// What the visitor asks for.
    unsafe fn visit<V: Visit>(&self, piece: Rows<'_>, visitor: V) -> V::Output {
        // SAFETY: the caller's promise.
        unsafe {
            match (*self.codes, piece) {
                (Codes::U64 { values, bias }, Rows::Range(start, end)) => visitor.visit(Consecutive {
                    values: &values[start..end],
                    bias,
                    first_row: start as u32,
                    once: self.read_once,
                }),
                (Codes::U32 { values, bias }, Rows::Range(start, end)) => visitor.visit(Consecutive {
                    values: &values[start..end],
                    bias: u64::from(bias),
                    first_row: start as u32,
                    once: self.read_once,
                }),
                (Codes::U64 { values, bias }, Rows::Selection(rows)) => {
                    visitor.visit(Selected::new(values, bias, rows))
                }
                (Codes::U32 { values, bias }, Rows::Selection(rows)) => {
                    visitor.visit(Selected::new(values, u64::from(bias), rows))
                }
            }
        }
    }

    /// `rows` rows from `position` on.
    fn piece(&self, position: usize, rows: usize) -> Rows<'_> {
        match self.selection {
            None => Rows::Range(position, position + rows),
            Some(selection) => Rows::Selection(&selection[position..position + rows]),
        }
    }
}

/// Leaves out, from the `before`-th on, rows that are not valid, and their values. What lies under a NULL may have been found.
fn keep_valid(valid: Validity<'_>, before: usize, values: &mut Vec<u32>, found: &mut Vec<u32>) {
    debug_assert_eq!(values.len(), found.len());
    let mut kept = before;
    for index in before..found.len() {
        (values[kept], found[kept]) = (values[index], found[index]);
        kept += usize::from(valid.is_valid(found[index] as usize));
    }
    values.truncate(kept);
    found.truncate(kept);
}
