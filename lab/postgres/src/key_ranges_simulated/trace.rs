//! Takes recordings from the PostgreSQL that is here: makes a small database, warms one backend, traces known keys.
//!
//! ```text
//!   initdb ──▶ load ──▶ Backend: prepare, warm, trace each statement ──▶ tapes
//!                          └ memory map, names of shared memory, which buffer holds what ──▶ corun_cachesim::private_caches::lackey ──▶ Recording
//! ```
//!
//! Takes some ten minutes: valgrind writes a line for every access. Not here: replaying.

use std::collections::HashMap;
use std::path::Path;

use corun_cachesim::private_caches::lackey::{Memory, Tape, Taped, executions};
use corun_cachesim::private_caches::recording::{Block, Recording};

use super::database::{BEST_SELLER, BEST_SELLER_CUT, STATEMENTS, Statement, best_seller, keys, load};
use super::relations::{File, Levels};
use crate::fixture;
use crate::fixture::account::{Account, passable};
use crate::fixture::cluster::{Programs, finished, initdb, number_of};
use crate::traced::counted::CountedBackend;
use crate::traced::lackey::{Backend, Tag};
use crate::traced::{PEER, QUIET, valgrind, values};
use corun_model::progress::Progress;
use lab_core::error::BenchError;

/// Settings beside [`QUIET`]: few buffers, so that starting is short; plans as for many executions, and nested loops, as paper 004 says of
/// Best Seller.
const SETTINGS: &[&str] = &[
    "shared_buffers=64MB",
    "max_connections=100",
    "plan_cache_mode=force_generic_plan",
    "enable_hashjoin=off",
    "enable_mergejoin=off",
    "enable_seqscan=off",
    "log_min_messages=fatal",
];
/// Executions with other keys before the first one is traced.
const WARM_UP: u64 = 3;
/// Steps of Best Seller that are kept, of the middle of the query.
const BEST_SELLER_STEPS: usize = 12;

fn failed(reason: impl Into<String>) -> BenchError {
    fixture::failed(PEER, reason)
}

/// Traces every statement on a new database in `folder`, which may be removed afterwards.
///
/// # Errors
/// When PostgreSQL or valgrind are not here or fail, or a trace cannot be understood.
pub fn record(folder: &Path, progress: &dyn Progress) -> Result<Recording, BenchError> {
    let programs = Programs::find()?;
    valgrind()?;
    let account = Account::for_servers()?;
    if let Some(account) = account {
        passable(folder)?;
        let inner = folder.join("server");
        std::fs::create_dir(&inner)
            .map_err(|source| BenchError::io(format!("could not make {}", inner.display()), source))?;
        account.own(&inner)?;
        return record_in(&programs, Some(account), &inner, progress);
    }
    record_in(&programs, None, folder, progress)
}

