//! [`Books`]: what purchases must leave behind, so that an order that was lost, entered twice or torn is seen.

use super::interactions::LINES;
use crate::pooler::client::Client;
use lab_core::error::BenchError;

/// Counts before a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Books {
    last: i64,
    orders: i64,
    lines: i64,
    paid: i64,
}

impl Books {
    /// Counts what there is.
    ///
    /// # Errors
    /// When the server fails.
    pub fn open(client: &mut Client) -> Result<Books, BenchError> {
        let last = client.numbers("select coalesce(max(o_id), 0) from orders")?[0];
        Books::above(client, last)
    }

    /// Counts what has a number above `last`; only new rows are looked at.
    fn above(client: &mut Client, last: i64) -> Result<Books, BenchError> {
        let mut count = |table: &str, column: &str| {
            let found = client.numbers(&format!("select count(*) from {table} where {column} > {last}"))?;
            Ok::<i64, BenchError>(found[0])
        };
        Ok(Books {
            last,
            orders: count("orders", "o_id")?,
            lines: count("order_line", "ol_o_id")?,
            paid: count("cc_xacts", "cx_o_id")?,
        })
    }

    /// What does not hold after so many purchases; `None` if all does.
    ///
    /// # Errors
    /// When the server fails.
    pub fn close(self, client: &mut Client, purchases: u64) -> Result<Option<String>, BenchError> {
        let after = Books::above(client, self.last)?;
        Ok(self.wrong(after, purchases))
    }

    fn wrong(self, after: Books, purchases: u64) -> Option<String> {
        let purchases = i64::try_from(purchases).unwrap_or(i64::MAX);
        for (what, before, after, each) in [
            ("orders", self.orders, after.orders, 1),
            ("order lines", self.lines, after.lines, LINES),
            ("payments", self.paid, after.paid, 1),
        ] {
            let came = after - before;
            if came != purchases * each {
                return Some(format!(
                    "{purchases} purchases were answered, but {came} {what} came"
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
    fn lost_doubled_and_torn_purchases_are_seen() {
        let books = |orders, lines, paid| Books {
            last: 10,
            orders,
            lines,
            paid,
        };
        let before = books(0, 0, 0);
        assert_eq!(before.wrong(books(2, 6, 2), 2), None);
        let wrong = |after, purchases| before.wrong(after, purchases).unwrap_or_default();
        assert!(wrong(books(2, 6, 2), 3).contains("2 orders"));
        assert!(wrong(books(2, 5, 2), 2).contains("5 order lines"));
        assert!(wrong(books(2, 6, 1), 2).contains("1 payments"));
    }
}
