//! Texts run as they came, prepared, and with their literals lifted give the same, on a real PostgreSQL.

mod client;

use client::{Answer, Client};
use corun_pooler::auto_prepare::{lift, proven, runs_alike, values_of};
use corun_pooler::understand::{Limits, Understanding};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRng, TestRunner};

use crate::common::cases::cases;
use crate::common::shapes::{SHAPES, STRINGS};
use crate::common::{number_from_environment, postgres};

const TABLES: &str = "
    create type mood as enum ('sad', 'ok', 'happy');
    create domain small as int check (value < 100);
    create table t (
        id int primary key, a int, b bigint, s smallint, n numeric, n5 numeric(5,2), f float8, r real, x text, v varchar(4), c char(3),
        d date, ts timestamp, tz timestamptz(0), i interval, u uuid, j jsonb, jj json, o oid, bo bool, by bytea, m mood, dom small,
        ia int[], ta text[], nm name, ti time, mo money, ne inet);
    insert into t
        select g, g % 7, g * 1000000000::bigint, g % 5, g / 4.0, g, g / 8.0, g / 2.0, 'text ' || g, 'v' || g % 9, 'c' || g % 9,
            date '2024-01-01' + g, timestamp '2024-01-01' + g * interval '1 hour', timestamptz '2024-01-01 UTC' + g * interval '1 day',
            g * interval '1 minute', ('00000000-0000-0000-0000-0000000000' || 10 + g)::uuid, jsonb_build_object('k', g), '{\"k\": 1}',
            g, g % 2 = 0, 'by'::bytea, case g % 3 when 0 then 'sad' when 1 then 'ok' else 'happy' end::mood, g, array[g, g + 1],
            array['a', 'b' || g], 'name' || g, time '10:00' + g * interval '1 minute', g, '10.0.0.1'
        from generate_series(1, 40) g;
    insert into t (id) values (99);
    create table k (id serial primary key, t_id int, note varchar(8));
    insert into k (t_id, note) select g % 10, 'note' || g from generate_series(1, 20) g;
    analyze";

const COLUMNS: &[&str] = &[
    "a", "b", "s", "n", "n5", "f", "r", "x", "v", "c", "d", "ts", "tz", "i", "u", "j", "o", "bo", "by", "m",
    "dom", "ia", "ta", "nm", "ti", "mo", "ne",
];

/// Beside [`SHAPES`], which says what the places are.
const MORE_SHAPES: &[&str] = &[
    "select id from t where @ = ~::text::varchar or x = ~::text order by id",
    "select id from t where b = ?::bigint or n = %::numeric or f = %::float8 order by id",
    "select id from t where v = ~::varchar(2) or n5 = %::numeric(5,2) order by id",
    "select id from t where d = date ~ or ts < timestamp ~ or i = interval ~ order by id",
    "select id from t where (a, b) = (?, ?) or row(a, x) > row(?, ~) order by id",
    "select id from t where a = any(array[?, ?]) or ia = ~ or x like ~ order by id",
    "select id from t where lower(x) = ~ or length(x) = ? or coalesce(a, ?) = ? order by id",
    "select id from t where ? = ? and ~ = ~ and 1 / ? > 0 order by id",
    "select id from t where a / ? = ? order by id limit ?",
    "select id from t order by id limit ? offset ?",
    "select id, @ from t where id < ? order by 2, 1",
    "select id from t where j ->> ~ = ~ or j @> ~ or j = ~ order by id",
    "select current_query() from t where id = ?",
    "select id from t where -a = ? or a = - ? or a -?=? order by id",
    "select id from t where ts + ~ > ts and d - ? > ~ order by id",
    "insert into t (id, @) values (?, ~) returning *",
    "insert into t (id, @, x) values (?, ^, ~) on conflict (id) do update set x = ~ where t.id > ?",
    "insert into t (id, ia[1], x) values (?, ?, ~)",
    "insert into t (id, x) select ?, note from k where id = ?",
    "update t set a = a + ?, b = b - ?, n = n * %, f = f / %, s = s + ? where id = ?",
    "update t set a = a / ?, x = x || ~, d = d + ? where id > ?",
    "update t set (a, x) = (?, ~) where id = ?",
    "delete from t using k where k.t_id = t.id and k.note = ~",
];

