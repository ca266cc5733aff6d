//! [`Layouts`]: the shapes of a table, one for each change of its columns, and how rows of before are read. Nobody waits to read them.
//!
//! ```text
//! shape 0 ◄── shape 1 ◄── shape 3      a transaction changes the columns: `newest` is its shape, for who has the table locked
//!                │                     commit: all are shown it; rollback: the shape before is the newest again
//!             shown to all
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

use super::layout::Newest;
use super::{Layout, RowRef};
use crate::schema::ColumnDef;
use crate::ts::Ts;
use crate::version::VersionPtr;

/// Shapes of the first part; each further part has as many as all before it.
const FIRST: usize = 8;
const PARTS: usize = 14;
/// Shapes a table can have.
pub(crate) const SHAPES_MAX: usize = FIRST << (PARTS - 1);
const _: () = assert!(SHAPES_MAX <= 1 << 16);

/// The shapes of a table. One transaction at a time adds some, which has the table locked exclusively.
pub(crate) struct Layouts {
    first: Shape,
    later: [OnceLock<Box<[OnceLock<Shape>]>>; PARTS],
    /// That of new rows.
    newest: AtomicUsize,
    /// That of readers without the table's lock.
    shown: AtomicUsize,
    /// The number of the next.
    next: AtomicUsize,
    /// For rows that were begun in an older shape.
    table: Arc<Newest>,
}

/// The columns of a table up to the next change of them.
struct Shape {
    layout: Arc<Layout>,
    /// The one it was made of.
    before: usize,
    /// The commit that made it.
    since: AtomicU64,
    /// Whether it has a column more than the one before.
    adds: bool,
    undone: AtomicBool,
    /// By the number of their layout, how rows of before are read; made when the first is.
    older: OnceLock<Box<[OnceLock<Arc<Layout>>]>>,
}

impl Shape {
    fn new(layout: Arc<Layout>, before: usize, adds: bool) -> Self {
        Shape {
            older: OnceLock::new(),
            layout,
            before,
            since: AtomicU64::new(0),
            adds,
            undone: AtomicBool::new(false),
        }
    }
}

/// The part of a shape, and its place there.
fn place(number: usize) -> (usize, usize) {
    let part = (usize::BITS - (number / FIRST).leading_zeros()) as usize;
    let first = if part == 0 { 0 } else { FIRST << (part - 1) };
    (part, number - first)
}

impl Layouts {
    /// Of columns that were checked.
    pub(crate) fn new(columns: Vec<ColumnDef>) -> Self {
        let table = Arc::new(RwLock::new(None));
        let layout = Layout::of_table(columns, (0, 0), Arc::downgrade(&table));
        *table.write() = Some(Arc::clone(&layout));
        Layouts {
            first: Shape::new(layout, 0, false),
            later: std::array::from_fn(|_| OnceLock::new()),
            newest: AtomicUsize::new(0),
            shown: AtomicUsize::new(0),
            next: AtomicUsize::new(1),
            table,
        }
    }

    #[inline]
    fn shape(&self, number: usize) -> &Shape {
        match number {
            0 => &self.first,
            later => self.later(later).expect("rows have layouts of their table"),
        }
    }

    fn later(&self, number: usize) -> Option<&Shape> {
        let (part, at) = place(number);
        self.later[part].get()?.get(at)?.get()
    }

    fn at_newest(&self) -> usize {
        self.newest.load(Ordering::Acquire)
    }

    fn at_shown(&self) -> usize {
        self.shown.load(Ordering::Acquire)
    }

    /// The layout of new rows, for who has the table locked.
    #[inline]
    pub(crate) fn newest(&self) -> &Arc<Layout> {
        &self.shape(self.at_newest()).layout
    }

    /// The layout of what is committed.
    #[inline]
    pub(crate) fn shown(&self) -> &Arc<Layout> {
        &self.shape(self.at_shown()).layout
    }

