//! Details that random queries seldom meet: values evaluated once, literals of every type, limits at their bounds.

use corun_pooler::split::{MergeError, MergeKind, Merger, SplitsError};

use super::executor::{Client, Outcome, Team, key, prepare};
use crate::common::message;
use crate::common::postgres::version;
use crate::common::random::Random;

fn check(team: &mut Team, admin: &mut Client, text: &str, values: &[Option<&str>], merge: MergeKind) {
    let prepared = prepare(admin, text, &key("t.id")).unwrap_or_else(|why| panic!("{text}: {why:?}"));
    assert_eq!(prepared.confirmed.merge(), merge, "{text}");
    let values: Vec<Option<String>> = values.iter().map(|value| value.map(str::to_owned)).collect();
    let mut random = Random::new(3);
    for formats in [&[][..], &[1]] {
        let splits = ["3".to_owned(), "8".to_owned()];
        match team.run(&prepared, &splits, &values, formats, &mut random) {
            Outcome::Both { whole, split } => assert_eq!(whole, split, "{text}"),
            Outcome::Failed { whole, split } => panic!("{text}: {whole:?} {split}"),
        }
    }
}

#[test]
fn values_of_every_type_are_handed_on_exactly() {
    // Before version 14, numbers of type numeric are finite.
    let least = if version() < 14 { "-1e131071" } else { "-infinity" };
    let (login, mut admin) = Client::in_new_database(&format!(
        "create table t (id int not null, b bool, i2 int2, i4 int4, i8 int8, n numeric, d date, ts timestamp, tz timestamptz, u uuid,
           by bytea, o oid, c text collate \"C\", f4 float4, f8 float8);
         insert into t values
           (1, true, -32768, -2147483648, -9223372036854775808, 'nan', '-infinity', '-infinity', '-infinity',
             '00000000-0000-0000-0000-000000000000', '', 0, 'x', 'nan', '-infinity'),
           (2, false, 32767, 2147483647, 9223372036854775807, '{least}', 'infinity', 'infinity', 'infinity',
             'ffffffff-ffff-ffff-ffff-ffffffffffff', '\\x00ff275c', 4294967295, '', '-infinity', 'nan'),
           (5, null, 0, 0, 0, 123456789012345678901234567890.000000000000012300, '4713-01-01 BC', '4713-01-01 00:00:00 BC',
             '4713-01-01 00:00:00+00 BC', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\\x27', 7, 'it''s', 3.4028235e38, 5e-324),
           (9, true, 1, 1, 1, -0.0001, '5874897-12-31', '294276-12-31 23:59:59.999999', '294276-12-31 23:59:59.999999+00',
             'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', '\\x5c', 8, 'b\\c', 0.1, 0.1),
           (9, true, 1, 1, 1, 5, '1999-12-31', '1999-12-31 23:59:59.000001', '2024-10-27 01:30:00+00',
             'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', '\\x5c', 8, 'B', 1e-45, 123456789.12345678),
           (4, null, null, null, null, null, null, null, null, null, null, null, null, null, null)",
    ));
    let mut team = Team::connect(&login, 3);
    let settings =
        "set datestyle = 'SQL, MDY'; set timezone = 'America/New_York'; set bytea_output = 'escape'";
    for client in team.parts.iter_mut().chain([&mut team.leader, &mut admin]) {
        client.run(settings);
    }
    for column in [
        "b", "i2", "i4", "i8", "n", "d", "ts", "tz", "u", "by", "o", "c", "f4", "f8",
    ] {
        let has_least = !["b", "u", "by"].contains(&column);
        let of_all = [
            (
                "select % from t where id <> 4 group by % order by %",
                MergeKind::Final,
            ),
            ("select distinct % from t order by 1 desc", MergeKind::Final),
            (
                "select id, % from t order by % desc nulls last, id",
                MergeKind::Sorted,
            ),
            ("select count(distinct %) from t", MergeKind::Final),
        ];
        let of_those = [
            ("select min(%), max(%) from t where id <> 1", MergeKind::Final),
            (
                "select id from t where % >= (select min(%) from t where id > 2) order by id, %",
                MergeKind::Sorted,
            ),
        ];
        for (text, merge) in of_all
            .into_iter()
            .chain(of_those.into_iter().filter(|_| has_least))
        {
            check(&mut team, &mut admin, &text.replace('%', column), &[], merge);
        }
    }
}

#[test]
fn limits_at_their_bounds() {
    let (login, mut admin) = Client::in_new_database(
        "create table t (id int, v int); insert into t select n, n % 4 from generate_series(1, 12) n",
    );
    let mut team = Team::connect(&login, 3);
    let great = "9223372036854775807";
    let query = "select id, v from t order by v desc, id limit $1 offset $2";
    let groups = "select v, count(*) from t group by v order by v limit $1 offset $2";
    for values in [
        [Some("3"), Some("2")],
        [Some("0"), Some("0")],
        [None, Some("5")],
        [Some("4"), None],
        [None, None],
        [Some(great), Some("3")],
        [Some(great), Some(great)],
        [Some("3"), Some("100")],
    ] {
        check(&mut team, &mut admin, query, &values, MergeKind::Sorted);
        check(&mut team, &mut admin, groups, &values, MergeKind::Final);
    }
    for text in [
        "select id from t order by id limit 0",
        "select id from t order by id limit all offset 2",
        "select id from t order by id fetch first 2 rows only",
        "select id from t order by id limit 9223372036854775807 offset 9223372036854775807",
        "select id from t order by id limit null",
    ] {
        check(&mut team, &mut admin, text, &[], MergeKind::Sorted);
    }
    // The server has an error for that, so the query runs whole.
    let prepared = prepare(&mut admin, query, &key("t.id")).expect("prepared");
    let values = [Some("-1".to_owned()), Some("2".to_owned())];
    let outcome = team.run(&prepared, &[], &values, &[], &mut Random::new(1));
    assert!(matches!(outcome, Outcome::Failed { whole: Err(_), .. }));
}

#[test]
fn what_does_not_fit() {
    let (_, mut admin) = Client::in_new_database("create table t (id int, v int)");
    let prepared = prepare(&mut admin, "select v, count(*) from t group by v", &key("t.id"))
        .expect("prepared")
        .confirmed;
    let row = |value: &str| message::row(&[Some(value), None, None]);
    let lead = prepared.lead(&row("00000003-00000001-1")).expect("a row");
    let split = |values: &[&str]| {
        prepared.parts(
            &values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>(),
            &lead,
        )
    };
    assert_eq!(split(&["5", "x"]), Err(SplitsError::NoInteger("x".to_owned())));
    assert_eq!(split(&["5", "5"]), Err(SplitsError::Order("5".to_owned())));
    assert_eq!(split(&["now"]), Err(SplitsError::Clock("now".to_owned())));
    assert_eq!(
        split(&[" 5", "9999999999"]).expect("parts"),
        [
            "SELECT t.v AS c0, count(*) AS c1 FROM t WHERE (\"t\".\"id\" < '5') GROUP BY 1",
            "SELECT t.v AS c0, count(*) AS c1 FROM t WHERE (\"t\".\"id\" >= '5' AND \"t\".\"id\" < '9999999999'::pg_catalog.int8) GROUP BY 1",
            "SELECT t.v AS c0, count(*) AS c1 FROM t WHERE (\"t\".\"id\" >= '9999999999'::pg_catalog.int8 OR \"t\".\"id\" IS NULL) GROUP BY 1",
        ]
    );
    assert!(prepared.lead(&row("1'; drop table t")).is_err());
    assert!(prepared.lead(&[0, 1]).is_err());
    let mut merger = Merger::new(&prepared, &lead, 2);
    assert_eq!(merger.push(0, &row("1")), Err(MergeError::Row));
    assert_eq!(merger.final_sql(), Err(MergeError::Early));
    merger.end(0).expect("ended");
    assert_eq!(merger.end(0), Err(MergeError::Part));
    assert_eq!(
        merger.push(2, &[0, 2, 0, 0, 0, 1, b'1', 0, 0, 0, 1, b'2']),
        Err(MergeError::Part)
    );
    let mut fed = Ok(());
    for _ in 0..20_000 {
        fed = merger.push(1, &[0, 2, 0, 0, 0, 1, b'1', 0, 0, 0, 1, b'2']);
        if fed.is_err() {
            break;
        }
    }
    assert_eq!(fed, Err(MergeError::TooMany));
}
