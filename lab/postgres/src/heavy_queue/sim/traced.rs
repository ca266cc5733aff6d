//! [`TracedBackend`]: the backend that is traced, and the queries as [`Traced`].
//!
//! Of a hash join only what follows the build is kept: that is what takes the time of the paper's queries, of which each hash table is
//! probed thirty times as often as it has rows; here it is about as often, and the build would hide the rest.

use std::collections::HashSet;

use corun_cachesim::llc::filtered::{Filter, Filtered};
use corun_cachesim::private_caches::lackey::Memory;

use super::super::query::Form;
use super::data::{Asked, Made};
use super::lab::Traced;
use super::platform::Platform;
use crate::fixture::PgFixture;
use crate::fixture::failed;
use crate::traced::lackey::Backend;
use crate::traced::{PEER, values};
use corun_workloads::answers::fingerprint_of_rows;
use lab_core::error::BenchError;

/// The part of a hash join's probes that fill the cache with its table.
const HASH_WARM_UP: f64 = 0.4;
/// The part of an index join or a scan, which have less to come back to.
const OTHER_WARM_UP: f64 = 0.2;
/// As the server's: everything in memory, tables in one batch.
const SETTINGS: &[&str] = &[
    "shared_buffers=128MB",
    "work_mem=512MB",
    "random_page_cost=1.1",
    "effective_cache_size=4GB",
    "max_connections=20",
    "synchronize_seqscans=off",
    "log_min_messages=fatal",
];

/// A backend under valgrind.
pub struct TracedBackend {
    backend: Backend<Filter>,
    memory: Memory,
    empty: Filter,
    form: Form,
    /// The file of table `part`, if there is one.
    part: Option<u32>,
}

impl TracedBackend {
    /// Starts it. PostgreSQL takes 50 million instructions for that, each a line of text: a minute.
    pub fn start(fixture: &PgFixture, made: &Made, platform: &Platform) -> Result<TracedBackend, BenchError> {
        let mut backend = Backend::start(&fixture.programs, &made.folder, fixture.account, SETTINGS)?;
        let memory = backend.memory()?;
        let node = backend.run("select pg_relation_filenode(to_regclass('public.part')) as node")?;
        Ok(TracedBackend {
            part: values(&node, "node").pop().and_then(|node| node.parse().ok()),
            backend,
            memory,
            empty: Filter::new(platform.first_level(), platform.first_level()),
            form: Form::Free,
        })
    }

    /// Traces a query over SSB.
    ///
    /// # Errors
    /// When it takes another plan than wanted, or answers wrongly.
    pub fn ssb(&mut self, asked: &Asked) -> Result<Traced, BenchError> {
        let query = &asked.query;
        self.prefer(query.form)?;
        let sql = query.sql.replace('\n', " ");
        let plan = values(&self.backend.run(&format!("explain {sql}"))?, "QUERY PLAN").join("\n");
        let wanted = match query.form {
            Form::Hash => "Hash Join",
            Form::Index => "Nested Loop",
            Form::Free => "Seq Scan",
        };
        if !plan.contains(wanted) {
            return Err(failed(PEER, format!("{}: no {wanted} in {plan}", query.name)));
        }
        let (answer, filter) = self.backend.traced(&sql, self.empty.clone())?;
        let sums = values(&answer, "revenue");
        let found = fingerprint_of_rows(&sums);
        if found != query.expected {
            let expected = query.expected;
            return Err(failed(
                PEER,
                format!("{}: expected {expected}, got {found}", query.name),
            ));
        }
        let mut trace = self.finish(filter, &query.name)?;
        if query.form == Form::Hash {
            let memory = &self.memory;
            let tags = self.backend.tags(memory)?;
            let of_part = tags
                .iter()
                .filter(|tag| Some(tag.node) == self.part && tag.fork == 0);
            let parts: HashSet<u64> = of_part.map(|tag| tag.buffer).collect();
            trace =
                trace.after_last(|line| memory.buffer(line).is_some_and(|buffer| parts.contains(&buffer)));
        }
        Ok(Traced {
            name: query.name.clone(),
            class: asked.class,
            footprint: asked.footprint,
            warm_up: match query.form {
                Form::Hash => HASH_WARM_UP,
                _ => OTHER_WARM_UP,
            },
            trace,
        })
    }

    fn finish(&self, filter: Filter, name: &str) -> Result<Filtered, BenchError> {
        let trace = filter
            .finish(|line| self.memory.is_private(line))
            .map_err(|error| failed(PEER, format!("{name} {error}")))?;
        match trace.instructions() {
            0 => Err(failed(PEER, format!("{name}: valgrind reports no instructions"))),
            _ => Ok(trace),
        }
    }

    fn prefer(&mut self, form: Form) -> Result<(), BenchError> {
        if form == self.form {
            return Ok(());
        }
        for statement in form.statements() {
            self.backend.run(&statement)?;
        }
        self.form = form;
        Ok(())
    }
}
