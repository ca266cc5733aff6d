//! Texts that share an entry of the cache are understood alike; and no text whatsoever brings the parser down.

use corun_pooler::understand::{Limits, StatementKind, Understanding, Understood, rough};
use proptest::prelude::*;

/// Statements with places for literals: `?` a number, `~` a string, `^` either or NULL, `#` a comment or nothing.
const TEMPLATES: &[&str] = &[
    "select * from t where a = ? and b = ~",
    "select a, ? from t where b in (?, ?, ?) and c like ~ order by 1 limit ?",
    "select # a from t # where x = ^ -- end\n",
    "select a - ?, a -?, -?, +?, a*?/? from t",
    "select ~ ~ from t",
    "select ~\n ~ from t",
    "select date ~, ~::date, interval ~, cast(~ as int), numeric(10, 2) ~ from t",
    "select a::numeric(?, ?), b::float(?) from t",
    "insert into t (a, b, c) values (?, ~, ^), (?, ~, ^) returning a + ?",
    "insert into t values (?) on conflict (a) do update set b = ~ where t.c > ?",
    "update t set a = ?, b = b + ?, c = ~ where d between ? and ?",
    "delete from t where a = ? or b is distinct from ~",
    "with q as (delete from t where a = ? returning *) select * from q where b = ~",
    "select set_config(~, ~, true)",
    "select set_config(~, ~, false)",
    "select set_config(~, ~, ~)",
    "select set_config(~, ~, ?::text::bool)",
    "with q as (select set_config(~, ~, ^)) select * from q",
    "set app.x = ~",
    "set search_path = ~",
    "set work_mem to ?",
    "set local work_mem = ?",
    "set time zone ?",
    "set seed to ?",
    "reset work_mem # ",
    "begin # ",
    "prepare transaction ~",
    "select pg_advisory_lock(?)",
    "select pg_advisory_lock(?), ~",
    "select nextval(~)",
    "select my_function(?, ~)",
    "select json_object(~: ?)",
    "select json_object(~: pg_advisory_lock(?))",
    "select lower(~) from pg_class where relname = ~",
    "select * from generate_series(?, ?) g where g > ?",
    "select * from t tablesample system (?) repeatable (?)",
    "select * from t for update limit ?",
    "select * from t limit ? offset ?",
    "select x from t group by x having count(*) > ? window w as (order by a rows ? preceding)",
    "select case when a = ? then ~ else ^ end, array[?, ?], row(?, ~), a[?], b[?:?] from t",
    "explain (analyze ~) select ?",
    "explain (costs ?) delete from t where a = ?",
    "copy t to ~",
    "copy (select ?) to stdout with (delimiter ~)",
    "prepare p as select ?",
    "execute p(?, ~)",
    "deallocate p # ",
    "declare c cursor for select ?",
    "create temp table x as select ?",
    "create table x as select ~",
    "create table x (a int default ?, b text default ~)",
    "load ~",
    "listen c # ",
    "notify c, ~",
    "do ~",
    "call p(?, ~)",
    "alter role r password ~",
    "comment on table t is ~",
    "select ?; select ~",
    "select ?; delete from t where a = ?",
    "select set_config(~, ~, ^); select ?",
    "merge into t using s on t.a = s.a and s.b = ? when matched then update set c = ~ when not matched then insert values (?)",
    "values (?, ~), (?, ~)",
    "select \"a?\" from t where x = ? # and y = ~",
    "select ~ || ~ || a where a > ? and b @> ~ and c ->> ~ = ~",
    "select $1, ?, $2, ~",
];

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        (0_u32..300).prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        "[0-9]{20,40}",
        "0[0-9]{1,3}",
        (0_u32..100, 0_u32..100).prop_map(|(a, b)| format!("{a}.{b}")),
        (0_u32..100, 0_u32..30).prop_map(|(a, b)| format!("{a}e{b}")),
        Just("1_000".to_string()),
        Just("0x1F".to_string()),
        Just(".5".to_string()),
        Just("7.".to_string()),
        Just("1e400".to_string()),
    ]
}

fn string() -> impl Strategy<Value = String> {
    let plain = prop_oneof![
        "[a-z ]{0,8}",
        Just("true".to_string()),
        Just("f".to_string()),
        Just("off".to_string()),
        Just("work_mem".to_string()),
        Just("role".to_string()),
        Just("app.x".to_string()),
        Just("pg_temp".to_string()),
        Just("it''s".to_string()),
        Just("; create temp table y (a int); --".to_string()),
        Just("listen temporary hold /* x".to_string()),
        Just("back\\slash".to_string()),
        Just("gr\u{fc}n".to_string()),
    ];
    (
        prop_oneof![20 => Just(""), 1 => Just("E"), 1 => Just("U&"), 1 => Just("n"), 1 => Just("B")],
        plain,
    )
        .prop_map(|(prefix, text)| format!("{prefix}'{text}'"))
}

