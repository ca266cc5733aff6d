//! Names of columns without an alias: those of PostgreSQL, which is asked itself where its server programs are installed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::serve::{Server, folder};

/// What is selected, and the names of its columns; `t` has the columns `a`, `b` and `c`.
const NAMES: &[(&str, &str)] = &[
    ("select 1, 'x', null, 1.5", "?column?|?column?|?column?|?column?"),
    ("select a, t.b, c as \"C\" from t", "a|b|C"),
    ("select A, \"b\" from t", "a|b"),
    ("select a, a, t.a from t", "a|a|a"),
    ("select *, a, a + 1 from t", "a|b|c|a|?column?"),
    ("select t.*, count(*) over () from t", "a|b|c|count"),
    (
        "select count(*), count(a), sum(a + 1), avg(a), min(b), max(b) from t",
        "count|count|sum|avg|min|max",
    ),
    ("select count(*), sum(a) from t having count(*) > 0", "count|sum"),
    (
        "select -a, not true, a + 1, a = 1, b || 'x' from t",
        "?column?|?column?|?column?|?column?|?column?",
    ),
    (
        "select a is null, a in (1, 2), a between 1 and 2, b like 'x' from t",
        "?column?|?column?|?column?|?column?",
    ),
    ("select true, false", "?column?|?column?"),
    ("select a::text, cast(a as bigint), (a)::smallint from t", "a|a|a"),
    (
        "select 1::int, 1::bigint, 1::smallint, '1'::text",
        "int4|int8|int2|text",
    ),
    (
        "select 1::real, 1::double precision, 1::float, 1::numeric(5, 2), 1::decimal",
        "float4|float8|float8|numeric|numeric",
    ),
    (
        "select 'x'::varchar, 'x'::varchar(3), 'x'::char(3), true::boolean",
        "varchar|varchar|bpchar|bool",
    ),
    (
        "select date '2024-01-01', '2024-01-01'::date, timestamp '2024-01-01 00:00:00'",
        "date|date|timestamp",
    ),
    (
        "select '2024-01-01 00:00:00'::timestamp, '2024-01-01 00:00:00+00'::timestamp with time zone",
        "timestamp|timestamptz",
    ),
    ("select interval '1 day'", "interval"),
    ("select (a + 1)::text, upper(b)::varchar from t", "text|upper"),
    (
        "select upper(b), lower('X'), length(b), coalesce(a, 0), nullif(a, 1) from t",
        "upper|lower|length|coalesce|nullif",
    ),
    (
        "select greatest(1, 2), least(1, 2), abs(-1)",
        "greatest|least|abs",
    ),
    (
        "select case when a = 1 then 'x' end, case when a = 1 then b else c end from t",
        "case|c",
    ),
    (
        "select case when true then 1 else 2 end, case a when 1 then 'x' else upper(b) end from t",
        "case|upper",
    ),
    (
        "select extract(year from date '2024-01-01'), date_part('year', date '2024-01-01')",
        "extract|date_part",
    ),
    (
        "select substring(b from 1 for 2), trim(b), trim(leading 'x' from b), position('x' in b) from t",
        "substring|btrim|ltrim|position",
    ),
    ("select ceil(1.5), floor(1.5), round(1.5)", "ceil|floor|round"),
    (
        "select current_date, current_timestamp, now(), current_user, session_user",
        "current_date|current_timestamp|now|current_user|session_user",
    ),
    (
        "select current_schema, current_schema(), current_database(), version()",
        "current_schema|current_schema|current_database|version",
    ),
    (
        "select exists (select 1), not exists (select 1)",
        "exists|?column?",
    ),
    (
        "select (select max(a) from t), (select a as x from t limit 1), (select 1)",
        "max|x|?column?",
    ),
    (
        "select (select 1)::text, (select max(a) from t)::text",
        "?column?|max",
    ),
    ("select array[1, 2], array(select a from t)", "array|array"),
    (
        "select row_number() over (order by a), rank() over (order by a), sum(a) over () from t",
        "row_number|rank|sum",
    ),
    ("select sum(a) filter (where a > 1) from t", "sum"),
    ("select count from (select count(*) from t) s", "count"),
    (
        "select * from (select count(*), sum(a), 1 from t) s",
        "count|sum|?column?",
    ),
    (
        "with s as (select max(a), b from t group by b) select max, b from s",
        "max|b",
    ),
    ("with s(x, y) as (select 1, 2) select * from s", "x|y"),
    (
        "select b, count(*) from t group by b order by count desc, 1",
        "b|count",
    ),
    ("select upper(b) from t group by upper(b) order by upper", "upper"),
    ("select distinct upper(b) from t order by upper(b)", "upper"),
    ("select distinct a + 1 from t order by a + 1", "?column?"),
    ("select a::text from t order by a", "a"),
    ("select max(a) from t union all select 2", "max"),
    ("select a + 1 from t union select 2 order by 1", "?column?"),
    ("values (1, 2)", "column1|column2"),
    ("select 1 from t where a = 1 order by b", "?column?"),
    (
        "select x.count from (select b, count(*) from t group by b) x join t on t.b = x.b",
        "count",
    ),
    (
        "select to_char(date '2024-01-01', 'YYYY'), string_agg(b, ',') from t",
        "to_char|string_agg",
    ),
    (
        "select a % 2, count(*) from t group by a % 2 order by a % 2",
        "?column?|count",
    ),
    ("select (a), ((a)) + 1, b collate \"C\" from t", "a|?column?|b"),
    ("select oid::regclass from pg_class limit 1", "oid"),
    (
        "select relname, relkind::text, pg_table_is_visible(oid) from pg_class limit 1",
        "relname|relkind|pg_table_is_visible",
    ),
];

