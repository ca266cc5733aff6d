//! [`Transfers`]: what must hold of pgbench's tables after its transfers, so that a commit that was lost or done twice is seen.
//!
//! Each transfer adds one amount to an account, a teller and a branch, and writes it into the history.

use crate::fixture::client::Client;
use crate::fixture::tally::Tally;
use lab_core::error::BenchError;

/// The sums of balances before a turn, its history being empty.
pub struct Transfers(Tally);

/// Old versions of rows go, so that no turn finds more of them than another.
const TIDY: [&str; 4] = [
    "truncate pgbench_history",
    "vacuum pgbench_branches",
    "vacuum pgbench_tellers",
    "vacuum pgbench_accounts",
];
/// Balances that move by what is transferred.
const BALANCES: [(&str, &str); 3] = [
    ("accounts", "select sum(abalance) from pgbench_accounts"),
    ("tellers", "select sum(tbalance) from pgbench_tellers"),
    ("branches", "select sum(bbalance) from pgbench_branches"),
];

impl Transfers {
    /// Empties the history, tidies up and adds up.
    pub fn open(client: &mut Client) -> Result<Transfers, BenchError> {
        client.run_all(TIDY)?;
        let balances = BALANCES.map(|(what, sql)| (what, sql.to_owned()));
        Tally::open(client, balances).map(Transfers)
    }

    /// What does not hold after so many transfers; `None` if all does.
    pub fn close(&self, client: &mut Client, transfers: u64) -> Result<Option<String>, BenchError> {
        let moved = self.0.moved(client)?;
        let history = client.numbers("select count(*), coalesce(sum(delta), 0) from pgbench_history")?;
        Ok(wrong(&moved, transfers, (history[0], history[1])))
    }
}

fn wrong(moved: &[(&str, i64)], transfers: u64, (written, sum): (i64, i64)) -> Option<String> {
    if u64::try_from(written) != Ok(transfers) {
        return Some(format!(
            "{transfers} transfers were answered, {written} are in the history"
        ));
    }
    let (what, by) = moved.iter().find(|(_, by)| *by != sum)?;
    Some(format!("balances of {what} moved by {by}, the history by {sum}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_and_doubled_transfers_are_seen() {
        let moved = |tellers| [("accounts", -5), ("tellers", tellers), ("branches", -5)];
        assert_eq!(wrong(&moved(-5), 3, (3, -5)), None);
        let of = |tellers, transfers, history| wrong(&moved(tellers), transfers, history).unwrap_or_default();
        assert!(of(-5, 4, (3, -5)).contains("4 transfers"));
        assert!(of(-5, 3, (-1, -5)).contains("-1"));
        assert!(of(-4, 3, (3, -5)).contains("tellers"));
    }
}
