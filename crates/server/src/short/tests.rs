//! Statements over a store in memory, compiled and run.

use super::*;
use crate::session::Zone;
use corun_datafusion::store::StoreTable;
use corun_store::{Lock, Options, TableDef, Type, Value};
use corun_wire::server::{Column, ResultFormats};
use datafusion::common::ScalarValue;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{LogicalPlan, Statement};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

struct Bench {
    context: SessionContext,
    store: Store,
}

/// `account (id, branch, name, balance, code)` of 100 rows, and `line (k, n, v)` with a key of two columns.
fn bench() -> Bench {
    let store = Store::in_memory(Options::default()).expect("a store");
    let account = store
        .create_table(
            TableDef::new("account")
                .column("id", Type::I32)
                .column("branch", Type::I32)
                .nullable("name", Type::Text { max: 20 })
                .column(
                    "balance",
                    Type::Decimal {
                        precision: 12,
                        scale: 2,
                    },
                )
                .column("code", Type::FixedText { bytes: 4 })
                .primary_key(&["id"])
                .index("by_branch", &["branch"])
                .unique("by_code", &["code"]),
        )
        .expect("a table");
    let line = store
        .create_table(
            TableDef::new("line")
                .column("k", Type::I64)
                .column("n", Type::I16)
                .nullable("v", Type::Date)
                .primary_key(&["k", "n"])
                .index("by_v", &["v"]),
        )
        .expect("a table");
    let mut session = store.session_here().expect("a session");
    session
        .run(|transaction| {
            for id in 0..100 {
                let mut row = account.new_row();
                row.set("id", id)?;
                row.set("branch", id / 10)?;
                let name = format!("name {id}");
                row.set("name", (id % 7 != 0).then_some(name.as_str()))?;
                row.set("balance", id * 100)?;
                row.set("code", format!("c{id}").as_str())?;
                transaction.insert(&account, &row)?;
            }
            for at in 0..50 {
                let mut row = line.new_row();
                row.set("k", at / 10)?;
                row.set("n", at % 10)?;
                row.set("v", (at % 3 != 0).then_some(Value::Int(i64::from(at))))?;
                transaction.insert(&line, &row)?;
            }
            Ok(())
        })
        .expect("rows");
    let state = corun_datafusion::install(SessionStateBuilder::new().with_default_features()).build();
    let context = SessionContext::new_with_state(state);
    for (name, table) in [("account", &account), ("line", &line)] {
        context
            .register_table(name, Arc::new(StoreTable::new(&store, table)))
            .expect("a table");
    }
    Bench { context, store }
}

impl Bench {
    fn plan(&self, sql: &str, types: &str) -> LogicalPlan {
        let sql = match types {
            "" => sql.to_owned(),
            types => format!("PREPARE s({types}) AS {sql}"),
        };
        let state = self.context.state();
        let plan = futures::executor::block_on(state.create_logical_plan(&sql)).expect(&sql);
        match plan {
            LogicalPlan::Statement(Statement::Prepare(of)) => of.input.as_ref().clone(),
            plan => plan,
        }
    }

    fn compiled(&self, sql: &str, types: &str) -> Option<Short> {
        compile(&self.plan(sql, types), &[], &self.context.state())
    }

