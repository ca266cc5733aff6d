//! How a row is written, as JSON and for people.

use super::*;

fn spread() -> Spread {
    Spread::of(&[1.5, 2.5, 3.25]).expect("three values")
}

#[test]
fn json_has_the_stable_keys_then_the_parameters_in_order() {
    let row = Row::measured("join", "c", "ratio", "x", spread(), true)
        .versus("duckdb")
        .with("engine", "corun")
        .with("hit_rate", 100usize);
    assert_eq!(
        row.to_json(),
        r#"{"suite":"join","case":"c","metric":"ratio","unit":"x","n":3,"min":1.5,"median":2.5,"max":3.25,"answer_ok":true,"label":"measured","versus":"duckdb","engine":"corun","hit_rate":100}"#
    );
}

#[test]
fn unavailable_rows_have_null_numbers_and_a_reason() {
    let row = Row::unavailable("join", "c", "ratio", "x", "no duckdb").with("engine", "duckdb");
    let json: serde_json::Value = serde_json::from_str(&row.to_json()).expect("JSON");
    assert!(json["median"].is_null() && json["min"].is_null() && json["answer_ok"].is_null());
    assert_eq!(json["label"], "unavailable");
    assert_eq!(json["reason"], "no duckdb");
    assert_eq!(row.cells()[6], "-");
}

#[test]
fn queries_side_by_side_say_who_and_beside_whom() {
    let row = Row::measured("llc", "c", "slowdown", "x", spread(), true)
        .with("engine", "corun")
        .with("policy", "pinned")
        .with("partition", "streaming")
        .with("query", "hash_plq5")
        .with("corunner", "scan");
    assert_eq!(row.cells()[1], "corun hash_plq5 | scan, streaming");
}

#[test]
fn a_parameter_set_twice_keeps_the_last_value() {
    let row = Row::measured("s", "c", "m", "u", spread(), true)
        .with("threads", 1usize)
        .with("threads", 2usize);
    assert_eq!(row.parameters, vec![("threads".to_string(), Value::Integer(2))]);
}

#[test]
#[should_panic(expected = "key of every row")]
fn a_parameter_may_not_shadow_a_stable_key() {
    let _ = Row::measured("s", "c", "m", "u", spread(), true).with("median", 1usize);
}

#[test]
fn numbers_for_people() {
    let texts = [0.1234, 4.567, 12.34, 1234.4, 1_234_567.0, -250_000.0].map(format_number);
    assert_eq!(texts, ["0.123", "4.57", "12.3", "1234", "1_234_567", "-250_000"]);
    assert_eq!(round_significant(1.234_567_89), 1.23457);
}
