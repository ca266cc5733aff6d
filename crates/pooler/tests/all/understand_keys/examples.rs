//! Statements and what they say of keys, one by one.

use corun_pooler::understand::keys::{KeyKind, key_of_text};
use corun_pooler::understand::{Access, Limits, StatementKind, Understanding};

use super::{Value, plan, said};
use crate::common::cases::cases;

fn check(kind: KeyKind, values: &[Value], table: &str) {
    for (text, expected) in cases(table) {
        assert_eq!(said(&text, kind, values), expected, "{text}");
    }
}

#[test]
fn comparisons() {
    let values: &[Value] = &[
        (0, Some(b"7".to_vec())),
        (1, Some(9_i32.to_be_bytes().to_vec())),
        (0, None),
    ];
    check(
        KeyKind::Integer,
        values,
        r#"
        select * from t where k = 5 => t.k 5
        select * from t where 5 = k => t.k 5
        select * from t where k < 5 => t.k ..4
        select * from t where 5 < k => t.k 6..
        select * from t where k <= 5 and k > 1 => t.k 2..5
        select * from t where k >= 5 or k < 0 => t.k ..-1, 5..
        select * from t where k in (1, 3, $1, null) => t.k 1, 3, 7
        select * from t where k between 2 and $2 => t.k 2..9
        select * from t where k between 2 and f() => t.k 2..
        select * from t where k between f() and f() =>
        select * from t where k = $1 => t.k 7
        select * from t where k = $2 => t.k 9
        select * from t where k = $3 => t.k none
        select * from t where k = $3 or k = 1 => t.k 1
        select * from t where k = $4 => t.k all
        select * from t where k = $1::int and v = 'x' => t.k 7; t.v all
        select * from t where k = '5'::int4 => t.k 5
        select * from t where k = cast(5 as bigint) => t.k 5
        select * from t where k = '5' => t.k 5
        select * from t where k = int8 '5' => t.k 5
        select * from t where k = -5 => t.k -5
        select * from t where k = - (-5) => t.k 5
        select * from t where k = -5::int => t.k -5
        select * from t where k = -$1::int => t.k -7
        select * from t where k = '5' -- '6'¶ and v = 1 => t.k 5; t.v 1
        select * from t where k = +5 => t.k 5
        select * from t where k = 9223372036854775807 => t.k 9223372036854775807
        select * from t where k = -9223372036854775808 => t.k -9223372036854775808
        select * from t where k > 9223372036854775807 => t.k none
        select * from t where k < 5.5 => t.k ..5
        select * from t where k > -5.5 => t.k -6..
        select * from t where k = null => t.k none
        select * from t where k is not distinct from 5 => t.k 5
        select * from t where k operator(pg_catalog.=) 5 => t.k 5
        select * from t where K = 5 and "K" = 6 => t.k 5; t.K 6
        select * from t where k = 5 and k = 6 => t.k none
        select * from t where k = any($4) => t.k all
        select * from t where k = any('{1,2}') => t.k 1..2
        select * from t where k = any('{1, null ,4}'::int[]) => t.k 1, 4
        select * from t where k = any(array[1, $1]) => t.k 1, 7
        # A text without skeleton keeps its literals.
        select * from t where k = 5 and v = E'\n' => t.k 5; t.v all
        select * from t where k = E'5' => t.k 5
        select * from t where k = 0x10 => t.k 16
        "#,
    );
}

#[test]
fn what_says_nothing() {
    check(
        KeyKind::Integer,
        &[(0, Some(b"7".to_vec()))],
        r#"
        select * from t =>
        select 1 =>
        select * from t where k <> 5 =>
        select * from t where not k = 5 =>
        select * from t where k is null =>
        select * from t where k = 5 or v is null =>
        select * from t where k = 5 or w = 6 =>
        select * from t where k not in (1, 2) =>
        select * from t where k not between 1 and 2 =>
        select * from t where k between symmetric 1 and 2 =>
        select * from t where k > any(array[1]) =>
        select * from t where k = all(array[1]) =>
        select * from t where k = abs(5) =>
        select * from t where k + 1 = 5 =>
        select * from t where k = 2 + 3 =>
        select * from t where k::text = '5' =>
        select * from t where k = '5'::my_type =>
        select * from t where k = 5.7::numeric(5,0) =>
        select * from t where k = $1::text::int =>
        select * from t where k = -$1 =>
        select * from t where k in (1, f()) =>
        select * from t where k = true =>
        select * from t where k like '5' =>
        select * from t a(k) where k = 5 =>
        select * from f() where k = 5 =>
        with t as (select 1 as k) select * from t where k = 5 =>
        select * from t left join u on t.k = 5 =>
        merge into t using s on t.k = 5 when matched then delete =>
        copy (select * from t where k = 5) to stdout =>
        prepare p as select * from t where k = $1 =>
        execute p(5) =>
        insert into t values (5) =>
        insert into t (k) default values =>
        insert into t (k) values (default) =>
        insert into t (k[1]) values (5) =>
        create table x as select * from t where k = 5 =>
        # Rounding could make another key of it.
        select * from t where k = 5.7::int => t.k all
        insert into t (k) values (5.7) => t.k all
        select * from t where k = '5' ¶ '6' =>
        select * from t where k = '5' -- x¶ '6' =>
        select * from t where k = -'5' =>
        select * from t where k = 'x' => t.k all
        "#,
    );
}