    /// Rows by the short path, or why there are none.
    fn short(&self, sql: &str, types: &str, parameters: &[ScalarValue]) -> Result<Vec<String>, &'static str> {
        let plan = self.plan(sql, types);
        let of: Vec<DataType> = parameters.iter().map(ScalarValue::data_type).collect();
        let short = compile(&plan, &of, &self.context.state()).ok_or("not short")?;
        assert!(
            short.takes(parameters),
            "{sql}: they are what it was compiled for"
        );
        let columns: Vec<Column> = crate::session::columns_of(plan.schema().as_arrow());
        let formats = ResultFormats::default();
        let (zone, _) = Zone::of("UTC").expect("a zone");
        let how = Writing {
            columns: &columns,
            formats: &formats,
            zone: &zone,
        };
        let mut out = Vec::new();
        let snapshot = self.store.snapshot().expect("a snapshot");
        let done = short
            .read(Reading::At(&snapshot), parameters, how, &mut out)
            .expect(sql);
        let mut locked = Vec::new();
        let mut session = self.store.session_here().expect("a session");
        let transaction = session.begin().expect("a transaction");
        let again = short
            .read(Reading::Locked(&transaction), parameters, how, &mut locked)
            .expect(sql);
        drop(transaction);
        assert_eq!((done, &out), (again, &locked), "{sql}: locked rows are the same");
        match done {
            Attempt::GivesUp => Err("gives up"),
            Attempt::Done(count) => {
                let rows = rows(&out);
                assert_eq!(rows.len() as u64, count);
                Ok(rows)
            }
        }
    }

    /// Rows by DataFusion.
    fn long(&self, sql: &str, parameters: &[ScalarValue]) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let frame = self.context.sql(sql).await.expect(sql);
            let frame = match parameters {
                [] => frame,
                values => frame.with_param_values(values.to_vec()).expect(sql),
            };
            let batches = frame.collect().await.expect(sql);
            let mut lines = Vec::new();
            for batch in &batches {
                let columns: Vec<_> = batch
                    .columns()
                    .iter()
                    .map(|column| {
                        crate::session::cells_as(column.as_ref(), corun_wire::values::Kind::Unknown)
                            .expect("cells")
                    })
                    .collect();
                for row in 0..batch.num_rows() {
                    let fields = columns.iter().map(|column| match column(row).expect("a value") {
                        None => "NULL".to_owned(),
                        Some(value) => {
                            let mut out = Vec::new();
                            value.write(
                                &mut out,
                                corun_wire::values::Format::Text,
                                &corun_wire::values::FixedOffset::UTC,
                            );
                            String::from_utf8(out).expect("text")
                        }
                    });
                    lines.push(fields.collect::<Vec<_>>().join("|"));
                }
            }
            lines
        })
    }
}

fn rows(mut bytes: &[u8]) -> Vec<String> {
    let mut rows = Vec::new();
    while let Some(head) = corun_wire::header(bytes).expect("messages") {
        let mut body = &bytes[corun_wire::HEADER_BYTES + 2..head.total];
        let mut fields = Vec::new();
        while let Some((length, rest)) = body.split_first_chunk::<4>() {
            match usize::try_from(i32::from_be_bytes(*length)) {
                Err(_) => {
                    fields.push("NULL".to_owned());
                    body = rest;
                }
                Ok(length) => {
                    fields.push(String::from_utf8_lossy(&rest[..length]).into_owned());
                    body = &rest[length..];
                }
            }
        }
        rows.push(fields.join("|"));
        bytes = &bytes[head.total..];
    }
    rows
}

fn int4(value: i32) -> ScalarValue {
    ScalarValue::Int32(Some(value))
}

fn int8(value: i64) -> ScalarValue {
    ScalarValue::Int64(Some(value))
}

fn text(value: &str) -> ScalarValue {
    ScalarValue::Utf8(Some(value.to_owned()))
}

