//! Expressions: the types and rows that PostgreSQL has of them.
//!
//! `expressions.txt` has the statements and the answers, `expressions.sql` the tables. One test holds it against a real PostgreSQL, one against
//! the server, where each statement is run as often as it takes until its text is known, and by the extended protocol. A line that begins with
//! `~` is known to differ here, and is taken out of this when it does no more.

use super::harness::Server;
use super::harness::wire_client::{Said, WireClient};
use super::postgres::Postgres;

const CASES: &str = include_str!("expressions.txt");
const TABLES: &str = include_str!("expressions.sql");
/// Runs after which the short path knows a text.
const RUNS: usize = 4;
const NUMERIC: u32 = 1700;
const NAMES: &[(u32, &str)] = &[
    (16, "bool"),
    (17, "bytea"),
    (20, "int8"),
    (21, "int2"),
    (23, "int4"),
    (25, "text"),
    (700, "float4"),
    (701, "float8"),
    (1042, "char"),
    (1043, "varchar"),
    (1082, "date"),
    (1114, "timestamp"),
    (1186, "interval"),
    (NUMERIC, "numeric"),
    (1007, "int4[]"),
    (1231, "numeric[]"),
    (2950, "uuid"),
];

/// A number without the zeros at the end of what is behind its point.
fn number(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

fn shown(said: &Said) -> String {
    if let Some((code, message)) = &said.error {
        return format!("!{code} {message}");
    }
    let name = |of: &u32| {
        let known = NAMES.iter().find(|(oid, _)| oid == of);
        known.map_or_else(|| of.to_string(), |(_, name)| (*name).to_owned())
    };
    let types: Vec<String> = said.types.iter().map(name).collect();
    let rows = said.rows.iter().map(|row| {
        let fields = row.iter().zip(&said.types).map(|(field, of)| match field {
            None => "NULL",
            Some(field) if *of == NUMERIC => number(field),
            Some(field) => field,
        });
        fields.collect::<Vec<_>>().join("|")
    });
    format!("{}: {}", types.join(","), rows.collect::<Vec<_>>().join("; "))
}

/// An answer of the file as [`shown`] has it.
fn wanted(answer: &str) -> String {
    let Some((types, rows)) = answer.split_once(": ").filter(|_| !answer.starts_with('!')) else {
        return answer.to_owned();
    };
    let of: Vec<&str> = types.split(',').collect();
    let rows = rows.split("; ").map(|row| {
        let fields = row.split('|').zip(&of).map(|(field, of)| match *of {
            "numeric" => number(field),
            _ => field,
        });
        fields.collect::<Vec<_>>().join("|")
    });
    format!("{types}: {}", rows.collect::<Vec<_>>().join("; "))
}

/// What differs from the file, said by a client several times.
fn differences(client: &mut WireClient, runs: usize) -> Vec<String> {
    let mut query = |sql: &str, extended: bool| {
        let said = match extended {
            true => client.extended(sql),
            false => client.query(sql),
        };
        said.unwrap_or_else(|error| panic!("{sql}: {error}"))
    };
    assert_eq!(query("SET timezone = 'UTC'", false).error, None);
    for sql in TABLES.lines() {
        assert_eq!(query(sql, false).error, None, "{sql}");
    }
    let mut wrong = Vec::new();
    for line in CASES.lines().filter(|line| !line.starts_with('#')) {
        // With one run, the server is PostgreSQL.
        let known = line.starts_with('~') && runs > 0;
        let line = line.trim_start_matches('~');
        let (sql, answer) = line.split_once('\t').expect("a statement and its answer");
        let answer = wanted(answer);
        let before = wrong.len();
        for run in 0..=runs {
            // Several statements are no extended query.
            let extended = run == runs && !sql.contains("; ");
            let found = shown(&query(sql, extended));
            if found != answer {
                wrong.push(format!("{sql}\n  is     {found}\n  wanted {answer} (run {run})"));
                break;
            }
        }
        if known {
            match wrong.len() > before {
                true => wrong.truncate(before),
                false => wrong.push(format!("{sql}\n  does not differ any more")),
            }
        }
    }
    wrong
}

#[test]
fn postgresql_says_what_the_file_says() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let wrong = differences(&mut server.client("postgres"), 0);
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_server_says_what_postgresql_says() {
    let server = Server::start();
    let wrong = differences(&mut server.wire_client(), RUNS);
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
