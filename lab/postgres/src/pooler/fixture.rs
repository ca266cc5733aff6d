//! [`Fixture`]: everything the sides of a comparison share: the server with its data, and what can stand in front of it.

use std::path::{Path, PathBuf};

use super::shapes::{Literals, TABLES, write_scripts};
use crate::fixture::cluster::{Cluster, Profile, Programs};
use crate::fixture::{Found, PgFixture, pgbouncer};
use lab_core::error::BenchError;

/// The test fixture. Fields end in this order: the server before its folder.
pub struct Fixture {
    /// The server.
    pub cluster: Cluster,
    /// The folder, the programs and the account of servers.
    pub pg: PgFixture,
    /// The system's PgBouncer.
    pub packaged: Found<pgbouncer::Program>,
    /// The newer PgBouncer.
    pub current: Found<pgbouncer::Program>,
    /// An earlier `corun` to compare with.
    pub before: Option<PathBuf>,
    /// pgbench's scale.
    pub scale: usize,
    /// Whether PgBouncer is wanted.
    pub peers: bool,
}

impl Fixture {
    /// Starts the server with 100,000 accounts for each of `scale`, and looks for what can stand in front of it. `corun` is the program
    /// to measure; without one it is the one beside this one. `before` is an earlier one to compare it with.
    ///
    /// # Errors
    /// When there is no PostgreSQL, or it cannot be started. A pooler that is missing is not an error.
    pub fn new(
        programs: Programs,
        scale: usize,
        corun: Option<&Path>,
        before: Option<&Path>,
        peers: bool,
    ) -> Result<Fixture, BenchError> {
        let pg = PgFixture::new(super::SUITE, programs, corun)?;
        let cluster = pg.cluster("server", &Profile::default())?;
        cluster.fill(&pg.programs, scale)?;
        let tables = TABLES
            .split(";\n")
            .filter(|statement| !statement.trim().is_empty());
        cluster.client()?.run_all(tables.chain(["checkpoint"]))?;
        let bouncer = |program: Result<pgbouncer::Program, BenchError>, name: &str| match program {
            Err(error) => Ok::<_, BenchError>(Err(error.in_one_line())),
            Ok(program) => Ok(Ok(pgbouncer::Program {
                path: pg.copied(&program.path, name)?,
                ..program
            })),
        };
        Ok(Fixture {
            packaged: bouncer(pgbouncer::Program::packaged(), "pgbouncer")?,
            current: bouncer(pgbouncer::Program::current(), "pgbouncer-current")?,
            before: before
                .map(|program| pg.copied(program, "corun-before"))
                .transpose()?,
            cluster,
            pg,
            scale,
            peers,
        })
    }

    /// The scripts of the statement shapes.
    pub fn scripts(&self, literals: Literals) -> Result<Vec<PathBuf>, BenchError> {
        let folder = self.pg.folder(&format!("scripts-{}", literals.as_str()))?;
        write_scripts(&folder, literals)
    }
}
