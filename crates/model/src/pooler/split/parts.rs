//! [`Parts`]: into how many parts a query is split.

use super::history::History;

/// The choice; the state is the query shape's [`History`].
#[derive(Clone, Copy, Debug)]
pub struct Parts;

impl Parts {
    /// Into how many parts the next run is split: 1 (it runs whole) to the smaller of `free_cores` and `parts_max`. Never as many as
    /// possible (section 3.2): as many as the history says pay. Now and then it answers a number that must be tried again; it counts
    /// those, so it must be called once for each run.
    pub fn choose(history: &mut History, free_cores: usize, parts_max: usize) -> usize {
        history.choose(free_cores.min(parts_max))
    }
}

/// Cores that nobody keeps busy, given the backends that run something; the one the query itself would run on counts as free. A split takes only those, so that under load, when others would wait for them, queries run whole.
pub fn free_cores(cores: usize, busy: usize) -> usize {
    cores.saturating_sub(busy)
}
