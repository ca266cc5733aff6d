//! The page of the live part, from made-up numbers.

use super::*;
use crate::demo::live::summary::tests::result;

#[test]
fn tables_show_ratios_with_their_spread_and_the_control() {
    let summary = LiveSummary::of(&result());
    let rows = transaction_table(&summary).rows;
    assert_eq!(rows[0][..3], ["nobody", "6000", "200"]);
    assert_eq!(rows[0][6..], ["itself 1.00..1.00", ""]);
    assert_eq!(rows[1][0], "nobody, teams");
    assert_eq!(rows[1][6..], ["1.50x 1.50..1.50", ""]);
    assert_eq!(rows[2][6..], ["0.80x 0.80..0.80", "itself 1.00..1.00"]);
    assert_eq!(rows[3][6..], ["0.90x 0.90..0.90", "1.12x 1.12..1.12"]);
    assert_eq!(
        [Some(25.94), Some(1250.0), None].map(short_time_text),
        ["25.9 us", "1.25 ms", "-"]
    );
    let rows = analytic_table(&summary).rows;
    assert_eq!(rows[0], ["stock", "40", "50 ms", "50 ms", "itself 1.00..1.00"]);
    assert_eq!(rows[1], ["corun", "80", "25 ms", "25 ms", "2.00x 2.00..2.00"]);
}

#[test]
fn the_lead_names_sizes_and_clients() {
    let mut result = result();
    assert!(
        lead(&result)
            .starts_with("TPC-C with 2 warehouses (1.1M rows) in a store in memory, 10 terminals on 2 CPUs")
    );
    result.options.divisor = 100;
    result.options.warehouses = 1;
    assert!(lead(&result).starts_with("TPC-C with 1 warehouse, their contents divided by 100"));
}

#[test]
fn wrong_answers_have_a_card_with_their_texts() {
    let mut result = result();
    result.turns[2].analysts[0]
        .wrong
        .push("next_order: a row".to_owned());
    let summary = LiveSummary::of(&result);
    assert!(
        sections(&result, &summary)
            .iter()
            .any(|section| section.text == ["next_order: a row"])
    );
    assert_eq!(
        tiles(&summary).last().map(|tile| tile.value.clone()),
        Some("1 wrong".to_owned())
    );
}