#[test]
fn tables_and_joins() {
    check(
        KeyKind::Integer,
        &[(0, Some(b"7".to_vec()))],
        r#"
        select * from s.t as x where x.k = 5 => s.t.k 5
        select * from s.t where s.t.k = 5 => s.t.k 5
        select * from t x where t.k = 5 =>
        select * from a, b where k = 5 => a|b.k 5
        select * from a, b where a.k = 5 and b.j > 3 => a.k 5; b.j 4..
        select * from a, b where a.k = b.j and a.k = 5 => a.k 5; b.j 5
        select * from a join b on a.k = b.j where b.j = $1 => a.k 7; b.j 7
        select * from a join b on a.k = b.j and b.j = 5 => a.k 5; b.j 5
        select * from a, b, c where a.x = b.x and b.x = c.x and c.x = 1 => a.x 1; b.x 1; c.x 1
        select * from a, b where a.x = b.y and (a.x = 1 or b.y = 2) => a.x 1..2; b.y 1..2
        select * from a, b where a.x = b.y and a.x > 1 and b.y < 9 => a.x 2..8; b.y 2..8
        select * from a, b where (a.x = b.y or a.z) and a.x = 1 => a.x 1
        select * from a left join b on a.x = b.y where a.x = 1 => a.x 1
        select * from a left join b on a.x = b.y where b.y = 1 => b.y 1
        select * from a join b using (x) where x = 1 => a.x 1; b.x 1
        select * from a join b using (x) where a.x = 1 => a.x 1; b.x 1
        select * from a join b using (x) join c using (x) where c.x = 1 => a.x 1; b.x 1; c.x 1
        select * from a join b using (x), c where x = 1 => a.x 1; b.x 1
        select * from a left join b using (x) where x = 1 => a|b.x 1
        select * from a x, a y where x.k = 1 and y.k = 2 => a.k 1; a.k 2
        select * from a, (select 1) s where k = 5 and s.k = 6 => a.k 5
        select * from t tablesample system (5) where k = 5 => t.k 5
        update t set k = 6 where k = 5 => t.k 5
        update t set v = u.v from u where t.k = u.k and u.k = 5 => t.k 5; u.k 5
        delete from t using u where t.k = u.k and u.k = 5 => t.k 5; u.k 5
        delete from t as x where x.k = 5 returning * => t.k 5
        insert into t (a, k) values (1, 5) => t.a 1; t.k 5
        insert into t (a, k) values (f(), $1), (2, 9) => t.k 7, 9
        insert into s.t (k) values (null) => s.t.k none
        insert into t (k) values (5) on conflict (k) do update set v = 1 where t.k = 6 => t.k 5
        explain select * from t where k = 5 => t.k 5
        declare c cursor for select * from t where k = 5 => t.k 5
        "#,
    );
}

#[test]
fn queries_inside_and_behind_come_later() {
    check(
        KeyKind::Integer,
        &[],
        r#"
        select * from t where v in (select v from u where j = 6) and k = 5 => t.k 5; u.j 6
        select (select 1 from u where j = 6) from t => u.j 6
        with w as (select * from u where j = 6) select * from w where j = 7 => u.j 6
        select 1 from t where k = 1 union select 2 from u where j = 2 => t.k 1; u.j 2
        insert into t (k) select j from u where j = 6 => u.j 6
        select * from t where k = 1; select * from u where j = 2 => t.k 1; u.j 2
        with w as (delete from t where k = 1 returning *) select * from w, u where u.j = 2 => u.j 2; t.k 1
        "#,
    );
    let plan =
        plan("select * from t, u where t.r > 1 and t.k = 5 and exists (select 1 from v where v.k = 6)")
            .expect("keys");
    let resolve = |known: &[&str]| {
        plan.resolve(|schema, table, column| {
            assert_eq!(schema, None);
            let name = format!("{table}.{column}");
            known.iter().position(|known| *known == name)
        })
        .map(|(index, id)| (plan.columns()[index].column.to_string(), id))
    };
    assert_eq!(resolve(&["t.r", "t.k", "v.k"]), Some(("k".to_owned(), 1)));
    assert_eq!(resolve(&["v.k", "t.r"]), Some(("r".to_owned(), 1)));
    assert_eq!(resolve(&["v.k"]), Some(("k".to_owned(), 0)));
    assert_eq!(resolve(&["u.k"]), None);
}