fn integer() -> impl Strategy<Value = String> {
    prop_oneof![
        10 => (0_i64..45).prop_map(|n| n.to_string()),
        2 => (-9_i64..0).prop_map(|n| n.to_string()),
        1 => (30_000_i64..80_000).prop_map(|n| n.to_string()),
        1 => prop::sample::select(vec!["2147483647", "2147483648", "-2147483648", "-2147483649", "5000000000", "9223372036854775807",
            "9223372036854775808", "99999999999999999999999", "007", "1000000000", "0"]).prop_map(String::from),
    ]
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => integer(),
        3 => (0_i64..45, 0_u32..100).prop_map(|(a, b)| format!("{a}.{b:02}")),
        1 => prop::sample::select(vec!["1.50", "-2.25", "1e3", "1.5e300", "7.", "0.1", "16777217.0", "99999.99", "0.333333333333333333333"])
            .prop_map(String::from),
    ]
}

fn string() -> impl Strategy<Value = String> {
    let more = [
        "toolongeverywhere",
        "name3",
        "10:05",
        "$4.00",
        "10.0.0.1",
        "\\x6279",
        "50",
        "101",
    ];
    let texts = [STRINGS, &more].concat();
    prop::sample::select(texts).prop_map(|text| format!("'{text}'"))
}

fn filled(template: &'static str) -> impl Strategy<Value = String> {
    let parts: Vec<BoxedStrategy<String>> = template
        .chars()
        .map(|place| match place {
            '?' => integer().boxed(),
            '%' => number().boxed(),
            '~' => string().boxed(),
            '^' => prop_oneof![5 => number(), 5 => string(), 1 => prop::sample::select(vec!["null", "true", "default"]).prop_map(String::from)]
                .boxed(),
            other => Just(other.to_string()).boxed(),
        })
        .collect();
    parts.prop_map(|parts| parts.concat())
}

/// Two texts of one template about the same columns.
fn pair() -> impl Strategy<Value = (String, String)> {
    (
        prop::sample::select([SHAPES, MORE_SHAPES].concat()),
        prop::sample::select(COLUMNS),
    )
        .prop_flat_map(|(template, column)| {
            (filled(template), filled(template))
                .prop_map(move |(a, b)| (a.replace('@', column), b.replace('@', column)))
        })
}

/// What a statement did, inside a transaction that is undone.
fn in_a_transaction(client: &mut Client, run: impl FnOnce(&mut Client) -> Answer) -> (Answer, Vec<Vec<u8>>) {
    assert_eq!(client.simple("begin").error, None);
    let mut answer = run(client);
    answer.rows.sort();
    let contents = client
        .simple("select * from t order by id; select * from k order by id")
        .rows;
    assert_eq!(client.simple("rollback").error, None);
    assert_eq!(client.simple("select setval('k_id_seq', 1000)").error, None);
    (answer, contents)
}

/// How often each way was gone, so that the test cannot pass by refusing everything.
#[derive(Debug, Default)]
struct Tally {
    exact: usize,
    lifted: usize,
    proven: usize,
    again: usize,
    errors: usize,
}

fn check(client: &mut Client, first: &str, second: &str, tally: &mut Tally) {
    assert_eq!(client.simple("deallocate all").error, None);
    let mut understanding = Understanding::new(Limits::default());
    let (original, contents) = in_a_transaction(client, |client| client.simple(first));
    if runs_alike(first.as_bytes(), &understanding.of(first.as_bytes())) {
        let prepared = client.prepare("exact", first, &[]);
        if prepared.error.is_none() {
            tally.exact += 1;
            let (exact, exact_contents) =
                in_a_transaction(client, |client| client.execute("exact", &[] as &[&str]));
            let exact = Answer {
                description: prepared.description,
                ..exact
            };
            // Where the error is found only by planning, the description comes before it.
            if original.error.is_none() {
                assert_eq!(exact, original, "{first}");
            }
            assert_eq!(exact.failure(), original.failure(), "{first}");
            assert_eq!(exact_contents, contents, "{first}");
        } else {
            assert_eq!(prepared.failure(), original.failure(), "{first}");
        }
    }
    let Some(lifted) = lift(first.as_bytes()) else {
        return;
    };
    tally.lifted += 1;
    let own = values_of(first.as_bytes(), &lifted.shape).expect("its own values");
    assert_eq!(own, lifted.values, "{first}");
    // The text as it came must have succeeded, or there is nothing to compare with.
    let prepared = client.prepare("lifted", &lifted.text, &lifted.types);
    if original.error.is_some() || prepared.error.is_some() {
        tally.errors += 1;
        return;
    }
    if proven(
        &lifted,
        &prepared.parameters,
        &original.description,
        &prepared.description,
    ) {
        tally.proven += 1;
        let safe = lifted.inputs_cannot_fail(&prepared.parameters);
        let mut compare = |text: &str| {
            let Some(values) = values_of(text.as_bytes(), &lifted.shape) else {
                return false;
            };
            let (direct, direct_contents) = in_a_transaction(client, |client| client.simple(text));
            let (answer, contents) = in_a_transaction(client, |client| client.execute("lifted", &values));
            let context = || {
                format!(
                    "{text}\n{}\n{:?} {:?}",
                    lifted.text,
                    prepared.parameters,
                    lifted.shape.slots()
                )
            };
            let errors = (&answer.error, &direct.error);
            assert_eq!(
                errors.0.is_some(),
                errors.1.is_some(),
                "{}\n{errors:?}",
                context()
            );
            let did = (&answer.rows, &answer.tag, contents);
            assert_eq!(did, (&direct.rows, &direct.tag, direct_contents), "{}", context());
            if safe {
                assert_eq!(answer.error, direct.error, "{}", context());
                let position = answer
                    .position
                    .map(|position| lifted.shape.position_in(text.as_bytes(), position));
                assert_eq!(position, direct.position, "{}", context());
            }
            true
        };
        assert!(compare(first), "{first}");
        tally.again += usize::from(compare(second));
    }
}

