//! The query of the paper: TPC-W's Best Seller, on a small copy of its data.

use corun_pooler::split::MergeKind;

use super::executor::{Client, Outcome, Team, key, prepare};
use crate::common::random::Random;

const TABLES: &str = "
    create table author (a_id int primary key, a_fname varchar(20), a_lname varchar(20));
    create table item (i_id int primary key, i_title varchar(60), i_a_id int, i_subject varchar(60));
    create table orders (o_id int primary key);
    create table order_line (ol_id int, ol_o_id int, ol_i_id int, ol_qty int, primary key (ol_o_id, ol_id));
    create index on order_line (ol_i_id);
    insert into author select n, 'f' || n, 'l' || n % 17 from generate_series(1, 250) n;
    insert into item select n, 'title ' || n * 7919 % 1000, n % 250 + 1,
        (array['ARTS', 'HISTORY', 'COOKING'])[n % 3 + 1] from generate_series(1, 1000) n;
    insert into orders select generate_series(1, 5000);
    insert into order_line select l, o, (o * 31 + l * 17 + o % 7 * o) % 1000 + 1, (o + l) % 9 + 1
        from generate_series(1, 5000) o, generate_series(1, 3) l;
    analyze";

/// As ANCHORS.md has it, and with what follows the sum so that the order is total.
fn best_seller(order: &str) -> String {
    format!(
        "select i_id, i_title, a_fname, a_lname from item, author, order_line where item.i_id = order_line.ol_i_id and \
         item.i_a_id = author.a_id and order_line.ol_o_id > (select max(o_id) - 3333 from orders) and item.i_subject = $1 \
         group by i_id, i_title, a_fname, a_lname order by sum(ol_qty) desc{order} limit 50"
    )
}

#[test]
fn best_seller_split_by_item_is_best_seller() {
    let (login, mut admin) = Client::in_new_database(TABLES);
    let mut team = Team::connect(&login, 5);
    let mut random = Random::new(1);
    let text = best_seller(", i_id");
    for (key_name, kind) in [
        ("item.i_id", MergeKind::Sorted),
        ("order_line.ol_i_id", MergeKind::Sorted),
        ("order_line.ol_o_id", MergeKind::Final),
    ] {
        let prepared = prepare(&mut admin, &text, &key(key_name)).expect("prepared");
        assert_eq!(prepared.confirmed.merge(), kind, "{key_name}");
        for splits in [&["500"][..], &["333", "667"], &["1", "250", "1000", "2000"], &[]] {
            let splits: Vec<String> = splits.iter().map(|split| (*split).to_owned()).collect();
            for subject in ["ARTS", "HISTORY", "NONE"] {
                for formats in [&[][..], &[1], &[1, 0, 0, 1]] {
                    let values = [Some(subject.to_owned())];
                    let outcome = team.run(&prepared, &splits, &values, formats, &mut random);
                    let Outcome::Both { whole, split } = outcome else {
                        panic!("a query failed");
                    };
                    assert_eq!(whole, split, "{key_name} {splits:?} {subject}");
                    assert_eq!(split.rows.len(), if subject == "NONE" { 0 } else { 50 });
                }
            }
        }
    }
    // What the parts are asked.
    let prepared = prepare(&mut admin, &best_seller(""), &key("item.i_id")).expect("prepared");
    assert_eq!(
        prepared.confirmed.leader(),
        "SELECT pg_catalog.pg_export_snapshot(), (SELECT max(o_id) - 3333 FROM orders), NULL::pg_catalog.int8, NULL::pg_catalog.int8"
    );
}
