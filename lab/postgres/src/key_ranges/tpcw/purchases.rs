//! [`Purchases`]: what purchases must leave behind, so that an order that was lost, entered twice or torn is seen.

use super::interactions::LINES;
use crate::fixture::client::Client;
use crate::fixture::tally::Tally;
use lab_core::error::BenchError;

/// What each purchase adds, and how many rows of it: the table, its column with the order's number.
const ADDED: [(&str, &str, &str, i64); 3] = [
    ("orders", "orders", "o_id", 1),
    ("order lines", "order_line", "ol_o_id", LINES),
    ("payments", "cc_xacts", "cx_o_id", 1),
];

/// Counts before a turn; only rows of orders that are new then are looked at.
pub struct Purchases(Tally);

impl Purchases {
    /// Counts what there is.
    pub fn open(client: &mut Client) -> Result<Purchases, BenchError> {
        let last = client.numbers("select coalesce(max(o_id), 0) from orders")?[0];
        let count = |(what, table, column, _)| {
            (
                what,
                format!("select count(*) from {table} where {column} > {last}"),
            )
        };
        Tally::open(client, ADDED.map(count)).map(Purchases)
    }

    /// What does not hold after so many purchases; `None` if all does.
    pub fn close(&self, client: &mut Client, purchases: u64) -> Result<Option<String>, BenchError> {
        let came: Vec<i64> = self.0.moved(client)?.into_iter().map(|(_, came)| came).collect();
        Ok(wrong(&came, purchases))
    }
}

fn wrong(came: &[i64], purchases: u64) -> Option<String> {
    let purchases = i64::try_from(purchases).unwrap_or(i64::MAX);
    let ((what, ..), came) = ADDED
        .iter()
        .zip(came)
        .find(|((.., each), came)| **came != purchases * each)?;
    Some(format!(
        "{purchases} purchases were answered, but {came} {what} came"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_doubled_and_torn_purchases_are_seen() {
        assert_eq!(wrong(&[2, 6, 2], 2), None);
        let wrong = |came: [i64; 3], purchases| wrong(&came, purchases).unwrap_or_default();
        assert!(wrong([2, 6, 2], 3).contains("2 orders"));
        assert!(wrong([2, 5, 2], 2).contains("5 order lines"));
        assert!(wrong([2, 6, 1], 2).contains("1 payments"));
    }
}
