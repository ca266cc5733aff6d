//! [`Grid`]: a table that can be sorted and cut to a width, for terminals and for text alike.

use std::cmp::Ordering;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::units::UNKNOWN;

/// Between two columns.
const GAP: usize = 2;
/// No text is cut shorter than this.
const TEXT_WIDTH_MIN: usize = 8;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text, to the left.
    Text(String),
    /// A number as shown, to the right, and what it is sorted by.
    Number(String, f64),
    /// A number that is not known.
    Unknown,
}

impl Cell {
    /// A number, shown by `show`, or unknown.
    pub fn maybe<T: Copy>(value: Option<T>, number: impl Fn(T) -> f64, show: impl Fn(T) -> String) -> Self {
        value.map_or(Self::Unknown, |value| Self::Number(show(value), number(value)))
    }

    fn shown(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(text, _) => text,
            Self::Unknown => UNKNOWN,
        }
    }

    /// Names by the alphabet, numbers by size, the unknown below all.
    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(mine), Self::Text(theirs)) => mine.cmp(theirs),
            (Self::Number(_, mine), Self::Number(_, theirs)) => mine.total_cmp(theirs),
            (Self::Unknown, Self::Unknown) => Ordering::Equal,
            (Self::Unknown, _) => Ordering::Less,
            (_, Self::Unknown) => Ordering::Greater,
            (Self::Text(_), Self::Number(..)) => Ordering::Less,
            (Self::Number(..), Self::Text(_)) => Ordering::Greater,
        }
    }
}

/// A heading: its words, and whether the column holds numbers.
pub type Heading = (&'static str, bool);

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// What it is about.
    pub title: &'static str,
    /// A heading for each column.
    pub headings: &'static [Heading],
    /// A cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// By which column a grid is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The column; `None`: as the console has it.
    pub column: Option<usize>,
    /// The smallest first.
    pub ascending: bool,
}

impl Grid {
    /// Sorts the rows; those that are equal stay as they were.
    pub fn sort(&mut self, order: Order) {
        let Some(column) = order.column.filter(|column| *column < self.headings.len()) else {
            return;
        };
        self.rows.sort_by(|mine, theirs| {
            let found = mine[column].order(&theirs[column]);
            if order.ascending { found } else { found.reverse() }
        });
    }

    /// The heading and the rows as lines of at most `width` columns: texts are shortened first, then columns are left out
    /// from the right. `sorted` is marked.
    pub fn lines(&self, width: usize, sorted: Order) -> (String, Vec<String>) {
        let heads: Vec<String> = self
            .headings
            .iter()
            .enumerate()
            .map(|(at, (name, _))| match sorted.column == Some(at) {
                true if sorted.ascending => format!("{name}↑"),
                true => format!("{name}↓"),
                false => (*name).to_owned(),
            })
            .collect();
        let widths = self.widths(&heads, width);
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for (at, (cell, &width)) in cells.zip(&widths).enumerate() {
                if at > 0 {
                    line.push_str(&" ".repeat(GAP));
                }
                let cell = cut(cell, width);
                let blanks = " ".repeat(width.saturating_sub(cell.width()));
                if self.headings[at].1 {
                    line.push_str(&blanks);
                    line.push_str(&cell);
                } else {
                    line.push_str(&cell);
                    line.push_str(&blanks);
                }
            }
            line.trim_end().to_owned()
        };
        let head = line(&mut heads.iter().map(String::as_str));
        let rows = self.rows.iter().map(|row| line(&mut row.iter().map(Cell::shown)));
        (head, rows.collect())
    }

    /// The width of each column that is shown.
    fn widths(&self, heads: &[String], width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = heads.iter().map(|head| head.width()).collect();
        for row in &self.rows {
            for (wide, cell) in widths.iter_mut().zip(row) {
                *wide = (*wide).max(cell.shown().width());
            }
        }
        let total = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        while total(&widths) > width {
            let over = total(&widths) - width;
            let texts = (0..widths.len()).filter(|&at| !self.headings[at].1);
            let widest = texts.max_by_key(|&at| widths[at]);
            match widest {
                Some(at) if widths[at] > TEXT_WIDTH_MIN => {
                    // By turns, so that two long texts end up equally long.
                    let next = (0..widths.len())
                        .filter(|&other| other != at && !self.headings[other].1)
                        .map(|other| widths[other])
                        .max()
                        .unwrap_or(0);
                    let floor = TEXT_WIDTH_MIN.max(next.min(widths[at] - 1));
                    widths[at] = floor.max(widths[at].saturating_sub(over));
                }
                _ if widths.len() > 1 => {
                    widths.pop();
                }
                _ => {
                    widths[0] = width;
                    break;
                }
            }
        }
        widths
    }
}

/// A text of at most `width` columns, with a mark where it was cut. Control characters are shown as blanks.
fn cut(text: &str, width: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    if text.width() <= width {
        return text.chars().map(clean).collect();
    }
    let mut short = String::new();
    let mut used = 0;
    for c in text.chars().map(clean) {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        used += wide;
        short.push(c);
    }
    if width > 0 {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let row = |name: &str, host: &str, value: Option<f64>| {
            vec![
                Cell::Text(name.to_owned()),
                Cell::Text(host.to_owned()),
                Cell::maybe(value, |value| value, |value| format!("{value}")),
            ]
        };
        Grid {
            title: "Things",
            headings: &[("name", false), ("host", false), ("value", true)],
            rows: vec![
                row("b", "db1", Some(10.0)),
                row("a", "a-host-with-a-long-name", Some(9.0)),
                row("c", "db2", None),
            ],
        }
    }

    fn names(grid: &Grid) -> String {
        grid.rows.iter().map(|row| row[0].shown()).collect()
    }

    #[test]
    fn numbers_are_sorted_by_size_and_the_unknown_come_last() {
        let mut grid = grid();
        let by = |column, ascending| Order {
            column: Some(column),
            ascending,
        };
        grid.sort(by(2, false));
        assert_eq!(names(&grid), "bac");
        grid.sort(by(2, true));
        assert_eq!(names(&grid), "cab");
        grid.sort(by(0, true));
        assert_eq!(names(&grid), "abc");
        grid.sort(by(9, true));
        assert_eq!(names(&grid), "abc");
    }

    #[test]
    fn lines_are_aligned_and_cut() {
        let (head, rows) = grid().lines(80, Order::default());
        assert_eq!(head, "name  host                     value");
        assert_eq!(rows[0], "b     db1                         10");
        assert_eq!(rows[2], "c     db2                          -");
        let (head, rows) = grid().lines(
            25,
            Order {
                column: Some(2),
                ascending: false,
            },
        );
        assert_eq!(head, "name  host         value↓");
        assert_eq!(rows[1], "a     a-host-wit…       9");
        // No room for the numbers.
        let (head, rows) = grid().lines(14, Order::default());
        assert_eq!(
            (head.as_str(), rows[1].as_str()),
            ("name  host", "a     a-host-…")
        );
        for width in 0..60 {
            let (head, rows) = grid().lines(width, Order::default());
            assert!(
                head.width() <= width && rows.iter().all(|row| row.width() <= width),
                "{width}"
            );
        }
    }

    #[test]
    fn what_a_terminal_could_take_for_an_order_is_not_shown() {
        assert_eq!(cut("a\u{1b}[2Jb\n", 20), "a [2Jb ");
        assert_eq!(cut("äöü漢字", 5), "äöü…");
        assert_eq!(cut("abc", 0), "");
    }
}
