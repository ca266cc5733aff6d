//! What people type into a real psql: its commands about tables, formats of its output, and what it does with queries.

use crate::program::corun_in;
use crate::serve::{Server, folder};

const ON: &str = "dbname=data user=ann";

/// The folder of the server's tests, with a store as the schema `shop`.
fn server() -> (tempfile::TempDir, Server) {
    let folder = folder();
    let load = [
        "sql",
        "--store",
        "data/shop",
        "--load",
        "orders=data/orders.parquet",
        "--primary-key",
        "o_id",
        "-c",
        "select 1",
    ];
    let run = corun_in(folder.path(), &load, "");
    assert_eq!(run.code, 0, "{run:?}");
    let server = Server::start(folder.path(), &["data"]);
    (folder, server)
}

#[test]
fn commands_about_tables() {
    let (_folder, server) = server();
    // Each command, and what must be in what it prints.
    for (command, wanted) in [
        ("\\d", &["public|orders|table|"][..]),
        (
            "\\d orders",
            &["Table \"public.orders\"", "o_id|bigint", "o_customer|text"],
        ),
        ("\\d+ orders", &["o_id|bigint", "plain"]),
        (
            "\\d shop.orders",
            &[
                "o_id|bigint||not null|",
                "\"orders_pkey\" PRIMARY KEY, btree (o_id)",
            ],
        ),
        ("\\d hr.*", &["Table \"hr.people\"", "name|text"]),
        ("\\dt", &["public|orders|table|"]),
        (
            "\\dt *.*",
            &[
                "hr|people|table|",
                "shop|orders|table|",
                "pg_catalog|pg_class|table|",
            ],
        ),
        ("\\dt+ hr.*", &["hr|people|table|"]),
        ("\\dn", &["hr|", "public|", "shop|"]),
        ("\\dn+", &["hr|"]),
        ("\\du", &["ann|"]),
        ("\\dg", &["ann|"]),
        ("\\l", &["data|", "UTF8"]),
        ("\\l+", &["data|"]),
        ("\\df", &[]),
        ("\\dv", &[]),
        ("\\dm", &[]),
        ("\\ds", &[]),
        ("\\di shop.*", &["shop|orders_pkey|index|"]),
        ("\\dp", &["public|orders|table|"]),
        ("\\z", &["public|orders|table|"]),
        ("\\dT", &[]),
        ("\\dD", &[]),
        ("\\dC", &[]),
        ("\\dx", &[]),
        ("\\db", &[]),
        ("\\dE", &[]),
        ("\\det", &[]),
        ("\\dF", &[]),
        ("\\dP", &[]),
        ("\\dRp", &[]),
        ("\\dconfig work_mem", &[]),
        (
            "\\conninfo",
            &["You are connected to database \"data\" as user \"ann\""],
        ),
        ("\\encoding", &["UTF8"]),
    ] {
        // With titles and what stands below tables.
        let printed = server.printed(ON, &["\\t off", command]);
        for wanted in wanted {
            assert!(printed.contains(wanted), "{command}: no {wanted} in\n{printed}");
        }
    }
    let told = server.failed(ON, &["\\d nothing"]);
    assert!(
        told.contains("Did not find any relation named \"nothing\""),
        "{told}"
    );
}

#[test]
fn commands_about_queries() {
    let (folder, server) = server();
    for (statements, wanted) in [
        (&["\\x on", "select 1 as a, 'b' as b"][..], "a|1\nb|b\n"),
        (
            &["select count(*), sum(o_id) as s from orders \\gdesc"],
            "count|bigint\ns|",
        ),
        (&["select 5 as five \\gset", "select :five + 1"], "6\n"),
        (&["select 'select ' || 3 \\gexec"], "3\n"),
        (&["select 1 as a \\gx"], "a|1\n"),
        (
            &[
                "select o_id % 2 as r, o_id % 3 as c, count(*) from orders group by 1, 2 order by 1, 2 \\crosstabview r c count",
            ],
            "0|500",
        ),
        (
            &[
                "\\copy (select o_id from orders where o_id < 3 order by 1) to stdout with (format csv, header)",
            ],
            "o_id\n1\n2\n",
        ),
        (&["\\copy hr.people to stdout"], "1\tAnn\n2\tBob\n"),
        (
            &["\\set FETCH_COUNT 100", "select o_id from orders order by o_id"],
            "\n3000\n",
        ),
        (&["\\timing on", "select 7"], "7\nTime: "),
        (&["\\errverbose"], "There is no previous error.\n"),
        (&["\\set AUTOCOMMIT off", "select 8;", "rollback"], "8\n"),
        (&["prepare p(int) as select $1 + 1;", "execute p(4)"], "5\n"),
        (&["\\if true", "select 9", "\\endif"], "9\n"),
    ] {
        // One psql that reads them all: commands such as \gset do not take a statement of their own.
        let script = folder.path().join("script.sql");
        std::fs::write(&script, statements.join("\n") + "\n;\n").expect("written");
        let path = script.to_str().expect("UTF-8");
        let printed = server.printed(ON, &[&format!("\\i {path}")]);
        assert!(
            printed.contains(wanted),
            "{statements:?}: no {wanted} in\n{printed}"
        );
    }
}

#[test]
fn statements_again_and_again() {
    let (folder, server) = server();
    let script = folder.path().join("script.sql");
    std::fs::write(&script, "select 'again' \\watch 0.05\n").expect("written");
    let mut psql = std::process::Command::new("psql")
        .args(["-XAt", "-f"])
        .arg(&script)
        .arg(format!("host=127.0.0.1 port={} {ON}", server.port))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("psql is installed (scripts/bootstrap)");
    let lines = std::io::BufRead::lines(std::io::BufReader::new(psql.stdout.take().expect("piped")));
    let again = lines
        .map_while(Result::ok)
        .filter(|line| line == "again")
        .take(3)
        .count();
    psql.kill().expect("it runs");
    psql.wait().expect("it ends");
    assert_eq!(again, 3);
}

#[test]
fn tables_that_are_not_there_are_like_others() {
    let (_folder, server) = server();
    for (statement, wanted) in [
        ("select * from ordrs", "Perhaps you meant the table \"orders\"."),
        (
            "select * from people",
            "Perhaps you meant the table \"hr.people\".",
        ),
        (
            "select * from peopel",
            "Perhaps you meant the table \"hr.people\".",
        ),
        (
            "select o_idd from orders",
            "Perhaps you meant to reference the column \"orders.o_id\".",
        ),
    ] {
        let told = server.failed(ON, &[statement]);
        assert!(told.contains(wanted), "{statement}: {told}");
    }
}
