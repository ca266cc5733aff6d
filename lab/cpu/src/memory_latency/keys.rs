//! The parameters of every row of the suite `memory-latency`, under the names that scripts rely on.

use corun_model::operators::mode::{Hiding, Mode, Staging, Threads};
use corun_model::operators::placement::Placement;

use lab_core::row::{Row, Value};

/// The name of the suite in rows.
pub const SUITE: &str = "smt";

/// The modes column of a choice left to `corun_model::operators::technique`.
pub const AUTO: &str = "auto";

/// Where a case stands: everything about its rows but the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stand {
    /// The paper's figure or table, such as `4a`, or the name of an experiment it has no figure for.
    pub figure: &'static str,
    /// The name of the case; `--case` selects by it.
    pub case: &'static str,
    /// `index`, `hash_join`, `join_index`, `join_index_outer`, ...
    pub operator: &'static str,
    /// How data is laid out: `csb_tree`, `paper_rows`, ...
    pub layout: &'static str,
    /// `clustered` or `unclustered`.
    pub stream: &'static str,
}

/// All stable parameters of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The case.
    pub stand: Stand,
    /// The whole mode, or [`AUTO`], or the name of an experiment that is no mode.
    pub mode: String,
    /// What the mode is made of.
    pub parts: Mode,
    /// Where the second thread ran.
    pub placement: Placement,
}

impl Keys {
    /// Of a mode.
    pub fn of(stand: Stand, mode: Mode, placement: Placement) -> Keys {
        Keys {
            stand,
            mode: mode.to_string(),
            parts: mode,
            placement,
        }
    }

    /// Under another name.
    pub fn named(mut self, mode: &str) -> Keys {
        self.mode = mode.to_string();
        self
    }

    /// Adds the parameters to a row; `thread_role` says whose numbers it has.
    pub fn put(&self, row: Row, thread_role: &str) -> Row {
        let row = row
            .with("figure", self.stand.figure)
            .with("operator", self.stand.operator)
            .with("layout", self.stand.layout)
            .with("stream", self.stand.stream)
            .with("threads", threads(self.parts.threads))
            .with("staging", staging(self.parts.staging))
            .with("prefetch", prefetch(self.parts.hiding))
            .with("mode", self.mode.as_str())
            .with("placement", self.placement.to_string());
        let row = match self.parts.hiding {
            Hiding::WorkAhead(set) => row.with("entries", u64::from(set.lines)),
            _ => row,
        };
        row.with("thread_role", thread_role)
    }
}

/// `one`, `two`, `bi2`, `bi3`, ...
fn threads(threads: Threads) -> Value {
    match threads {
        Threads::One => Value::from("one"),
        Threads::TwoIndependent => Value::from("two"),
        Threads::BiThreaded(threads) => Value::from(format!("bi{threads}")),
    }
}

fn staging(staging: Staging) -> &'static str {
    match staging {
        Staging::Plain => "plain",
        Staging::Staged => "staged",
    }
}

/// `none`, `group32`, ...; a work-ahead set is no prefetch.
fn prefetch(hiding: Hiding) -> String {
    match hiding {
        Hiding::WorkAhead(_) => Hiding::None.to_string(),
        Hiding::None | Hiding::Prefetch { .. } => hiding.to_string(),
    }
}

/// Thread role of rows about a whole run.
pub const ALL_THREADS: &str = "all";

#[cfg(test)]
mod tests {
    use corun_model::operators::mode::{Schedule, WorkAhead};

    use super::*;

    const STAND: Stand = Stand {
        figure: "4a",
        case: "fig4a_index",
        operator: "index",
        layout: "csb_tree",
        stream: "clustered",
    };

    fn put(mode: Mode) -> Row {
        let row = Row::unavailable(SUITE, STAND.case, "ratio", "x", "a test");
        Keys::of(STAND, mode, Placement::Cores).put(row, ALL_THREADS)
    }

    #[test]
    fn every_row_has_the_stable_keys_in_their_order() {
        let row = put(Mode::staged(Threads::One, Hiding::WorkAhead(WorkAhead::PAPER)));
        let keys: Vec<&str> = row.parameters.iter().map(|(key, _)| key.as_str()).collect();
        let stable = "reason figure operator layout stream threads staging prefetch mode placement entries thread_role";
        assert_eq!(keys.join(" "), stable);
        assert_eq!(row.parameter("entries"), Some(&Value::Integer(128)));
        assert_eq!(row.text("mode"), "one/staged/workahead128-backward-spin");
        assert_eq!(row.text("prefetch"), "none");
    }

    #[test]
    fn entries_are_left_out_where_there_is_no_set() {
        let group = Hiding::Prefetch {
            schedule: Schedule::Group,
            distance: 32,
        };
        let row = put(Mode::staged(Threads::BiThreaded(2), group));
        assert_eq!(row.parameter("entries"), None);
        let values = ["threads", "staging", "prefetch", "mode", "placement"].map(|key| row.text(key));
        assert_eq!(
            values,
            ["bi2", "staged", "group32", "bi2/staged/group32", "cores"]
        );
    }
}
