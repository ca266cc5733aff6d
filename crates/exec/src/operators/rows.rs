//! Row-wise records and the sinks that results go to.
//!
//! ```text
//!   Row         one line    key (u32) | 15 x u32
//!   OutputRow   two lines   left row | right row, or zeroes where an outer join found none
//!   sink        [ written | written | reserved | free ... ]      counts on when it is full, and says so at the end
//! ```
//!
//! Order of calls: a sink over memory of the caller, a run, [`OutputSink::finish`], then drop the sink and read the memory.
//!
//! What it is not: a sink does not grow. An operator whose result does not fit is run again with the room it asked for.

use std::marker::PhantomData;

use corun_model::operators::trace::Access;

use crate::huge::Plain;
use crate::stage::{Context, Reference};

/// A record of 64 bytes, one cache line (paper 000, section 6.2).
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    /// The join key.
    pub key: u32,
    /// The rest.
    pub payload: [u32; 15],
}

impl Row {
    /// What stands in an outer join's output where there is no row.
    pub const ZERO: Row = Row {
        key: 0,
        payload: [0; 15],
    };
}

/// A joined record of 128 bytes, two cache lines (paper 000, section 6.2).
#[repr(C, align(128))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputRow {
    /// The probe side's row, or the left one of a join index.
    pub left: Row,
    /// The build side's row, or the right one of a join index; [`Row::ZERO`] when there is none.
    pub right: Row,
}

/// The rows of a match by number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RidPair {
    /// The probe side's (outer, left) row.
    pub outer: u32,
    /// The build side's (inner, right) row.
    pub inner: u32,
}

const _: () = assert!(size_of::<Row>() == 64 && size_of::<OutputRow>() == 128 && size_of::<RidPair>() == 8);

// SAFETY: integers without padding.
unsafe impl Plain for Row {}
// SAFETY: integers without padding.
unsafe impl Plain for OutputRow {}
// SAFETY: integers without padding.
unsafe impl Plain for RidPair {}

/// The result has more rows than the sink has room for. The first ones are there, none was written elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the output has room for {room} rows, the result has {needed}")]
pub struct OutputFull {
    /// Rows of the result.
    pub needed: usize,
    /// Rows there was room for.
    pub room: usize,
}

/// Which place the next result gets.
#[derive(Clone, Copy, Debug)]
struct Places {
    room: usize,
    /// The place after which the first one follows again; never reached unless the sink recycles.
    end: usize,
    next: usize,
    count: usize,
}

impl Places {
    fn new(room: usize, recycles: bool) -> Places {
        Places {
            room,
            // Without room there is nothing to use again: then results are lost, and `finish` must say so.
            end: if recycles && room > 0 { room } else { usize::MAX },
            next: 0,
            count: 0,
        }
    }

    #[inline(always)]
    fn take(&mut self) -> usize {
        let place = self.next;
        self.count += 1;
        self.next += 1;
        if self.next == self.end {
            self.next = 0;
        }
        place
    }

    fn finish(&self) -> Result<usize, OutputFull> {
        if self.end == usize::MAX && self.count > self.room {
            return Err(OutputFull {
                needed: self.count,
                room: self.room,
            });
        }
        Ok(self.count)
    }
}

/// Results of one worker, in memory of the caller.
///
/// An operator pushes a result when it has one, or takes a place with [`OutputSink::reserve`] when a tuple begins and fills
/// it when the tuple ends: that keeps the order of tuples in every mode, and lets a helper load the place meanwhile.
#[derive(Debug)]
pub struct OutputSink<'a, T> {
    /// A pointer, not a reference: a helper thread may load a place while it is written.
    first: *mut T,
    places: Places,
    memory: PhantomData<&'a mut [T]>,
}

/// A sink of joined records.
pub type RowSink<'a> = OutputSink<'a, OutputRow>;

/// A sink of pairs of RIDs.
pub type PairSink<'a> = OutputSink<'a, RidPair>;

// SAFETY: it owns the mutable borrow of its places, like the slice it was made of.
unsafe impl<T: Send> Send for OutputSink<'_, T> {}

impl<'a, T: Plain> OutputSink<'a, T> {
    /// Room for as many results as `places`.
    pub fn new(places: &'a mut [T]) -> Self {
        Self::over(places, false)
    }

    /// As many results as there are: after the last place the first one is used again, as in an engine whose next
    /// operator takes a buffer of rows while they are in the cache. Only the last results remain.
    pub fn recycling(places: &'a mut [T]) -> Self {
        Self::over(places, true)
    }

    fn over(places: &'a mut [T], recycles: bool) -> Self {
        OutputSink {
            first: places.as_mut_ptr(),
            places: Places::new(places.len(), recycles),
            memory: PhantomData,
        }
    }

    /// Results so far.
    ///
    /// # Errors
    /// [`OutputFull`] when some found no room.
    pub fn finish(&self) -> Result<usize, OutputFull> {
        self.places.finish()
    }

    /// Takes the next place.
    #[inline(always)]
    pub fn reserve(&mut self) -> usize {
        self.places.take()
    }

