//! Index traversal: figures 4, 5, 6(a), 7(a), and the standard library's B-tree.

use std::cell::RefCell;

use super::Pass;
use super::lab::{Lab, Shape};
use super::modes::{self, TECHNIQUES, prefetched};
use super::stands::{FIG4A, FIG4B, FIG4C, FIG5_CLUSTERED, FIG5_UNCLUSTERED, FIG6A, FIG7A, TREES};
use super::table2::Table2;
use crate::memory_latency::contest::{Entrant, Standing, hold};
use crate::memory_latency::data::IndexInput;
use crate::memory_latency::index::{BTreeProbe, ProbeStream, TreeProbe, tree};
use crate::memory_latency::keys::Keys;
use crate::memory_latency::subject::{RIGHT, Subject};
use lab_core::error::BenchError;
use lab_core::run::{Runner, Side};

use corun_model::operators::mode::{Mode, Schedule, Threads};

/// Runs the selected cases.
///
/// # Errors
/// When there is no memory, or a simulation fails.
pub fn run(pass: &Pass<'_>, table2: &mut Table2, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let (lab, sizes) = (pass.lab, pass.set_sizes());
    let independent = pass.times(FIG6A) || pass.traces(FIG7A);
    let timed = [FIG4A, FIG4B, FIG5_CLUSTERED, FIG5_UNCLUSTERED, FIG6A, TREES];
    if !pass.wants(&timed, &[FIG4C, FIG7A]) {
        return Ok(());
    }
    let inputs = pass
        .inputs(independent)
        .iter()
        .map(|&seed| IndexInput::new(seed, pass.sizes.index_keys, pass.sizes.index_probes))
        .collect::<Result<Vec<_>, _>>()?;
    let trees = inputs.iter().map(tree).collect::<Result<Vec<_>, _>>()?;

    {
        let mut clustered = TreeProbe::new(&inputs[..1], &trees[..1], ProbeStream::Clustered)?;
        let shape = shape(&clustered);
        pass.contest(FIG4A, &mut clustered, &modes::by_size(&sizes), shape, runner);
        pass.interference(FIG4B, &mut clustered, |clustered| Ok(clustered.array()), runner)?;
        pass.misses(FIG4C, &mut clustered, &modes::by_size_alone(&sizes), runner)?;
        let modes = modes::by_size_backward(&sizes);
        pass.contest(FIG5_CLUSTERED, &mut clustered, &modes, shape, runner);
        if pass.times(TREES) {
            trees_beside(lab, &inputs[0], &mut clustered, shape, runner)?;
        }
    }
    if pass.times(FIG5_UNCLUSTERED) {
        let mut unclustered = TreeProbe::new(&inputs[..1], &trees[..1], ProbeStream::Unclustered)?;
        let (modes, shape) = (modes::by_size_backward(&sizes), shape(&unclustered));
        lab.contest(FIG5_UNCLUSTERED, &mut unclustered, &modes, shape, runner);
    }
    if independent {
        let mut unclustered = TreeProbe::new(&inputs, &trees, ProbeStream::Unclustered)?;
        let shape = shape(&unclustered);
        if let Some(held) = pass.contest(FIG6A, &mut unclustered, &modes::throughput(), shape, runner) {
            table2.rows(&held);
        }
        pass.misses(FIG7A, &mut unclustered, &TECHNIQUES, runner)?;
    }
    Ok(())
}

/// Every probe goes down to a leaf.
pub fn shape(probe: &TreeProbe<'_>) -> Shape {
    Shape {
        table_bytes: probe.table_bytes(),
        references: probe.levels() as f64,
        hit_rate: 1.0,
        even: true,
    }
}

/// The tree's modes versus the standard library's B-tree, which is the serial side.
fn trees_beside(
    lab: &Lab<'_>,
    input: &IndexInput,
    tree: &mut TreeProbe<'_>,
    shape: Shape,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let mut map = BTreeProbe::new(input)?;
    let tuples = tree.tuples();
    let expected = input.clustered_expected.of(0..tuples);
    let mut stand = TREES;
    stand.layout = "btree_map";
    let serial = Entrant {
        keys: Keys::of(stand, Mode::PLAIN, lab.pair().relation),
        standing: Standing::Aside,
        extra: Vec::new(),
        side: Side::new("btree_map", move || {
            let ran = map.probe();
            let right = ran.answers[0] == expected;
            let answer = if right {
                RIGHT.to_string()
            } else {
                ran.answers[0].to_string()
            };
            lab.checked(ran.elapsed, answer)
        }),
    };
    let shared = RefCell::new(tree as &mut dyn Subject);
    let mut entrants = vec![serial];
    let modes = [
        Mode::PLAIN,
        prefetched(Threads::One, Schedule::Group, 16),
        prefetched(Threads::One, Schedule::Group, 32),
        prefetched(Threads::One, Schedule::Amac, 16),
        prefetched(modes::BI, Schedule::Group, 32),
    ];
    entrants.extend(modes.map(|mode| lab.entrant(TREES, &shared, mode)));
    entrants.extend(lab.autos(TREES, &shared, shape));
    hold(entrants, tuples, runner);
    Ok(())
}
