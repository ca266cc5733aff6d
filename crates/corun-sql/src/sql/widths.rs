//! How wide the columns of a table are where a line has only so many characters.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Characters between two columns: ` | `.
pub const SEPARATOR_CHARS: usize = 3;

/// No column is cut to fewer characters.
const COLUMN_CHARS_MIN: usize = 6;

/// Columns of a table as they are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Widths {
    /// Characters of each column that is shown, the first ones of all.
    pub shown: Vec<usize>,
    /// Whether others are not.
    pub more: bool,
}

impl Widths {
    /// Columns of a line of at most `line` characters: the widest give way first, text before numbers; where even narrow ones do not fit, the
    /// last are left out.
    pub fn within(line: Option<usize>, whole: &[usize], numeric: &[bool]) -> Widths {
        let mut shown = whole.to_vec();
        let Some(line) = line else {
            return Widths { shown, more: false };
        };
        // A blank at the beginning, separators between.
        let chars = |shown: &[usize], more: bool| {
            let columns = shown.iter().sum::<usize>() + shown.len().saturating_sub(1) * SEPARATOR_CHARS + 1;
            columns + usize::from(more) * (SEPARATOR_CHARS + 1)
        };
        let narrow = |width: &usize| (*width).min(COLUMN_CHARS_MIN);
        let mut more = false;
        while shown.len() > 1 && chars(&shown.iter().map(narrow).collect::<Vec<_>>(), more) > line {
            shown.pop();
            more = true;
        }
        for width in &mut shown {
            *width = (*width).min(line);
        }
        let mut excess = chars(&shown, more).saturating_sub(line);
        while excess > 0 {
            let can_shrink = |at: &usize| shown[*at] > COLUMN_CHARS_MIN;
            let texts = (0..shown.len()).filter(|at| !numeric[*at]);
            let widest = texts.filter(can_shrink).max_by_key(|at| shown[*at]);
            let widest = widest.or_else(|| (0..shown.len()).filter(can_shrink).max_by_key(|at| shown[*at]));
            let Some(widest) = widest else { break };
            shown[widest] -= 1;
            excess -= 1;
        }
        Widths { shown, more }
    }

    /// Whether anything of columns that are `whole` is not shown.
    pub fn is_cut(&self, whole: &[usize]) -> bool {
        self.more || self.shown != whole
    }
}

/// The cell in at most `width` characters; what is cut off is marked by `…`.
pub fn cut(cell: &str, width: usize) -> Cow<'_, str> {
    if cell.width() <= width {
        return Cow::Borrowed(cell);
    }
    let mut used = 1;
    let end = cell.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > width
    });
    let end = end.map_or(cell.len(), |(at, _)| at);
    Cow::Owned(format!("{}\u{2026}", &cell[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(line: usize, whole: &[usize]) -> (Vec<usize>, bool) {
        let widths = Widths::within(Some(line), whole, &vec![false; whole.len()]);
        (widths.shown, widths.more)
    }

    #[test]
    fn the_widest_give_way_first() {
        assert_eq!(within(80, &[10, 20]), (vec![10, 20], false));
        assert_eq!(within(24, &[10, 20]), (vec![10, 10], false));
        assert_eq!(within(16, &[10, 20]), (vec![6, 6], false));
        assert_eq!(within(18, &[2, 3, 20]), (vec![2, 3, 6], false));
        assert_eq!(within(16, &[2, 3, 20]), (vec![2, 3], true));
        assert_eq!(within(80, &[1 << 40]), (vec![79], false));
    }

    #[test]
    fn lines_are_never_longer() {
        for columns in 1..40 {
            for line in 12..100 {
                let whole: Vec<usize> = (0..columns).map(|at| (at * 7) % 23).collect();
                let (shown, more) = within(line, &whole);
                let chars = 1 + shown.iter().sum::<usize>() + (shown.len() - 1) * 3 + usize::from(more) * 4;
                assert!(chars <= line, "{columns} columns in {line}: {shown:?}");
                assert_eq!(more, shown.len() < columns);
            }
        }
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(cut("漢字", 4), "漢字");
        assert_eq!(cut("漢字漢", 5), "漢字\u{2026}");
        assert_eq!(cut("漢字漢", 4), "漢\u{2026}");
        assert_eq!(cut("abc", 2), "a\u{2026}");
        assert_eq!(cut("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}\u{2026}");
    }
}
