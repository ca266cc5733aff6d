//! [`Layouts`]: those a table has had, of which rows may still be. Nobody waits to read them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::{Layout, RowRef};
use crate::schema::{COLUMNS_MAX, ColumnDef};
use crate::ts::Ts;
use crate::version::VersionPtr;

/// The layouts of a table, the oldest first. One is added at a time.
pub(crate) struct Layouts {
    first: Arc<Layout>,
    /// Those behind the first; made with the second. Each adds a column, so there are fewer than columns can be.
    later: OnceLock<Box<[OnceLock<Arc<Layout>>]>>,
    newest: AtomicUsize,
}

impl Layouts {
    /// Of columns that were checked.
    pub(crate) fn new(columns: Vec<ColumnDef>) -> Self {
        Layouts {
            first: Layout::new(columns, 0, Ts::ZERO),
            later: OnceLock::new(),
            newest: AtomicUsize::new(0),
        }
    }

    /// The layout of new rows.
    #[inline]
    pub(crate) fn newest(&self) -> &Arc<Layout> {
        self.numbered(self.newest.load(Ordering::Acquire))
    }

    #[inline]
    fn numbered(&self, number: usize) -> &Arc<Layout> {
        match number {
            0 => &self.first,
            later => self.later(later).expect("rows have layouts of their table"),
        }
    }

    #[cold]
    fn later(&self, number: usize) -> Option<&Arc<Layout>> {
        self.later.get()?.get(number.checked_sub(1)?)?.get()
    }

    /// The layout that rows had at a commit.
    pub(crate) fn at(&self, ts: Ts) -> &Arc<Layout> {
        let newest = self.newest.load(Ordering::Acquire);
        let at = (1..=newest)
            .rev()
            .find(|&number| self.numbered(number).since() <= ts);
        self.numbered(at.unwrap_or(0))
    }

    /// When each layout behind the first was made.
    pub(crate) fn additions(&self) -> impl Iterator<Item = Ts> {
        let newest = self.newest.load(Ordering::Acquire);
        (1..=newest).map(|number| self.numbered(number).since())
    }

    /// Whether the layout is one of them.
    #[inline]
    pub(crate) fn has(&self, layout: &Arc<Layout>) -> bool {
        Arc::ptr_eq(layout, &self.first)
            || (self.later(usize::from(layout.number()))).is_some_and(|known| Arc::ptr_eq(known, layout))
    }

    /// Adds a column, which was checked, to the rows that are written from now on: by the commit `since`.
    pub(crate) fn add(&self, column: ColumnDef, since: Ts) {
        let number = self.newest.load(Ordering::Acquire) + 1;
        let later = (self.later).get_or_init(|| (1..COLUMNS_MAX).map(|_| OnceLock::new()).collect());
        let place = &later[number - 1];
        // Rows may lead to the layout, so it is there first.
        let layout = place.get_or_init(|| Arc::clone(self.numbered(number - 1).add(column, since)));
        debug_assert_eq!(usize::from(layout.number()), number);
        self.newest.store(number, Ordering::Release);
    }

    /// A version's row; none of one that says "deleted".
    ///
    /// # Safety
    /// As of [`VersionPtr::row`].
    #[inline]
    pub(crate) unsafe fn row<'a>(&'a self, version: VersionPtr) -> Option<RowRef<'a>> {
        // SAFETY: the caller keeps the version.
        let bytes = unsafe { version.row::<'a>() }?;
        Some(RowRef::new(self.numbered(usize::from(version.layout())), bytes))
    }
}