    /// What a stage that writes this place needs; `None` when it is beyond the room.
    #[inline(always)]
    pub fn reference(&self, place: usize) -> Option<Reference<'a>> {
        (place < self.places.room).then(|| {
            // SAFETY: the place is in the slice, which is borrowed for `'a`.
            unsafe { Reference::at(self.first.add(place).cast()) }
        })
    }

    /// The memory of a place, which may be written; `None` when it is beyond the room.
    #[inline(always)]
    fn slot<C: Context<'a>>(&self, place: usize, context: &mut C) -> Option<*mut T> {
        (place < self.places.room).then(|| {
            // SAFETY: the place is in the slice.
            let slot = unsafe { self.first.add(place) };
            context.touch(Access::Store, slot.cast(), size_of::<T>());
            slot
        })
    }
}

impl<'a> PairSink<'a> {
    /// Writes the next pair.
    #[inline(always)]
    pub fn push<C: Context<'a>>(&mut self, pair: RidPair, context: &mut C) {
        let place = self.reserve();
        if let Some(slot) = self.slot(place, context) {
            // SAFETY: `slot` gives memory of the borrowed slice.
            unsafe { slot.write(pair) };
        }
    }
}

impl<'a> RowSink<'a> {
    /// Writes the next record.
    #[inline(always)]
    pub fn push<C: Context<'a>>(&mut self, left: &Row, right: &Row, context: &mut C) {
        let place = self.reserve();
        self.write(place, left, right, context);
    }

    /// Writes a reserved record.
    #[inline(always)]
    pub fn write<C: Context<'a>>(&mut self, place: usize, left: &Row, right: &Row, context: &mut C) {
        if let Some(slot) = self.slot(place, context) {
            // SAFETY: `slot` gives memory of the borrowed slice. The halves are written one by one so that no copy of the
            // whole record is made first.
            unsafe {
                (&raw mut (*slot).left).write(*left);
                (&raw mut (*slot).right).write(*right);
            }
        }
    }
}

/// Results of one worker as five columns: the key, then two attributes of each side (paper 000, section 6.4).
#[derive(Debug)]
pub struct ColumnSink<'a> {
    columns: [&'a mut [u32]; 5],
    places: Places,
}

impl<'a> ColumnSink<'a> {
    /// Room for as many results as the shortest column has elements: key, probe side's first and second attribute, build
    /// side's first and second attribute.
    pub fn new(columns: [&'a mut [u32]; 5]) -> Self {
        Self::over(columns, false)
    }

    /// As [`OutputSink::recycling`].
    pub fn recycling(columns: [&'a mut [u32]; 5]) -> Self {
        Self::over(columns, true)
    }

    fn over(columns: [&'a mut [u32]; 5], recycles: bool) -> Self {
        let room = columns.iter().map(|column| column.len()).min().unwrap_or(0);
        ColumnSink {
            columns: columns.map(|column| &mut column[..room]),
            places: Places::new(room, recycles),
        }
    }

    /// Results so far.
    ///
    /// # Errors
    /// [`OutputFull`] when some found no room.
    pub fn finish(&self) -> Result<usize, OutputFull> {
        self.places.finish()
    }

    /// Writes the next record.
    #[inline(always)]
    pub fn push<'c, C: Context<'c>>(&mut self, record: [u32; 5], context: &mut C) {
        let place = self.places.take();
        for (column, value) in self.columns.iter_mut().zip(record) {
            if let Some(slot) = column.get_mut(place) {
                context.touch(Access::Store, std::ptr::from_ref(slot).cast(), size_of::<u32>());
                *slot = value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Quiet;

    fn row(key: u32) -> Row {
        Row {
            key,
            payload: [key; 15],
        }
    }

    #[test]
    fn a_full_sink_counts_on_and_says_so() {
        let mut places = [OutputRow::default(); 2];
        let mut sink = RowSink::new(&mut places);
        for key in 1..=2 {
            sink.push(&row(key), &Row::ZERO, &mut Quiet);
        }
        assert_eq!(sink.finish(), Ok(2));
        sink.push(&row(3), &row(3), &mut Quiet);
        assert_eq!(sink.finish(), Err(OutputFull { needed: 3, room: 2 }));
        assert!(sink.reference(1).is_some() && sink.reference(2).is_none());
        assert_eq!(
            places.map(|place| (place.left.key, place.right.key)),
            [(1, 0), (2, 0)]
        );
    }

    #[test]
    fn a_recycling_sink_keeps_the_last() {
        let mut places = [RidPair::default(); 3];
        let mut sink = PairSink::recycling(&mut places);
        for outer in 0..7 {
            sink.push(RidPair { outer, inner: 9 }, &mut Quiet);
        }
        assert_eq!(sink.finish(), Ok(7));
        assert_eq!(places.map(|pair| pair.outer), [6, 4, 5]);

        let mut sink = PairSink::recycling(&mut []);
        sink.push(RidPair::default(), &mut Quiet);
        assert_eq!(sink.finish(), Err(OutputFull { needed: 1, room: 0 }));
    }

    #[test]
    fn the_shortest_column_is_the_room() {
        let (mut long, mut short) = ([0; 4], [0; 1]);
        let [mut a, mut b, mut c] = [[0; 2]; 3];
        let mut sink = ColumnSink::new([&mut long, &mut a, &mut b, &mut short, &mut c]);
        sink.push([1, 2, 3, 4, 5], &mut Quiet);
        sink.push([6, 7, 8, 9, 10], &mut Quiet);
        assert_eq!(sink.finish(), Err(OutputFull { needed: 2, room: 1 }));
        assert_eq!((long[0], a[0], b[0], short[0], c[0], long[1]), (1, 2, 3, 4, 5, 0));
    }
}