#[test]
fn rows_of_a_key_are_those_of_the_planner() {
    let bench = bench();
    let decimal = ScalarValue::Decimal128(Some(50_000_000_000), 38, 10);
    let half = ScalarValue::Decimal128(Some(55_000_000_000), 38, 10);
    for (sql, types, parameters) in [
        ("select balance from account where id = $1", "int", vec![int4(5)]),
        (
            "select balance from account where id = $1",
            "bigint",
            vec![int8(5)],
        ),
        (
            "select balance from account where id = $1",
            "bigint",
            vec![int8(5_000_000_000)],
        ),
        (
            "select balance from account where id = $1",
            "bigint",
            vec![ScalarValue::Int64(None)],
        ),
        (
            "select balance from account where id = $1",
            "numeric(38,10)",
            vec![decimal],
        ),
        (
            "select balance from account where id = $1",
            "numeric(38,10)",
            vec![half],
        ),
        (
            "select balance + $1, balance * $1 from account where id = $2",
            "numeric(38,10), int",
            vec![ScalarValue::Decimal128(Some(125), 38, 2), int4(5)],
        ),
        ("select * from account where $1 = id", "int", vec![int4(7)]),
        ("select * from account where id = 8", "", vec![]),
        ("select * from account where id = 3 + $1", "bigint", vec![int8(5)]),
        (
            "select * from account where id = 8 and id = $1",
            "int",
            vec![int4(8)],
        ),
        (
            "select * from account where id = 8 and id = $1",
            "int",
            vec![int4(9)],
        ),
        (
            "select name, id + $2, upper(name) from account as a where a.id = $1",
            "int, int",
            vec![int4(8), int4(2)],
        ),
        (
            "select name is null, $2, 'x' from account where id = $1",
            "int, text",
            vec![int4(7), text("y")],
        ),
        (
            "select name from account where id = $1 and branch > $2",
            "int, int",
            vec![int4(20), int4(1)],
        ),
        (
            "select name from account where id = $1 and branch > $2",
            "int, int",
            vec![int4(20), int4(2)],
        ),
        (
            "select name from account where id = $1 and name like '%9'",
            "int",
            vec![int4(9)],
        ),
        (
            "select id from account where code = $1",
            "text",
            vec![text("c12")],
        ),
        (
            "select id from account where code = $1",
            "text",
            vec![text("c12 ")],
        ),
        (
            "select id from account where id = $1 order by name limit 1",
            "int",
            vec![int4(5)],
        ),
        (
            "select id from account where id = $1 limit 0",
            "int",
            vec![int4(5)],
        ),
        (
            "select id from account where id = $1 offset 1",
            "int",
            vec![int4(5)],
        ),
        (
            "select x + 1 from (select id as x from account) as t where x = $1",
            "int",
            vec![int4(5)],
        ),
        (
            "select v from line where n = $1 and k = $2",
            "int, bigint",
            vec![int4(5), int8(2)],
        ),
        (
            "select v from line where n = $1 and k = $2",
            "int, bigint",
            vec![int4(500_000), int8(2)],
        ),
        (
            "select k from line where n = $1 and k = 2 and v = '1970-01-26'",
            "int",
            vec![int4(5)],
        ),
        (
            "select case when balance > 3 then 'rich' else 'poor' end from account where id = $1",
            "int",
            vec![int4(5)],
        ),
    ] {
        let short = bench
            .compiled(sql, types)
            .unwrap_or_else(|| panic!("{sql} is short"));
        assert!(short.to_string().contains("one row by"), "{sql}: {short}");
        assert_eq!(
            bench.short(sql, types, &parameters).as_ref(),
            Ok(&bench.long(sql, &parameters)),
            "{sql}"
        );
    }
}