/// What this server cannot run, for another reason than names.
const NOT_HERE: &[&str] = &[
    "select exists (select 1), not exists (select 1)",
    "select array[1, 2], array(select a from t)",
    "select (a), ((a)) + 1, b collate \"C\" from t",
];

/// The first line that psql prints for each statement.
fn headers(login: &str, first: &[&str]) -> Vec<String> {
    let mut psql = Command::new("psql");
    psql.args(["-XAq", "-P", "footer=off"]);
    for statement in first {
        psql.arg("-c").arg(statement);
    }
    for (statement, _) in NAMES {
        psql.args(["-c", "\\echo \u{1}", "-c", statement]);
    }
    psql.arg(login)
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/local/bin");
    psql.stderr(Stdio::inherit());
    let output = psql.output().expect("psql is installed (scripts/bootstrap)");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers = text.split("\u{1}\n").skip(1);
    answers
        .map(|answer| answer.lines().next().unwrap_or("(failed)").to_owned())
        .collect()
}

fn check(of: &str, found: &[String]) {
    assert_eq!(found.len(), NAMES.len(), "{of}: {found:?}");
    let pairs = NAMES.iter().zip(found);
    let wrong: Vec<String> = pairs
        .filter(|((statement, wanted), found)| found != wanted && !NOT_HERE.contains(statement))
        .map(|((statement, wanted), found)| format!("{statement}\n    {found}\n    instead of {wanted}"))
        .collect();
    assert!(wrong.is_empty(), "{of}:\n{}", wrong.join("\n"));
}

#[test]
fn columns_are_named_as_postgresql_names_them() {
    let folder = folder();
    std::fs::write(folder.path().join("data/t.csv"), "a,b,c\n1,x,y\n2,x,z\n").expect("written");
    let server = Server::start(folder.path(), &["data"]);
    check(
        "corun-sql serve",
        &headers(
            &format!("host=127.0.0.1 port={} dbname=data user=ann", server.port),
            &[],
        ),
    );
}

/// The newest PostgreSQL of this machine.
fn programs() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("CORUN_PG_BIN") {
        return Some(PathBuf::from(folder));
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            let folder = entry.path().join("bin");
            let version = entry.file_name().to_str()?.parse().ok()?;
            folder.join("initdb").exists().then_some((version, folder))
        })
        .collect();
    found.sort();
    found.pop().map(|(_, folder)| folder)
}

/// A PostgreSQL over a Unix socket in its folder.
struct Postgres(Child);

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGQUIT: at once, with all its processes.
        _ = Command::new("kill")
            .args(["-QUIT", &self.0.id().to_string()])
            .status();
        _ = self.0.wait();
    }
}

/// One of its programs, which refuse to run as root.
fn command(programs: &Path, name: &str) -> Command {
    let root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|id| id.stdout == b"0\n");
    let path = programs.join(name);
    match root {
        true => {
            let mut command = Command::new("setpriv");
            command.args([
                "--reuid=postgres",
                "--regid=postgres",
                "--init-groups",
                "--reset-env",
            ]);
            command.arg(path);
            command
        }
        false => Command::new(path),
    }
}

#[test]
fn postgresql_names_them_so() {
    let Some(programs) = programs() else {
        return crate::skipped::skipped("PostgreSQL's server programs are not installed");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).expect("the folder is everybody's");
    let data = folder.path().join("data");
    let mut initdb = command(&programs, "initdb");
    initdb
        .arg("-D")
        .arg(&data)
        .args(["--username=postgres", "--auth=trust", "--no-sync", "--locale=C"]);
    let made = initdb.output().expect("initdb runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let socket = folder.path().to_str().expect("UTF-8");
    let mut server = command(&programs, "postgres");
    server
        .arg("-D")
        .arg(&data)
        .args(["-k", socket, "-c", "listen_addresses="]);
    let server = Postgres(server.stderr(Stdio::null()).spawn().expect("it starts"));
    let login = format!("host={socket} user=postgres dbname=postgres");
    let begin = Instant::now();
    let ready = || {
        let psql = Command::new("psql").args(["-XAtc", "select 1", &login]).output();
        psql.is_ok_and(|output| output.status.success())
    };
    while !ready() {
        assert!(begin.elapsed() < Duration::from_secs(120), "it does not start");
        std::thread::sleep(Duration::from_millis(100));
    }
    let table = "create table t as select 1 as a, 'x' as b, 'y' as c";
    check("PostgreSQL", &headers(&login, &[table]));
    drop(server);
}
