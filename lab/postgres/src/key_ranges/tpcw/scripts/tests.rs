//! Shares are those of TPC-W's browsing mix, and a word is chosen by branches with one statement.

use super::super::interactions::{BEST_SELLERS, place_of};
use super::*;

#[test]
fn shares_are_those_of_the_browsing_mix() {
    let share = |names: &[&str]| -> u32 {
        let of = |name: &&str| INTERACTIONS[place_of(name).expect("there")].share;
        names.iter().map(of).sum()
    };
    let all: u32 = INTERACTIONS.iter().map(|interaction| interaction.share).sum();
    assert_eq!(all, 10_000);
    let browsing = [
        "home",
        "new_products",
        "best_sellers",
        "product_detail",
        "search_request",
        "search_by_subject",
        "search_by_title",
        "search_by_author",
    ];
    assert_eq!(share(&browsing), 9_500);
    assert_eq!(share(&browsing[5..]), 1_100);
    assert_eq!(share(&["buy_request", "buy_request_new"]), 75);
}

#[test]
fn a_word_is_chosen_by_branches_with_one_statement() {
    let best = INTERACTIONS[place_of(BEST_SELLERS).expect("there")].script();
    assert_eq!(best.matches("i_subject = :subject").count(), SUBJECTS.len());
    assert!(best.starts_with("\\set word random(1, 24)\n\\if :word = 1\n"));
    assert!(best.ends_with("\\endif\n") && !best.contains(":word\n"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_constant(folder.path()).expect("written");
    let constant = std::fs::read_to_string(file).expect("readable");
    assert!(constant.starts_with("select max(o_id) - 3333 as since from orders \\gset\n"));
    assert_eq!(
        constant.matches("order_line.ol_o_id > :since and").count(),
        SUBJECTS.len()
    );
    assert_eq!(constant.matches("max(o_id)").count(), 1);
    let variables = variables(Scale::QUICK);
    assert!(variables.contains(&("subject24".to_owned(), "TRAVEL".to_owned())));
    assert!(variables.contains(&("items".to_owned(), "1000".to_owned())));
}