#[test]
fn other_kinds_of_keys() {
    let day = 86_400_000_000_i64;
    let values: &[Value] = &[
        (1, Some(10_i32.to_be_bytes().to_vec())),
        (1, Some((10 * day + 5).to_be_bytes().to_vec())),
    ];
    check(
        KeyKind::Date,
        values,
        r#"
        select * from t where d >= '2000-01-11' and d < date '2000-02-01' => t.d 10..30
        select * from t where d = $1 => t.d 10
        select * from t where d < $2 => t.d ..10
        select * from t where d > '2000-01-11 10:00'::timestamp => t.d 10..
        select * from t where d = 'today' => t.d all
        select * from t where d >= date '2000-01-11' - interval '1 day' =>
        "#,
    );
    check(
        KeyKind::Timestamp,
        values,
        r#"
        select * from t where d < '2000-01-01 00:00:01+00' => t.d ..999999
        select * from t where d = timestamptz '2000-01-01 01:00:00+01:00' => t.d 0
        select * from t where d = $1::date => t.d 864000000000
        select * from t where d = $2 => t.d 864000000005
        select * from t where d = $2::date => t.d 864000000000
        select * from t where d = '2000-01-01 00:00:00.5'::timestamp(0) =>
        "#,
    );
    let key = |text: &str| key_of_text(KeyKind::Text, text.as_bytes()).expect("a key");
    for (condition, expected) in [
        ("s = 'it''s'", format!("t.s {}", key("it's"))),
        ("s < 'm'", format!("t.s ..{}", key("m"))),
        ("s > 'm'::text", format!("t.s {}..", key("m"))),
        ("s = E'it\\'s'", format!("t.s {}", key("it's"))),
    ] {
        let text = format!("select * from t where {condition}");
        assert_eq!(said(&text, KeyKind::Text, &[]), expected, "{text}");
    }
}

#[test]
fn arrays_as_parameters() {
    let array = |elements: &[Option<i32>]| {
        let mut out = Vec::new();
        for field in [1, 1, 23, elements.len() as i32, 1] {
            out.extend(field.to_be_bytes());
        }
        for element in elements {
            out.extend(if element.is_some() { 4_i32 } else { -1 }.to_be_bytes());
            out.extend(element.map(i32::to_be_bytes).into_iter().flatten());
        }
        out
    };
    let text = "select * from t where k = any($1)";
    for (value, expected) in [
        ((1, Some(array(&[Some(1), None, Some(9)]))), "t.k 1, 9"),
        ((1, Some(array(&[]))), "t.k none"),
        ((1, Some([0; 12].to_vec())), "t.k none"),
        ((1, Some(array(&[Some(1)])[..21].to_vec())), "t.k all"),
        ((0, Some(b"{3,5}".to_vec())), "t.k 3, 5"),
        ((0, Some(b"{}".to_vec())), "t.k none"),
        ((0, Some(b"{\"3\"}".to_vec())), "t.k all"),
        ((0, Some(b"{{3},{5}}".to_vec())), "t.k all"),
        ((0, None), "t.k none"),
    ] {
        assert_eq!(said(text, KeyKind::Integer, &[value]), expected);
    }
}

#[test]
fn plans_are_bounded() {
    let list = vec!["1"; 300].join(", ");
    let listed = format!("select * from t where k in ({list}) and j = 1");
    assert_eq!(said(&listed, KeyKind::Integer, &[]), "t.j 1");
    let many: Vec<String> = (0..100).map(|n| format!("c{n} = {n}")).collect();
    let plan = plan(&format!("select * from t where {}", many.join(" and "))).expect("keys");
    assert_eq!(plan.columns().len(), 32);
    let or = vec!["k = 1"; 300].join(" or ");
    let any = format!("select * from t where {or}");
    assert_eq!(said(&any, KeyKind::Integer, &[]), "");
}

#[test]
fn explain_corun_asks_us() {
    let of = |text: &str| Understanding::new(Limits::default()).of(text.as_bytes());
    let asked = of("EXPLAIN (CORUN) select * from t where k = 5 ;");
    assert_eq!(asked.explains.as_deref(), Some("select * from t where k = 5"));
    assert_eq!((asked.access, asked.kind), (Access::Read, StatementKind::Explain));
    let writes = of("explain (verbose, Corun, analyze) delete from t where k = $1");
    assert_eq!(writes.explains.as_deref(), Some("delete from t where k = $1"));
    assert_eq!((writes.access, writes.parameters), (Access::Read, 1));
    for text in [
        "explain (analyze) select 1",
        "explain select corun from t",
        "select 1",
        "explain (corun) select 1; select 2",
    ] {
        assert_eq!(of(text).explains, None, "{text}");
    }
}