fn record_in(
    programs: &Programs,
    account: Option<Account>,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<Recording, BenchError> {
    let data = folder.join("data");
    progress.begin("tracing PostgreSQL", STATEMENTS.len() as u64 + 3);
    finished(
        "initdb",
        initdb(programs, &data, account),
        &folder.join("initdb.log"),
    )?;
    CountedBackend::new(programs, &data, account, folder)?.native(&load())?;
    progress.advance(1);
    let mut session = Session::start(programs, account, &data)?;
    progress.advance(1);
    let mut tapes = Vec::new();
    for statement in STATEMENTS {
        tapes.extend(session.statement(statement)?);
        progress.advance(1);
    }
    session.backend.run(&best_seller())?;
    let (answer, whole) = session.backend.traced(&best_seller(), Tape::default())?;
    if values(&answer, "i_id").is_empty() {
        return Err(failed("Best Seller has no answer"));
    }
    let version = session.backend.run("show server_version")?;
    let server = values(&version, "server_version").pop().unwrap_or_default();
    let memory = session.backend.memory()?;
    let tags = session.backend.tags(&memory)?;
    let names = session.names()?;
    session.backend.finish()?;

    let database = database_folder(&data, &tags)?;
    let files: Result<Vec<File>, BenchError> = names
        .iter()
        .map(|(name, node, is_index)| File::read(&database, name, *node, *is_index))
        .collect();
    let files = files?;
    let levels = Levels::of(&files);
    let mut buffers: HashMap<u64, Block> = HashMap::new();
    let mut root = None;
    for tag in tags {
        let Some(file) = files.iter().find(|file| file.node == tag.node && tag.fork == 0) else {
            continue;
        };
        if file.name == BEST_SELLER_CUT && file.root() == Some(tag.page) {
            root = Some(tag.buffer);
        }
        if let Some(block) = levels.block(file, tag.page) {
            buffers.insert(tag.buffer, block);
        }
    }
    let root = root.ok_or_else(|| failed(format!("the root of {BEST_SELLER_CUT} is in no buffer")))?;
    tapes.extend(best_seller_steps(whole, &memory, root)?);
    progress.advance(1);
    progress.end();
    let executions = executions(&memory, &buffers, &tapes).map_err(|error| failed(error.to_string()))?;
    Ok(Recording {
        server: number_of(&server),
        machine: format!(
            "valgrind lackey, postgres --single, {}",
            [QUIET, SETTINGS].concat().join(" ")
        ),
        relations: levels.relations,
        executions,
    })
}

/// The parts of Best Seller: before its first step, some steps, after its last.
fn best_seller_steps(whole: Tape, memory: &Memory, root: u64) -> Result<Vec<Taped>, BenchError> {
    let mut pieces = whole.cut(memory, root);
    if pieces.len() < BEST_SELLER_STEPS * 4 {
        return Err(failed(format!(
            "Best Seller comes to {BEST_SELLER_CUT} only {} times: its plan is another one",
            pieces.len() - 1
        )));
    }
    let taped = |part: &str, tape| Taped {
        statement: format!("{BEST_SELLER}_{part}"),
        at: Vec::new(),
        tape,
    };
    let close = pieces.pop().map(|tape| taped("close", tape));
    let middle = pieces.len() / 2;
    let steps: Vec<Taped> = pieces
        .drain(middle..middle + BEST_SELLER_STEPS)
        .map(|tape| taped("step", tape))
        .collect();
    let open = pieces.into_iter().next().map(|tape| taped("open", tape));
    Ok(open.into_iter().chain(steps).chain(close).collect())
}

/// The folder of the database that most buffers are of and the relations are in.
fn database_folder(data: &Path, tags: &[Tag]) -> Result<std::path::PathBuf, BenchError> {
    let mut count: HashMap<u32, usize> = HashMap::new();
    for tag in tags.iter().filter(|tag| tag.database != 0) {
        *count.entry(tag.database).or_default() += 1;
    }
    let database = count.into_iter().max_by_key(|&(_, count)| count);
    let (database, _) = database.ok_or_else(|| failed("holds no page of a database"))?;
    Ok(data.join("base").join(database.to_string()))
}

/// A backend that is traced.
struct Session {
    backend: Backend<Tape>,
}

impl Session {
    fn start(programs: &Programs, account: Option<Account>, data: &Path) -> Result<Session, BenchError> {
        let mut backend = Backend::start(programs, data, account, SETTINGS)?;
        for statement in STATEMENTS {
            if let Some((types, text)) = statement.prepared {
                backend.run(&format!("prepare {}({types}) as {text}", statement.name))?;
            }
        }
        Ok(Session { backend })
    }

    /// Warms a statement, with other keys and with those that follow, so that no page has to be read; then traces it.
    fn statement(&mut self, statement: &Statement) -> Result<Vec<Taped>, BenchError> {
        let all = statement.executions;
        let runs = (0..WARM_UP)
            .map(|nth| (keys(statement.axes, nth, WARM_UP), false))
            .chain((0..all).map(|nth| (keys(statement.axes, nth, all), false)))
            .chain((0..all).map(|nth| (keys(statement.axes, nth, all), true)));
        let mut taped = Vec::new();
        for ((numbers, at), traced) in runs {
            let text = text(statement.run, &numbers);
            if statement.in_transaction {
                self.backend.run("begin")?;
                // The first statement of a transaction takes its number; the ones traced are those in the middle.
                self.backend.run("select pg_current_xact_id()")?;
            }
            if traced {
                let (_, tape) = self.backend.traced(&text, Tape::default())?;
                if tape.instructions() == 0 {
                    return Err(failed("valgrind reports no instructions"));
                }
                taped.push(Taped {
                    statement: statement.name.to_owned(),
                    at,
                    tape,
                });
            } else {
                self.backend.run(&text)?;
            }
            if statement.in_transaction && text != "commit" || text == "begin" {
                self.backend.run("commit")?;
            }
        }
        Ok(taped)
    }

    /// Names, files and kinds of the users' relations.
    fn names(&mut self) -> Result<Vec<(String, u32, bool)>, BenchError> {
        let answer = self.backend.run(
            "select relname, pg_relation_filenode(oid) as node, relkind from pg_class where relkind in ('r', 'i', 'S') and \
             relnamespace = 'public'::regnamespace order by oid",
        )?;
        let nodes = values(&answer, "node")
            .into_iter()
            .filter_map(|node| node.parse().ok());
        let kinds = values(&answer, "relkind").into_iter().map(|kind| kind == "i");
        Ok(values(&answer, "relname")
            .into_iter()
            .zip(nodes)
            .zip(kinds)
            .map(|((name, node), is_index)| (name, node, is_index))
            .collect())
    }
}

/// The statement with its keys put in.
fn text(run: &str, numbers: &[u64]) -> String {
    numbers.iter().fold(run.to_owned(), |text, number| {
        text.replacen("{}", &number.to_string(), 1)
    })
}
