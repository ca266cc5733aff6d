//! What nodes of corun say of themselves in `EXPLAIN` by the words of the stock nodes that they stand for.

use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use std::fmt;

/// What stands behind `mark` in the line that `stock` prints; all of it where the mark is not there.
pub(crate) fn behind(mark: &str, stock: &impl DisplayAs) -> String {
    struct Line<'a, T>(&'a T);
    impl<T: DisplayAs> fmt::Display for Line<'_, T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt_as(DisplayFormatType::Default, f)
        }
    }
    let line = Line(stock).to_string();
    match line.split_once(mark) {
        Some((_, rest)) => rest.to_owned(),
        None => line,
    }
}