    /// The shapes that are shown, the newest first.
    fn committed(&self) -> impl Iterator<Item = &Shape> {
        let mut next = Some(self.at_shown());
        std::iter::from_fn(move || {
            let number = next?;
            let shape = self.shape(number);
            next = (number > 0).then_some(shape.before);
            Some(shape)
        })
    }

    /// The layout that rows had at a commit.
    pub(crate) fn at(&self, ts: Ts) -> &Arc<Layout> {
        let mut shapes = self.committed();
        let at = shapes.find(|shape| shape.since.load(Ordering::Acquire) <= ts.0);
        &at.unwrap_or(&self.first).layout
    }

    /// The commits that added the last columns of what is shown.
    pub(crate) fn additions(&self) -> Vec<Ts> {
        let added = self.committed().filter(|shape| shape.adds);
        let mut added: Vec<Ts> = added
            .map(|shape| Ts(shape.since.load(Ordering::Acquire)))
            .collect();
        added.reverse();
        added
    }

    /// How many of the last columns rows of before may lack, by who has the table locked.
    pub(crate) fn added(&self) -> usize {
        self.newest().columns() - self.first.layout.columns()
    }

    /// Whether the layout is of one of them.
    #[inline]
    pub(crate) fn has(&self, layout: &Arc<Layout>) -> bool {
        if Arc::ptr_eq(layout, &self.first.layout) {
            return true;
        }
        let shape = self.later(usize::from(layout.shape()));
        shape.is_some_and(|shape| Arc::ptr_eq(layout, &shape.layout) && !shape.undone.load(Ordering::Acquire))
    }

    /// Whether there can be another shape.
    pub(crate) fn has_room(&self) -> bool {
        self.next.load(Ordering::Acquire) < SHAPES_MAX
    }

    /// Gives rows that are written from now on other columns, which were checked: those there are in their order, with other names and defaults
    /// perhaps, and more behind them. Nobody is shown them yet. Returns the shape before, for [`Layouts::undo_to`].
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn change(&self, columns: Vec<ColumnDef>) -> usize {
        let before = self.at_newest();
        let number = self.next.fetch_add(1, Ordering::AcqRel);
        assert!(number < SHAPES_MAX, "who changes columns asks for room first");
        let old = &self.shape(before).layout;
        let adds = columns.len() > old.columns();
        let bytes_of = if adds { number as u16 } else { old.number() };
        let layout = Layout::of_table(columns, (bytes_of, number as u16), Arc::downgrade(&self.table));
        let (part, at) = place(number);
        let shapes = self.later[part].get_or_init(|| {
            let shapes = FIRST << part.saturating_sub(1);
            (0..shapes).map(|_| OnceLock::new()).collect()
        });
        shapes[at].get_or_init(|| Shape::new(layout, before, adds));
        // Rows may lead to the shape, so it is there first.
        self.newest.store(number, Ordering::Release);
        before
    }

    /// Takes back what was changed behind a shape.
    pub(crate) fn undo_to(&self, shape: usize) {
        let newest = self.newest.swap(shape, Ordering::AcqRel);
        let mut number = newest;
        while number != shape {
            let undone = self.shape(number);
            undone.undone.store(true, Ordering::Release);
            number = undone.before;
        }
    }

    /// Shows all what was changed, by the commit `since`, before anybody can know of that.
    pub(crate) fn show(&self, since: Ts) {
        let (newest, shown) = (self.at_newest(), self.at_shown());
        let mut number = newest;
        while number != shown {
            let shape = self.shape(number);
            shape.since.store(since.0, Ordering::Release);
            number = shape.before;
        }
        *self.table.write() = Some(Arc::clone(&self.shape(newest).layout));
        self.shown.store(newest, Ordering::Release);
    }