fn comment() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just(String::new()),
        1 => "[a-z ]{0,6}".prop_map(|text| format!("/* {text} */")),
        1 => "[a-z' ]{0,6}".prop_map(|text| format!("-- {text}\n")),
        1 => Just("/* a /* b */ c */".to_string()),
        1 => Just("/* corun: primary */".to_string()),
        1 => Just("/*+ SeqScan(t) */".to_string()),
    ]
}

fn filled(template: &'static str) -> impl Strategy<Value = String> {
    let places: Vec<BoxedStrategy<String>> = template
        .chars()
        .map(|place| match place {
            '?' => number().boxed(),
            '~' => string().boxed(),
            '^' => prop_oneof![
                number(),
                string(),
                Just("NULL".to_string()),
                Just("true".to_string())
            ]
            .boxed(),
            '#' => comment().boxed(),
            other => Just(other.to_string()).boxed(),
        })
        .collect();
    places.prop_map(|parts| parts.concat())
}

/// Everything that may not depend on what the cache held before. A text the server would refuse may be taken for one it would
/// not: the texts differ in literals only, and then nothing is done at all.
fn check(shared: &mut Understanding, text: &[u8]) -> Result<(), TestCaseError> {
    let shown = String::from_utf8_lossy(text);
    let found = shared.of(text);
    let fresh = Understanding::new(Limits::default()).of(text);
    if fresh.kind == StatementKind::Unknown {
        return Ok(());
    }
    let comparable = |understood: &Understood| {
        let mut understood = understood.clone();
        understood.normalised = None;
        understood
    };
    prop_assert_eq!(comparable(&found), comparable(&fresh), "{}", shown);
    let again = shared.of(text);
    prop_assert_eq!(again, found, "{}", shown);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Many texts of one template through one cache: each is understood as if it were alone.
    #[test]
    fn literals_never_change_what_matters(
        texts in (0..TEMPLATES.len()).prop_flat_map(|at| prop::collection::vec(filled(TEMPLATES[at]), 2..8))
    ) {
        let mut shared = Understanding::new(Limits::default());
        for text in &texts {
            check(&mut shared, text.as_bytes())?;
        }
    }

    /// Tokens in any order, chosen so that they run into each other.
    #[test]
    fn nor_do_tokens_that_run_into_each_other(
        texts in prop::collection::vec(prop::collection::vec(prop::sample::select(vec![
            "select", " ", " ", " ", "\n", "'", "''", "'a'", "'b'", "\"", "\"c\"", "1", "2", ".", "..", "e", "E", "x", "$1", "$", "$$",
            "-", "--", "+", "*", "/*", "*/", "/", "&", "U", "a", "from", "t", ",", "(", ")", ";", "\\", "::", "int", "_", "\u{fc}",
            "=", "set", "pg_advisory_lock(1)", "corun", "/* c */", "-- d\n", "1e5", "0x1", "\r", "\t", "begin",
        ]), 1..14), 2..12)
    ) {
        let mut shared = Understanding::new(Limits::default());
        for text in &texts {
            let text = format!("select {}", text.concat());
            check(&mut shared, text.as_bytes())?;
        }
    }

    /// Any bytes at all.
    #[test]
    fn no_bytes_do_harm(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut shared = Understanding::new(Limits::default());
        check(&mut shared, &text)?;
    }
}

#[test]
fn what_is_doubtful_has_no_skeleton() {
    for text in [
        "select E'a'",
        "select e'a'",
        "select U&'a'",
        "select U&\"a\"",
        "select B'1'",
        "select N'a'",
        "select 'a\\b'",
        "select $$a$$",
        "select $a$b$a$",
        "select 'unterminated",
        "select \"unterminated",
        "select /* unterminated",
        "select -- unterminated",
        "select /* a /* b */ c */ 1",
        "/* corun: primary */ select 1",
        "select 1a",
        "select 1_000",
        "select 0x1F",
        "select 1e",
        "select 1.2.3",
        "select .5",
        "select $1a",
        "select 'a\0'",
        "select \u{1}",
    ] {
        assert_eq!(rough::skeleton(text.as_bytes(), &mut Vec::new()), None, "{text}");
    }
}

#[test]
fn skeletons_differ_in_all_but_literals() {
    let skeleton = |text: &str| {
        let mut out = Vec::new();
        rough::skeleton(text.as_bytes(), &mut out).map(|count| (count, out))
    };
    let same = |a: &str, b: &str| assert_eq!(skeleton(a).expect(a), skeleton(b).expect(b));
    let differ = |a: &str, b: &str| assert_ne!(skeleton(a).expect(a), skeleton(b).expect(b));
    same(
        "select 1 from t1 where a = 'x'",
        "select 22 from t1 where a = 'it''s'",
    );
    same("select /* a */ 1 -- b\n", "select /* bc */ 2 -- d\n");
    same("select 1.5, 2e5", "select 2.5, 3.0");
    differ("select 1 from t1", "select 1 from t2");
    differ("select 1", "select '1'");
    differ("select 1", "select 1.0");
    differ("select $1", "select $2");
    differ("select \"a\"", "select \"b\"");
    differ("select 1  ", "select 1 ");
}
