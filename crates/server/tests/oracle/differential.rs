//! The same random statements on this server and on PostgreSQL: the same rows, columns, tags, SQLSTATEs, and the same tables at the end.
//!
//! A failure prints its seed, the statements that led to it, and both answers; `CORUN_TEST_SEED=N` runs that seed alone,
//! `CORUN_TEST_ROUNDS` and `CORUN_TEST_STEPS` more of them. `CORUN_TEST_ALL=1` goes on with the next seed after a difference,
//! `CORUN_TEST_STRICT=1` meets known ones, too.

use super::harness::wire_client::{Said, WireClient};
use super::harness::{Server, number_from_environment};
use super::postgres::Postgres;
use super::statements::{Known, Statements, Step};

/// Both servers.
struct Both {
    own: WireClient,
    postgres: WireClient,
    /// Texts that both have answered alike.
    log: Vec<String>,
}

#[test]
fn random_statements_have_the_answers_of_postgresql() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let first = number_from_environment("CORUN_TEST_SEED", 1);
    let one = std::env::var_os("CORUN_TEST_SEED").is_some();
    let rounds = number_from_environment("CORUN_TEST_ROUNDS", if one { 1 } else { 3 });
    let steps = number_from_environment("CORUN_TEST_STEPS", 250);
    let go_on = std::env::var_os("CORUN_TEST_ALL").is_some();
    let mut differences = Vec::new();
    for seed in first..first + rounds {
        if let Err(difference) = one_seed(&postgres, seed, steps) {
            eprintln!("{difference}\n");
            differences.push(seed);
            assert!(go_on, "CORUN_TEST_SEED={seed}: the answers differ");
        }
    }
    assert!(differences.is_empty(), "seeds with differences: {differences:?}");
}

fn one_seed(postgres: &Postgres, seed: u64, steps: u64) -> Result<(), String> {
    let database = format!("seed{seed}");
    postgres.create(&database);
    let server = Server::start();
    let mut both = Both {
        own: server.wire_client(),
        postgres: postgres.client(&database),
        log: Vec::new(),
    };
    let mut statements = Statements::new(seed);
    for setting in ["set timezone = 'UTC'", "set client_min_messages = error"] {
        for client in [&mut both.own, &mut both.postgres] {
            client.query(setting).expect("an answer");
        }
    }
    for number in 0..steps {
        let step = statements.next(both.postgres.state);
        let about = |both: &Both, why: &str| {
            let from = both.log.len().saturating_sub(400);
            let before: Vec<&str> = both.log[from..].iter().map(String::as_str).collect();
            format!(
                "CORUN_TEST_SEED={seed}, statement {number}{}\n{};\n-- {why}\n{};",
                if step.extended {
                    " by the extended protocol"
                } else {
                    ""
                },
                before.join(";\n"),
                step.sql
            )
        };
        let said = both.run(&step).map_err(|why| about(&both, &why))?;
        match said.error {
            None if said.tags.last().map(String::as_str) == Some("ROLLBACK") => statements.rolled_back(&step),
            error => statements.done(&step, error.is_none()),
        }
        both.log.push(step.sql.clone());
        if let Some(table) = step.table.as_ref().filter(|_| both.postgres.state != 'E') {
            both.same_table(table)
                .map_err(|why| about(&both, &format!("afterwards: {why}")))?;
        }
    }
    Ok(())
}

impl Both {
    /// Runs a step; returns what PostgreSQL says.
    fn run(&mut self, step: &Step) -> Result<Said, String> {
        let ask = |client: &mut WireClient| match step.extended {
            true => client.extended(&step.sql),
            false => client.query(&step.sql),
        };
        let theirs = ask(&mut self.postgres).map_err(|error| format!("PostgreSQL: {error}"))?;
        let own =
            ask(&mut self.own).map_err(|error| format!("the server: {error}\nPostgreSQL says {theirs:?}"))?;
        match differs(step, &own, &theirs) {
            None => Ok(theirs),
            Some(what) => Err(format!(
                "{what}\nthe server says {}\nPostgreSQL says {}",
                shown(&own),
                shown(&theirs)
            )),
        }
    }

    fn same_table(&mut self, table: &str) -> Result<(), String> {
        let step = Step::of(format!("select * from {table}"));
        // A transaction that has failed on neither side stays so: tables that are not there are found by name.
        let there = format!("select 1 from pg_catalog.pg_class where relname = '{table}' and relkind = 'r'");
        let said = self.postgres.query(&there).map_err(|error| error.to_string())?;
        match said.rows.is_empty() {
            true => Ok(()),
            false => self.run(&step).map(drop),
        }
    }
}