    /// A version's row; none of one that says "deleted". For who has the table locked.
    ///
    /// # Safety
    /// As of [`VersionPtr::row`].
    #[inline]
    pub(crate) unsafe fn row<'a>(&'a self, version: VersionPtr) -> Option<RowRef<'a>> {
        // SAFETY: the caller keeps the version.
        let bytes = unsafe { version.row::<'a>() }?;
        Some(RowRef::new(self.read_in(self.at_newest(), version), bytes))
    }

    /// The same as all are shown it.
    ///
    /// # Safety
    /// As of [`VersionPtr::row`].
    #[inline]
    pub(crate) unsafe fn shown_row<'a>(&'a self, version: VersionPtr) -> Option<RowRef<'a>> {
        // SAFETY: the caller keeps the version.
        let bytes = unsafe { version.row::<'a>() }?;
        Some(RowRef::new(self.read_in(self.at_shown(), version), bytes))
    }

    /// How a version is read in a shape.
    #[inline]
    fn read_in(&self, shape: usize, version: VersionPtr) -> &Layout {
        let (shape, number) = (self.shape(shape), version.layout());
        match number == shape.layout.number() {
            true => &shape.layout,
            false => self.read_older(shape, usize::from(number)),
        }
    }

    fn read_older<'a>(&'a self, shape: &'a Shape, number: usize) -> &'a Layout {
        let bytes_of = &self.shape(number).layout;
        let numbers = 0..shape.layout.number();
        let older = (shape.older).get_or_init(|| numbers.map(|_| OnceLock::new()).collect());
        match older.get(number) {
            Some(older) => older.get_or_init(|| bytes_of.shown_as(&shape.layout)),
            // A row that its transaction is taking back just now.
            None => bytes_of,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::TableDef;
    use crate::value::Type;

    fn columns(count: usize) -> Vec<ColumnDef> {
        let table = (0..count).fold(TableDef::new("t"), |table, at| {
            table.column(&format!("c{at}"), Type::I64)
        });
        table.columns
    }

    #[test]
    fn every_shape_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for number in 0..SHAPES_MAX {
            assert_eq!(place(number), expected);
            expected.1 += 1;
            if expected.1 == FIRST << expected.0.saturating_sub(1) {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(place(SHAPES_MAX - 1).0, PARTS - 1);
    }

    #[test]
    fn what_is_taken_back_is_nobodys_and_what_is_shown_is_known_by_its_commit() {
        let layouts = Layouts::new(columns(1));
        let first = Arc::clone(layouts.newest());
        let before = layouts.change(columns(2));
        let undone = Arc::clone(layouts.newest());
        assert!(Arc::ptr_eq(layouts.shown(), &first) && layouts.has(&undone));
        layouts.undo_to(before);
        assert!(Arc::ptr_eq(layouts.newest(), &first) && !layouts.has(&undone) && layouts.has(&first));
        layouts.change(columns(2));
        layouts.change(columns(3));
        layouts.show(Ts(7));
        let mut renamed = columns(3);
        renamed[0].name = "other".to_owned();
        layouts.change(renamed);
        layouts.show(Ts(9));
        assert_eq!((layouts.additions(), layouts.added()), (vec![Ts(7), Ts(7)], 2));
        let names = |ts| layouts.at(Ts(ts)).definitions()[0].name.clone();
        assert_eq!([names(6), names(8), names(9)], ["c0", "c0", "other"]);
        assert_eq!([6, 7].map(|ts| layouts.at(Ts(ts)).columns()), [1, 3]);
        assert_eq!(
            layouts.at(Ts(8)).number(),
            layouts.newest().number(),
            "its bytes are the same"
        );
    }

    #[test]
    fn there_is_an_end_of_changes() {
        let layouts = Layouts::new(columns(1));
        for _ in 1..SHAPES_MAX {
            assert!(layouts.has_room());
            let before = layouts.change(columns(2));
            layouts.undo_to(before);
        }
        assert!(!layouts.has_room());
    }
}
