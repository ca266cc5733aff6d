//! [`make`]: SSB's and TPC-H's tables in a data folder that no server runs on any more, and what the queries over them must answer.
//!
//! A server loads them and is asked what hash tables the queries make; the stand-alone backend that is traced would take hours for both.

use std::path::PathBuf;

use corun_model::cache::locality::{Footprint, Locality};

use super::super::backend::Backend;
use super::super::data::{Oracle, load};
use super::super::keys::footprint;
use super::super::query::{Form, Query, hash_bytes};
use super::super::sizes::Sizes;
use super::tpch;
use crate::fixture::PgFixture;
use crate::fixture::cluster::Profile;
use corun_model::progress::Progress;
use corun_workloads::ssb::Ssb;
use lab_core::error::BenchError;

/// Everything in memory, tables in one batch.
const SETTINGS: &[(&str, &str)] = &[
    ("shared_buffers", "128MB"),
    ("work_mem", "512MB"),
    ("max_parallel_workers_per_gather", "0"),
];
/// Hash bytes over `C` of the hash joins: the paper's strong ones, PLQ_6, PLQ_11, PLQ_24 and a weak one.
const HASH_OVER_CACHE: [f64; 5] = [0.2, 0.57, 1.03, 2.2, 4.0];
/// The same of the hash join that an index join of that `k` goes with.
const INDEX_OVER_CACHE: [f64; 4] = [0.2, 0.57, 1.03, 2.2];

/// A query over SSB, and what its tables are to the simulated cache.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The query.
    pub query: Query,
    /// What it keeps in the cache: its hash tables, whose bytes the server says.
    pub footprint: Footprint,
    /// Its class.
    pub class: Locality,
}

/// Tables on disk.
#[derive(Clone, Debug)]
pub struct Made {
    /// The data folder.
    pub folder: PathBuf,
    /// Queries over SSB.
    pub ssb: Vec<Asked>,
    /// Queries over TPC-H.
    pub tpch: Vec<tpch::Asked>,
}

/// The hash joins, index joins and the scan.
fn queries(sizes: &Sizes, oracle: &Oracle) -> Vec<Query> {
    let plq = |form| move |&over: &f64| Query::plq(sizes.k_of(over), form, oracle);
    let hash = HASH_OVER_CACHE.iter().map(plq(Form::Hash));
    // The scan is first, so that the pages of orders are there for all others.
    let scan = std::iter::once(Query::scan(oracle));
    scan.chain(hash)
        .chain(INDEX_OVER_CACHE.iter().map(plq(Form::Index)))
        .collect()
}

/// Makes the tables. `with_ssb` says whether SSB's queries are wanted; TPC-H's are at scale factor `tpch`, if any.
pub fn make(
    fixture: &PgFixture,
    sizes: &Sizes,
    with_ssb: bool,
    tpch: Option<f64>,
    quick: bool,
    progress: &dyn Progress,
) -> Result<Made, BenchError> {
    let server = fixture.cluster("sim", &Profile::with(SETTINGS))?;
    let address = server.address.clone();
    let mut asked = Vec::new();
    if with_ssb {
        let ssb = Ssb::with_sizes(sizes.rows);
        load(&address, &ssb, progress)?;
        let oracle = Oracle::new(&ssb);
        let mut backend = Backend::start(&address, None)?;
        for query in queries(sizes, &oracle) {
            let footprint = footprint(&hash_bytes(&mut backend, &query)?);
            asked.push(Asked {
                query,
                footprint,
                class: sizes.class(footprint),
            });
        }
    }
    let tpch = match tpch {
        Some(scale_factor) => tpch::load(&address, scale_factor, quick, progress)?,
        None => Vec::new(),
    };
    // A clean end: nothing is left to be recovered under valgrind.
    server.stop(&fixture.programs, fixture.account)?;
    Ok(Made {
        folder: address.folder.join("data"),
        ssb: asked,
        tpch,
    })
}
