//! [`Target`]: a side of a comparison, running: the server itself, or a proxy in front of it.

use super::configuration::{self, Layout, POOL};
use super::ways::{Kind, Spec, Split};
use crate::fixture::PgFixture;
use crate::fixture::client::Client;
use crate::fixture::contender::{Contender, Front, READY_WITHIN};
use lab_core::error::BenchError;

/// A side.
pub struct Target {
    /// What it is.
    pub spec: Spec,
    /// What clients connect to.
    pub contender: Contender,
}

impl Target {
    /// Starts it. What fails is kept, for its rows.
    pub fn start(spec: &Spec, fixture: &PgFixture, layout: &Layout) -> Target {
        let contender = match &spec.kind {
            Kind::Direct(_) => Contender::direct(&layout.server),
            Kind::Corun(ways) => {
                let front = Front {
                    fixture,
                    name: &format!("side-{}", spec.name),
                    server: &layout.server,
                    pool: POOL,
                };
                Contender::corun(&front, &fixture.corun, true, &configuration::corun(layout, ways))
            }
        };
        Target {
            spec: spec.clone(),
            contender,
        }
    }

    /// How many runs of queries that may be split were split, and how many were whole, since it started. `None` where nothing may be.
    pub fn splits(&self) -> Result<Option<(i64, i64)>, BenchError> {
        match &self.spec.kind {
            Kind::Corun(ways) if ways.split != Split::Off => {}
            _ => return Ok(None),
        }
        let mut console = Client::connect_to("pgbouncer", self.contender.address()?, READY_WITHIN)?;
        let shown = console.run("show splits")?;
        let columns = shown.columns.first().map(Vec::as_slice).unwrap_or_default();
        let sum = |name: &str| {
            let at = columns.iter().position(|(column, _)| column == name);
            let cells = shown.rows.iter().filter_map(|row| row.get(at?)?.as_deref());
            cells.map(|cell| cell.parse().unwrap_or(0)).sum::<i64>()
        };
        Ok(Some((sum("split_count"), sum("whole_count"))))
    }
}