#[test]
fn rows_of_a_range_come_in_the_wanted_order() {
    let bench = bench();
    for (sql, types, parameters) in [
        (
            "select k, n, v from line where k = $1 order by n",
            "bigint",
            vec![int8(2)],
        ),
        (
            "select k, n, v from line where k = $1 order by k desc, n desc limit 3",
            "bigint",
            vec![int8(2)],
        ),
        (
            "select n from line where k = $1 and n between $2 and $3 order by n",
            "bigint, int, int",
            vec![int8(2), int4(3), int4(6)],
        ),
        (
            "select n from line where k = $1 and n > $2 order by n limit $3",
            "bigint, int, bigint",
            vec![int8(2), int4(3), int8(2)],
        ),
        (
            "select n from line where k = $1 and n <= $2 and n < 4 order by n offset 1",
            "bigint, int",
            vec![int8(2), int4(6)],
        ),
        (
            "select n from line where k = $1 and n >= $2 order by n",
            "bigint, int",
            vec![int8(2), ScalarValue::Int32(None)],
        ),
        (
            "select k, n from line where k > $1 order by k, n limit 5",
            "bigint",
            vec![int8(2)],
        ),
        (
            "select k, n from line where k < $1 order by k desc, n desc limit 5",
            "bigint",
            vec![int8(2)],
        ),
        (
            "select v from line where v > '1970-01-20' order by v limit 4",
            "",
            vec![],
        ),
        (
            "select n + 1 from line where k = $1 and v is not null order by n",
            "bigint",
            vec![int8(4)],
        ),
        (
            "select k from line where k = $1 and n = -70000 order by n",
            "bigint",
            vec![int8(4)],
        ),
        // In the order of no index.
        (
            "select id from account where branch = $1 order by name desc, id",
            "int",
            vec![int4(3)],
        ),
        (
            "select id, name from account where branch = $1 order by name nulls first, id limit 4 offset 2",
            "int",
            vec![int4(3)],
        ),
        (
            "select id from account where branch = $1 order by balance % 300, id desc",
            "int",
            vec![int4(3)],
        ),
        (
            "select v from line where v > '1970-01-20' order by v desc, n limit 4",
            "",
            vec![],
        ),
        // Totals, of some rows, of one, of none.
        (
            "select count(*), count(name), sum(id), min(name), max(balance), avg(balance), count(distinct id % 3) from account where branch = $1",
            "int",
            vec![int4(3)],
        ),
        (
            "select count(*) + 1, sum(id) * $1 from account where branch = $1",
            "int",
            vec![int4(300)],
        ),
        (
            "select sum(balance), min(name) from account where id = $1",
            "int",
            vec![int4(5)],
        ),
        (
            "select count(*), max(id) from account where id = $1",
            "int",
            vec![int4(-5)],
        ),
    ] {
        let wanted = bench.long(sql, &parameters);
        assert_eq!(bench.short(sql, types, &parameters), Ok(wanted), "{sql}");
    }
    let unsorted = "select id from account where branch = $1";
    let mut found = bench.short(unsorted, "int", &[int4(3)]).expect("a range");
    found.sort();
    let mut wanted = bench.long(unsorted, &[int4(3)]);
    wanted.sort();
    assert_eq!(found, wanted);
}

#[test]
fn what_is_no_look_up_is_left_to_the_planner() {
    let bench = bench();
    for (sql, types) in [
        ("select * from account", ""),
        ("select 1", ""),
        ("select * from account where name = $1", "text"),
        ("select * from account where id > $1 or id = 5", "int"),
        ("select * from account where id + 1 = $1", "int"),
        ("select * from account where id = branch", ""),
        ("select * from account where cast(id as text) = $1", "text"),
        ("select * from account where cast(id as double) = 5.5", ""),
        (
            "select * from account where id = $1 union all select * from account where id = $1",
            "int",
        ),
        (
            "select * from account a join line l on a.id = l.k where a.id = $1",
            "int",
        ),
        ("select * from account where id = (select 5)", ""),
        (
            "select *, (select max(k) from line) from account where id = $1",
            "int",
        ),
        (
            "select * from account where id = $1 and exists (select 1 from line)",
            "int",
        ),
        ("select random() from account where id = $1", "int"),
        ("select now() from account where id = $1", "int"),
        ("select row_number() over () from account where id = $1", "int"),
        ("select distinct name from account where id = $1", "int"),
        (
            "select id from (select id from account limit 5) t where id = $1",
            "int",
        ),
        ("select id from account where code > $1", "text"),
    ] {
        let short = bench.compiled(sql, types);
        assert!(short.is_none(), "{sql}: {}", short.expect("just seen"));
    }
}

