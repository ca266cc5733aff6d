//! [`View`]: what is shown of one moment, whichever server it is of.

use super::grid::Grid;

/// A line above the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// What it is about.
    pub name: &'static str,
    /// What there is to say.
    pub text: String,
    /// Whether somebody should look.
    pub is_warning: bool,
}

/// One moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Name and version of the server.
    pub title: String,
    /// The lines about all together.
    pub summary: Vec<Line>,
    /// Its tables, always in the same order.
    pub grids: Vec<Grid>,
    /// Those that follow these are shown only where they have rows.
    pub always: usize,
}

impl View {
    /// Whether a table is to be seen.
    pub fn is_shown(&self, at: usize) -> bool {
        at < self.always || self.grids.get(at).is_some_and(|grid| !grid.rows.is_empty())
    }
}