fn shown(said: &Said) -> String {
    let rows: Vec<String> = said
        .rows
        .iter()
        .take(30)
        .map(|row| {
            row.iter()
                .map(|field| field.as_deref().unwrap_or("NULL"))
                .collect::<Vec<_>>()
                .join("|")
        })
        .collect();
    format!(
        "{:?} {:?} columns {:?} types {:?} state {} rows: {}",
        said.error,
        said.tags,
        said.columns,
        said.types,
        said.state,
        rows.join("  ")
    )
}

/// In what two answers differ; `None`: in nothing that counts.
fn differs(step: &Step, own: &Said, theirs: &Said) -> Option<&'static str> {
    let code = |said: &Said| said.error.as_ref().map(|(code, _)| code.clone());
    let (own_code, their_code) = (code(own), code(theirs));
    if own_code != their_code {
        let (Some(own), Some(theirs)) = (&own_code, &their_code) else {
            return Some("one of them fails");
        };
        // Which of several rows, or of several values in them, is met first is nobody's promise.
        let class = |code: &str| code[..2].to_owned();
        let rows = ["21", "22", "23"];
        if Known::ConflictKey.is_avoided() && (own.as_str(), theirs.as_str()) == ("40001", "21000") {
            return None;
        }
        if !(step.several && rows.contains(&&*class(own)) && rows.contains(&&*class(theirs))) {
            return Some("SQLSTATEs differ");
        }
    }
    if own.tags != theirs.tags {
        return Some("tags differ");
    }
    if own.state != theirs.state {
        return Some("states of the transaction differ");
    }
    if theirs.error.is_some() {
        return None;
    }
    if own.columns != theirs.columns {
        return Some("names of columns differ");
    }
    if !step.computed && own.types != theirs.types {
        return Some("types of columns differ");
    }
    let rows = |said: &Said| {
        let mut rows: Vec<Vec<Option<String>>> = said.rows.clone();
        if step.computed {
            for field in rows.iter_mut().flatten().flatten() {
                *field = plain(field);
            }
        }
        if !step.ordered {
            rows.sort();
        }
        rows
    };
    (rows(own) != rows(theirs)).then_some("rows differ")
}

/// A number without zeros at the end of its fraction.
fn plain(field: &str) -> String {
    let digits = field.strip_prefix('-').unwrap_or(field);
    // Zeros of both signs are equal, and either may stand for both.
    if field == "-0" {
        return "0".to_owned();
    }
    let number = digits.contains('.') && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    match number {
        true => field.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => field.to_owned(),
    }
}

#[test]
fn what_counts_as_a_difference() {
    let step = |ordered, computed, several| Step {
        ordered,
        computed,
        several,
        ..Step::of("")
    };
    let said = |rows: &[&str], code: Option<&str>| Said {
        rows: rows.iter().map(|row| vec![Some((*row).to_owned())]).collect(),
        error: code.map(|code| (code.to_owned(), "why".to_owned())),
        state: 'I',
        ..Said::default()
    };
    let same = |step: Step, own: &Said, theirs: &Said| differs(&step, own, theirs).is_none();
    assert!(same(
        step(false, false, false),
        &said(&["1", "2"], None),
        &said(&["2", "1"], None)
    ));
    assert!(!same(
        step(true, false, false),
        &said(&["1", "2"], None),
        &said(&["2", "1"], None)
    ));
    assert!(!same(
        step(false, false, false),
        &said(&["1", "1"], None),
        &said(&["1"], None)
    ));
    assert!(!same(
        step(false, false, false),
        &said(&["1.50"], None),
        &said(&["1.5"], None)
    ));
    assert!(same(
        step(false, true, false),
        &said(&["1.50"], None),
        &said(&["1.5"], None)
    ));
    assert!(!same(
        step(false, true, false),
        &said(&["150"], None),
        &said(&["15"], None)
    ));
    assert!(!same(
        step(false, false, false),
        &said(&[], Some("23505")),
        &said(&[], Some("23502"))
    ));
    assert!(same(
        step(false, false, true),
        &said(&[], Some("23505")),
        &said(&[], Some("23502"))
    ));
    assert!(!same(
        step(false, false, true),
        &said(&[], Some("23505")),
        &said(&[], Some("42703"))
    ));
    assert!(!same(
        step(false, false, true),
        &said(&[], Some("23505")),
        &said(&[], None)
    ));
}