#[test]
fn long_ranges_and_other_parameters_give_up() {
    let bench = bench();
    let sql = "select balance from account where id = $1";
    let short = bench.compiled(sql, "int").expect("short");
    assert!(short.takes(&[int4(5)]) && short.takes(&[int4(5), int4(6)]));
    assert!(!short.takes(&[int8(5)]) && !short.takes(&[]));
    let limit = "select k from line where k = $1 limit $2";
    assert_eq!(
        bench.short(limit, "bigint, bigint", &[int8(1), int8(-1)]),
        Err("gives up")
    );
    let account = bench.store.table("account").expect("there");
    let mut session = bench.store.session_here().expect("a session");
    session
        .run(|transaction| {
            for id in 1_000..2_100 {
                let mut row = account.new_row();
                row.set("id", id)?;
                row.set("branch", 77)?;
                row.set("balance", 0)?;
                row.set("code", format!("{id}").as_str())?;
                transaction.insert(&account, &row)?;
            }
            Ok(())
        })
        .expect("rows");
    let many = "select id from account where branch = $1";
    assert_eq!(bench.short(many, "int", &[int4(77)]), Err("gives up"));
    let few = "select id from account where branch = $1 limit 10";
    assert_eq!(
        bench.short(few, "int", &[int4(77)]).map(|rows| rows.len()),
        Ok(10)
    );
}

#[test]
fn expressions_fail_as_the_planner_says() {
    let bench = bench();
    let sql = "select 1 / (id - $1) from account where id = $1";
    let plan = bench.plan(sql, "int");
    let short = compile(&plan, &[], &bench.context.state()).expect("short");
    let snapshot = bench.store.snapshot().expect("a snapshot");
    let (zone, _) = Zone::of("UTC").expect("a zone");
    let how = Writing {
        columns: &[],
        formats: &ResultFormats::default(),
        zone: &zone,
    };
    let mut out = b"before".to_vec();
    let failed = short.read(Reading::At(&snapshot), &[int4(5)], how, &mut out);
    assert!(matches!(failed, Err(crate::session::StoreFailure::Told(refusal)) if refusal.code == "22012"));
    assert_eq!(out, b"before", "nothing of a row that failed is left");
}

#[test]
fn a_change_finds_its_row_locked_and_its_values() {
    let bench = bench();
    let short = bench
        .compiled(
            "select balance + $1, name from account where id = $2 and branch = 1",
            "numeric(38,10), int",
        )
        .expect("short");
    let mut session = bench.store.session_here().expect("a session");
    let transaction = session.begin().expect("a transaction");
    let parameters = |id| [ScalarValue::Decimal128(Some(20_000_000_000), 38, 10), int4(id)];
    let locked = |id| {
        let found = short.lock(&transaction, Locking::Now, Lock::Exclusive, &parameters(id));
        found.expect("no error").expect("it does not give up")
    };
    assert!(locked(25).is_empty(), "another branch");
    assert!(locked(1_000).is_empty(), "no row");
    let found = *locked(15).first().expect("a row");
    let kinds = [corun_wire::values::Kind::Numeric, corun_wire::values::Kind::Text];
    let values = short.values(found, &parameters(15), 0, &kinds).expect("values");
    let shown: Vec<String> = values
        .iter()
        .map(|value| {
            let mut out = Vec::new();
            let value = value.as_ref().expect("not NULL");
            value.write(
                &mut out,
                corun_wire::values::Format::Text,
                &corun_wire::values::FixedOffset::UTC,
            );
            String::from_utf8(out).expect("text")
        })
        .collect();
    assert_eq!(shown, ["17.0000000000", "name 15"]);
}

#[test]
fn explain_names_the_index() {
    let bench = bench();
    for (sql, types, says) in [
        (
            "select * from account where id = $1 and branch = 2",
            "int",
            "Short: index account_pkey, one row by id, a condition on each row",
        ),
        (
            "select * from account where branch = $1",
            "int",
            "Short: index by_branch, a range of branch",
        ),
        (
            "select n from line where k = $1 and n > 3 order by n desc",
            "bigint",
            "Short: index line_pkey, a range of k, n, backwards",
        ),
        (
            "select sum(n) + $2, count(*) from line where k = $1",
            "bigint, bigint",
            "Short: index line_pkey, a range of k, aggregated",
        ),
        (
            "select n from line where k = $1 order by n % 3, n desc limit 2",
            "bigint",
            "Short: index line_pkey, a range of k, sorted",
        ),
    ] {
        assert_eq!(bench.compiled(sql, types).expect(sql).to_string(), says);
    }
}
