//! The texts that clients ask the system tables with, collected from what they sent to a real PostgreSQL (those in `tools.sql` are written
//! after what DBeaver, Metabase, Grafana, pgAdmin and Npgsql ask when they begin): each is run over a folder with
//! a store and a file in it. `texts/` has them; `{orders}` and `{q1}` stand for the numbers of two tables.

#[path = "../common/mod.rs"]
mod common;

mod facts;
mod functions;

use common::{lines, open, session};
use corun_server::catalog;
use corun_server::data::Data;
use corun_store::{ColumnDef, Options, Store, TableDef, Type};
use datafusion::prelude::SessionContext;
use facts::Facts;
use std::sync::Arc;

/// Texts that do not work, and why. The manual's page on the system tables has the same list.
const KNOWN: &[(&str, &str)] = &[
    ("psql 40 \\dd", "DataFusion's tables have no `tableoid`"),
    (
        "psql 42 \\drds",
        "settings of roles are a text, not an array, in the static tables",
    ),
    ("psql 44 \\dL", "DataFusion's tables have no `tableoid`"),
    ("psql 46 \\sf version", "functions have no numbers by their names"),
    (
        "jdbc 12 jdbc 12",
        "`regproc` columns hold names, and are not compared with numbers",
    ),
    (
        "tools 16 grafana tables",
        "arguments of `generate_series` must be literals for DataFusion",
    ),
    (
        "tools 20 pgadmin settings",
        "there is no function `pg_show_all_settings`",
    ),
    (
        "tools 21 npgsql types",
        "`regproc` columns hold names, and are not compared with numbers",
    ),
];

struct Server {
    folder: tempfile::TempDir,
    context: SessionContext,
    _data: Data,
}

/// `public` is a store with the table `orders`; `sales.q1` is a file.
fn server() -> Server {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("public"), Options::default()).unwrap();
    let orders = TableDef::new("orders")
        .column("id", Type::I64)
        .column("name", Type::TEXT)
        .with_column(ColumnDef::new("price", Type::F64).nullable())
        .primary_key(&["id"])
        .index("by_name", &["name"]);
    store.create_table(orders).unwrap();
    store.close().unwrap();
    drop(store);
    std::fs::create_dir(folder.path().join("sales")).unwrap();
    std::fs::write(folder.path().join("sales/q1.csv"), "a,b\n1,x\n").unwrap();
    let data = open(folder.path());
    let context = session(&data);
    catalog::install(&context, Arc::new(Facts::default())).unwrap();
    Server {
        folder,
        context,
        _data: data,
    }
}

impl Server {
    async fn run(&self, sql: &str) -> Result<Vec<String>, String> {
        let text = |error: datafusion::error::DataFusionError| error.strip_backtrace();
        let mut rows = Vec::new();
        for statement in catalog::parse(sql).map_err(text)? {
            let plan = self
                .context
                .state()
                .statement_to_plan(statement)
                .await
                .map_err(text)?;
            let frame = self.context.execute_logical_plan(plan).await.map_err(text)?;
            rows.extend(lines(&frame.collect().await.map_err(text)?));
        }
        Ok(rows)
    }

    async fn rows(&self, sql: &str) -> Vec<String> {
        match self.run(sql).await {
            Ok(rows) => rows,
            Err(error) => panic!("{sql}: {error}"),
        }
    }

    /// The text with the numbers of the two tables.
    async fn filled(&self, text: &str) -> String {
        let number = async |table: &str| {
            self.rows(&format!("select '{table}'::regclass::oid"))
                .await
                .remove(0)
        };
        let orders = number("public.orders").await;
        text.replace("{orders}", &orders)
            .replace("{q1}", &number("sales.q1").await)
    }
}

/// Label and text of each statement of a file.
fn texts(file: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in file.lines() {
        match line.strip_prefix("-- ") {
            Some(label) => found.push((label.to_owned(), String::new())),
            None => found.last_mut().expect("a label first").1.extend([line, "\n"]),
        }
    }
    found
}

const FILES: &[(&str, &str)] = &[
    ("psql", include_str!("texts/psql15.sql")),
    ("sqlalchemy", include_str!("texts/sqlalchemy.sql")),
    ("django", include_str!("texts/django.sql")),
    ("jdbc", include_str!("texts/jdbc.sql")),
    ("tools", include_str!("texts/tools.sql")),
];

#[tokio::test]
async fn every_text_of_the_clients_runs_or_is_known_not_to() {
    let server = server();
    _ = server.rows("select count(*) from pg_class").await;
    let mut wrong = Vec::new();
    for (client, file) in FILES {
        for (at, (label, text)) in texts(file).into_iter().enumerate() {
            let name = format!("{client} {} {label}", at + 1);
            let known = KNOWN.iter().find(|(known, _)| *known == name);
            let text = server.filled(&text).await;
            let answer = server.run(&text).await;
            match (answer, known) {
                (Err(error), None) => wrong.push(format!("{name}: {error}\n{text}")),
                (Ok(_), Some(_)) => wrong.push(format!("{name} works now")),
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{} texts:\n{}", wrong.len(), wrong.join("\n"));
}

/// The rows of the statement of a file that has this label, `at`th of them.
async fn answer(server: &Server, client: &str, label: &str, at: usize) -> Vec<String> {
    let file = FILES
        .iter()
        .find(|(name, _)| *name == client)
        .expect("a client")
        .1;
    let mut of = texts(file).into_iter().filter(|(found, _)| found == label);
    let (_, text) = of.nth(at).unwrap_or_else(|| panic!("no text {at} of {label}"));
    server.rows(&server.filled(&text).await).await
}

#[tokio::test]
async fn psql_lists_what_there_is() {
    let server = server();
    let of = async |label: &str| answer(&server, "psql", label, 0).await;
    assert_eq!(of("\\dt").await, ["public|orders|table|ada"]);
    assert_eq!(of("\\dn").await, ["public|ada", "sales|ada"]);
    assert_eq!(
        of("\\di").await,
        [
            "public|by_name|index|ada|orders",
            "public|orders_pkey|index|ada|orders"
        ]
    );
    assert_eq!(of("\\d").await, ["public|orders|table|ada"]);
    let databases = of("\\l").await;
    assert!(
        databases.len() == 1 && databases[0].starts_with("corun|ada|UTF8|"),
        "{databases:?}"
    );
    let roles = of("\\du").await;
    assert!(roles.len() == 2 && roles[0].starts_with("ada|true|"), "{roles:?}");
    for nothing in ["\\df", "\\dv", "\\ds", "\\dT"] {
        assert_eq!(of(nothing).await, Vec::<String>::new(), "{nothing}");
    }
}
