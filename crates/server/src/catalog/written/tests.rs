//! What PostgreSQL 15 has said of the same conditions and defaults.

use super::*;
use crate::write::describe;
use corun_store::{ColumnDef, Options, Store, TableDef, Type as Stored};

/// Columns: `a integer`, `b bigint`, `n numeric(10,2)`, `f double precision`, `t text`, `v varchar(9)`, `ok boolean`.
fn info() -> TableInfo {
    let store = Store::in_memory(Options::default()).expect("a store");
    let nullable = |name, of| ColumnDef::new(name, of).nullable();
    let definition = TableDef::new("t")
        .with_column(nullable("a", Stored::I32).default_value(7))
        .with_column(nullable("b", Stored::I64).default_value(-7))
        .with_column(nullable(
            "n",
            Stored::Decimal {
                precision: 10,
                scale: 2,
            },
        ))
        .with_column(nullable("f", Stored::F64))
        .with_column(nullable("t", Stored::TEXT).default_value("it's"))
        .with_column(nullable("v", Stored::Text { max: 9 }).default_value("x"))
        .with_column(nullable("ok", Stored::Bool).default_value(true));
    let table = store.create_table(definition).expect("a table");
    let snapshot = store.snapshot().expect("a snapshot");
    describe(&snapshot, None, &table).expect("described")
}

#[test]
fn conditions_are_written_as_postgresql_writes_them() {
    let info = info();
    for (text, full, pretty) in [
        ("a > 0", "(a > 0)", "a > 0"),
        ("n >= 0", "(n >= (0)::numeric)", "n >= 0::numeric"),
        ("n > 1.5", "(n > 1.5)", "n > 1.5"),
        (
            "f >= 0",
            "(f >= (0)::double precision)",
            "f >= 0::double precision",
        ),
        ("a > -5", "(a > '-5'::integer)", "a > '-5'::integer"),
        ("t <> ''", "(t <> ''::text)", "t <> ''::text"),
        ("v = 'x'", "((v)::text = 'x'::text)", "v::text = 'x'::text"),
        (
            "t IN ('p', 'q')",
            "(t = ANY (ARRAY['p'::text, 'q'::text]))",
            "t = ANY (ARRAY['p'::text, 'q'::text])",
        ),
        (
            "v IN ('p', 'q')",
            "((v)::text = ANY ((ARRAY['p'::character varying, 'q'::character varying])::text[]))",
            "v::text = ANY (ARRAY['p'::character varying, 'q'::character varying]::text[])",
        ),
        (
            "a NOT IN (1, 2)",
            "(a <> ALL (ARRAY[1, 2]))",
            "a <> ALL (ARRAY[1, 2])",
        ),
        (
            "a BETWEEN 1 AND 10",
            "((a >= 1) AND (a <= 10))",
            "a >= 1 AND a <= 10",
        ),
        (
            "a > 0 AND b > 0 AND ok",
            "((a > 0) AND (b > 0) AND ok)",
            "a > 0 AND b > 0 AND ok",
        ),
        (
            "(a > 0 OR b > 0) AND n IS NOT NULL",
            "(((a > 0) OR (b > 0)) AND (n IS NOT NULL))",
            "(a > 0 OR b > 0) AND n IS NOT NULL",
        ),
        (
            "a > 0 AND t IN ('p', 'q')",
            "((a > 0) AND (t = ANY (ARRAY['p'::text, 'q'::text])))",
            "a > 0 AND (t = ANY (ARRAY['p'::text, 'q'::text]))",
        ),
        ("a + b > 0", "((a + b) > 0)", "(a + b) > 0"),
        ("a + 2 * a > 0", "((a + (2 * a)) > 0)", "(a + 2 * a) > 0"),
        ("NOT ok", "(NOT ok)", "NOT ok"),
        ("t LIKE 'x%'", "(t ~~ 'x%'::text)", "t ~~ 'x%'::text"),
        ("length(t) > 2", "(length(t) > 2)", "length(t) > 2"),
        ("length(v) > 2", "(length((v)::text) > 2)", "length(v::text) > 2"),
        ("a = n", "((a)::numeric = n)", "a::numeric = n"),
        // What is not known stays.
        (
            "a IS DISTINCT FROM 3",
            "a IS DISTINCT FROM 3",
            "a IS DISTINCT FROM 3",
        ),
    ] {
        let found = condition(text, &info, &[]);
        assert_eq!(
            (found.full.as_str(), found.pretty.as_str()),
            (full, pretty),
            "{text}"
        );
    }
    assert_eq!(condition("b > a OR ok", &info, &[]).columns, [1, 2, 7]);
}

#[test]
fn defaults_are_written_as_postgresql_writes_them() {
    let mut info = info();
    let path = ["public".to_owned()];
    let of = |info: &TableInfo, at| default(info, at, &path);
    let shown: Vec<Option<String>> = (0..info.columns.len()).map(|at| of(&info, at)).collect();
    let shown: Vec<&str> = shown.iter().map(|text| text.as_deref().unwrap_or("-")).collect();
    let wanted = [
        "7",
        "'-7'::integer",
        "-",
        "-",
        "'it''s'::text",
        "'x'::character varying",
        "true",
    ];
    assert_eq!(shown, wanted);
    for (text, written) in [
        ("nextval('public.t_id_seq')", "nextval('t_id_seq'::regclass)"),
        ("nextval('sales.\"S\"')", "nextval('sales.\"S\"'::regclass)"),
        ("now()", "now()"),
        ("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
        ("1 + 1", "1 + 1"),
        ("upper('x')", "upper('x'::text)"),
    ] {
        info.columns[0].default = ColumnDefault::Expression(text.to_owned());
        assert_eq!(of(&info, 0).as_deref(), Some(written));
    }
    info.columns[0].identity = Some(crate::write::Identity::Always);
    assert_eq!(of(&info, 0), None);
}
