//! [`Books`]: what must hold of pgbench's tables after its transfers, so that a commit that was lost or done twice is seen.
//!
//! Each transfer adds one amount to an account, a teller and a branch, and writes it into the history.

use super::client::Client;
use lab_core::error::BenchError;

/// The sums of balances before a turn, its history being empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Books {
    accounts: i64,
    tellers: i64,
    branches: i64,
}

/// Old versions of rows go, so that no turn finds more of them than another.
const TIDY: [&str; 4] = [
    "truncate pgbench_history",
    "vacuum pgbench_branches",
    "vacuum pgbench_tellers",
    "vacuum pgbench_accounts",
];

impl Books {
    /// Empties the history, tidies up and adds up.
    ///
    /// # Errors
    /// When the server fails.
    pub fn open(client: &mut Client) -> Result<Books, BenchError> {
        for statement in TIDY {
            client.run(statement)?;
        }
        Books::read(client)
    }

    fn read(client: &mut Client) -> Result<Books, BenchError> {
        let mut sum = |of: &str| Ok::<i64, BenchError>(client.numbers(of)?[0]);
        Ok(Books {
            accounts: sum("select sum(abalance) from pgbench_accounts")?,
            tellers: sum("select sum(tbalance) from pgbench_tellers")?,
            branches: sum("select sum(bbalance) from pgbench_branches")?,
        })
    }

    /// What does not hold after so many transfers; `None` if all does.
    ///
    /// # Errors
    /// When the server fails.
    pub fn close(self, client: &mut Client, transfers: u64) -> Result<Option<String>, BenchError> {
        let after = Books::read(client)?;
        let history = client.numbers("select count(*), coalesce(sum(delta), 0) from pgbench_history")?;
        Ok(self.wrong(after, transfers, (history[0], history[1])))
    }

    fn wrong(self, after: Books, transfers: u64, (written, moved): (i64, i64)) -> Option<String> {
        if u64::try_from(written) != Ok(transfers) {
            return Some(format!(
                "{transfers} transfers were answered, {written} are in the history"
            ));
        }
        for (what, before, after) in [
            ("accounts", self.accounts, after.accounts),
            ("tellers", self.tellers, after.tellers),
            ("branches", self.branches, after.branches),
        ] {
            if after - before != moved {
                let by = after - before;
                return Some(format!(
                    "balances of {what} moved by {by}, the history by {moved}"
                ));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_and_doubled_transfers_are_seen() {
        let books = |sum| Books {
            accounts: sum,
            tellers: sum + 1,
            branches: sum + 2,
        };
        assert_eq!(books(10).wrong(books(5), 3, (3, -5)), None);
        let of = |after, transfers, history| books(10).wrong(after, transfers, history).unwrap_or_default();
        assert!(of(books(5), 4, (3, -5)).contains("4 transfers"));
        assert!(of(books(5), 3, (-1, -5)).contains("-1"));
        let torn = Books {
            tellers: 7,
            ..books(5)
        };
        assert!(of(torn, 3, (3, -5)).contains("tellers"));
    }
}