#[test]
fn prepared_and_lifted_texts_give_the_same() {
    let mut client = Client(postgres::shared().client("postgres", &postgres::new_database()));
    assert_eq!(client.simple(TABLES).error, None);
    let cases = number_from_environment("CORUN_AUTO_PREPARE_CASES", 300) as usize;
    let seed = number_from_environment("CORUN_SEED", 7);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(prop::test_runner::RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut tally = Tally::default();
    for mode in ["force_generic_plan", "auto"] {
        let set = client.simple(&format!("set plan_cache_mode = {mode}"));
        assert_eq!(set.error, None);
        for _ in 0..cases {
            let (first, second) = pair().new_tree(&mut runner).expect("a pair").current();
            check(&mut client, &first, &second, &mut tally);
        }
    }
    let enough = |count: usize, percent: usize| assert!(count * 100 >= 2 * cases * percent, "{tally:?}");
    enough(tally.exact, 40);
    enough(tally.lifted, 50);
    enough(tally.proven, 20);
    enough(tally.again, 8);
}

/// Texts, and what they are with their literals lifted; `-`: nothing is lifted.
const LIFTED: &str = r"
    select a from t where b = 5 and c = 'x' => select a from t where b = $1 and c = $2
    update t set a = a + -5, b = 'it''s' where c = 7 => update t set a = a + $1, b = $2 where c = $3
    insert into t values (1, 'x', null, 2.5, true, -3) => insert into t values ($1, $2, null, $3, true, $4)
    select 1, 'x' from t where a = 'today' order by 1 limit 5 => select 1, 'x' from t where a = $1 order by 1 limit 5
    select a from t where b = 'today' and c like 'now' => -
    select a from t where d > '2024-01-01'::date => select a from t where d > $1::date
    select a from t where d > date '2024-01-01' => -
    select a from t where d > cast('2024-01-01' as date) => select a from t where d > cast($1 as date)
    select a from t where 1 = 2 => -
    select a from t where b = 1 + 2 => -
    select a from t where b in (1, -2, 'x', c) => select a from t where b in ($1, $2, $3, c)
    select a from t where b = $1 and c = 2 => -
    select a from t where b = 1; select 2 => -
    select a from t where b = 'x'¶'y' => -
    select a from t where b = 'x' -- c¶'y' => -
    select a from t where b = E'x' => -
    select a from t where b = 1e5 or b = .5 => -
    select current_query() from t where a = 1 => -
    select 1 limit 5 => -
    this is not sql => -
     => -
";

#[test]
fn what_is_lifted_and_what_is_kept() {
    for (text, expected) in cases(LIFTED) {
        let lifted = lift(text.as_bytes());
        let found = lifted.as_ref().map_or("-", |lifted| lifted.text.as_str());
        assert_eq!(found, expected, "{text}");
        if let Some(lifted) = lifted {
            let values = values_of(text.as_bytes(), &lifted.shape).expect("its own");
            assert_eq!(values, lifted.values, "{text}");
        }
    }
}

#[test]
fn values_are_taken_only_from_texts_of_the_same_kinds() {
    let lifted = lift(b"select a from t where b = 5 and c = 'x' and d = -1 and e = 1.5 and f = 5000000000")
        .expect("literals");
    let values = |text: &str| {
        values_of(text.as_bytes(), &lifted.shape).map(|values| {
            values
                .iter()
                .map(|value| String::from_utf8_lossy(value).into_owned())
                .collect::<Vec<_>>()
                .join("|")
        })
    };
    let text = |b: &str, c: &str, d: &str, e: &str, f: &str| {
        values(&format!(
            "select a from t where b = {b} and c = {c} and d = {d} and e = {e} and f = {f}"
        ))
    };
    let found = text("5", "'x'", "-1", "1.5", "5000000000");
    assert_eq!(found.as_deref(), Some("5|x|-1|1.5|5000000000"));
    let found = text("77", "'it''s'''", "-2147483648", "0.25", "2147483648");
    assert_eq!(found.as_deref(), Some("77|it's'|-2147483648|0.25|2147483648"));
    let found = text("7", "''''''", "-1", "1.5", "5000000000");
    assert_eq!(found.as_deref(), Some("7|''|-1|1.5|5000000000"));
    for (b, c, d, e, f) in [
        ("-5", "'x'", "-1", "1.5", "5000000000"),
        ("5000000000", "'x'", "-1", "1.5", "5000000000"),
        ("5.0", "'x'", "-1", "1.5", "5000000000"),
        ("'5'", "'x'", "-1", "1.5", "5000000000"),
        ("5a", "'x'", "-1", "1.5", "5000000000"),
        ("1_0", "'x'", "-1", "1.5", "5000000000"),
        ("0x1", "'x'", "-1", "1.5", "5000000000"),
        ("5", "x", "-1", "1.5", "5000000000"),
        ("5", "'\\'", "-1", "1.5", "5000000000"),
        ("5", "E'x'", "-1", "1.5", "5000000000"),
        ("5", "'x", "-1", "1.5", "5000000000"),
        ("5", "'x'", "1", "1.5", "5000000000"),
        ("5", "'x'", "- 1", "1.5", "5000000000"),
        ("5", "'x'", "-2147483649", "1.5", "5000000000"),
        ("5", "'x'", "-1", "1", "5000000000"),
        ("5", "'x'", "-1", "1.5e3", "5000000000"),
        ("5", "'x'", "-1", "1.", "5000000000"),
        ("5", "'x'", "-1", "1.5", "5"),
        ("5", "'x'", "-1", "1.5", "9223372036854775808"),
        ("5", "'x'", "-1", "1.5", "5000000000 or true"),
        ("5 /**/", "'x'", "-1", "1.5", "5000000000"),
    ] {
        assert_eq!(text(b, c, d, e, f), None, "{b} {c} {d} {e} {f}");
    }
}

#[test]
fn places_of_errors_are_mapped_back() {
    let text =
        "select a from t where b = 12345 and gr\u{fc}n = '\u{fc}\u{fc}\u{fc}\u{fc}' and nosuch = 7 + c";
    let lifted = lift(text.as_bytes()).expect("literals");
    assert_eq!(
        lifted.text,
        "select a from t where b = $1 and gr\u{fc}n = $2 and nosuch = 7 + c"
    );
    let place = |text: &str, word: &str| text[..text.find(word).expect("it is there")].chars().count() + 1;
    let mapped = |place: usize| lifted.shape.position_in(text.as_bytes(), place);
    for word in ["select", "where", "and", "gr\u{fc}n", "nosuch", "+ c"] {
        assert_eq!(mapped(place(&lifted.text, word)), place(text, word), "{word}");
    }
    assert_eq!(mapped(place(&lifted.text, "$1") + 1), place(text, "12345"));
    assert_eq!(mapped(place(&lifted.text, "$2")), place(text, "'"));
    assert_eq!(mapped(0), 0);
}

proptest! {
    /// Any bytes at all.
    #[test]
    fn no_text_does_harm(text in prop::collection::vec(any::<u8>(), 0..100), tail in "[a-z0-9' =,();-]{0,40}") {
        let mut understanding = Understanding::new(Limits::default());
        for text in [text, format!("select a from t where b = {tail}").into_bytes()] {
            runs_alike(&text, &understanding.of(&text));
            if let Some(lifted) = lift(&text) {
                prop_assert_eq!(lifted.values.len(), lifted.types.len());
                prop_assert!(lifted.shape.position_in(&text, 20) >= 20);
            }
        }
    }
}
