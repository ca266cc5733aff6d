//! Which CPUs each event loop has: those of one NUMA node, where there are loops enough.
//!
//! ```text
//!  CPUs by node ─► loops by node, in proportion to the CPUs ─► each loop's CPUs within its node
//!      fewer loops than nodes: whole nodes are shared out instead, so that no CPU is left out
//! ```

use std::cmp::Reverse;
use std::collections::BTreeMap;

use corun_model::units::CpuId;

/// Where one event loop and its backends run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::core) struct Place {
    /// The node of its CPUs, where they are of one and it is known.
    pub node: Option<u32>,
    /// At least one, unless none is known.
    pub cpus: Vec<CpuId>,
}

/// A place for each of `loops` event loops among the CPUs that may be used, given with their nodes. Every CPU belongs to a loop; a
/// CPU belongs to several where there are more loops than CPUs.
pub(in crate::core) fn places(cpus: &[(CpuId, Option<u32>)], loops: usize) -> Vec<Place> {
    let mut nodes: BTreeMap<Option<u32>, Vec<CpuId>> = BTreeMap::new();
    for &(cpu, node) in cpus {
        nodes.entry(node).or_default().push(cpu);
    }
    let nodes: Vec<(Option<u32>, Vec<CpuId>)> = nodes.into_iter().collect();
    if nodes.len() <= loops {
        within_nodes(&nodes, loops)
    } else {
        whole_nodes(nodes, loops)
    }
}

/// Loops of one node each.
fn within_nodes(nodes: &[(Option<u32>, Vec<CpuId>)], loops: usize) -> Vec<Place> {
    if nodes.is_empty() {
        return vec![Place::default(); loops];
    }
    let mut counts = vec![1; nodes.len()];
    for _ in nodes.len()..loops {
        // The next goes where a loop has most CPUs: a/b > c/d as a*d > c*b. The first among equals.
        let more = |a: usize, b: usize| nodes[a].1.len() * counts[b] > nodes[b].1.len() * counts[a];
        let next = (1..nodes.len()).fold(0, |best, node| if more(node, best) { node } else { best });
        counts[next] += 1;
    }
    let of = |(node, count): (&(Option<u32>, Vec<CpuId>), &usize)| {
        (0..*count)
            .map(|index| Place {
                node: node.0,
                cpus: cpus_of(index, *count, &node.1),
            })
            .collect::<Vec<_>>()
    };
    nodes.iter().zip(&counts).flat_map(of).collect()
}

/// Nodes shared out among fewer loops, the largest first, to the loop that has the fewest CPUs.
fn whole_nodes(mut nodes: Vec<(Option<u32>, Vec<CpuId>)>, loops: usize) -> Vec<Place> {
    nodes.sort_by_key(|(_, cpus)| Reverse(cpus.len()));
    let mut shares: Vec<(usize, Place)> = vec![(0, Place::default()); loops];
    for (node, cpus) in nodes {
        if let Some((count, place)) = shares.iter_mut().min_by_key(|(_, place)| place.cpus.len()) {
            *count += 1;
            place.node = node.filter(|_| *count == 1);
            place.cpus.extend(cpus);
        }
    }
    shares.into_iter().map(|(_, place)| place).collect()
}

/// The CPUs of an event loop among those of its node: those left over when every loop has one are shared out in turn.
fn cpus_of(event_loop: usize, loops: usize, cpus: &[CpuId]) -> Vec<CpuId> {
    let own = |at: &usize| at % loops == event_loop % cpus.len().min(loops);
    (0..cpus.len()).filter(own).map(|at| cpus[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs numbered as Linux does: node after node.
    fn machine(nodes: &[u32]) -> Vec<(CpuId, Option<u32>)> {
        let node_of = |(node, count): (usize, &u32)| vec![Some(node as u32); *count as usize];
        let nodes = nodes.iter().enumerate().flat_map(node_of);
        nodes
            .enumerate()
            .map(|(cpu, node)| (CpuId(cpu as u32), node))
            .collect()
    }

    fn numbers(place: &Place) -> Vec<u32> {
        place.cpus.iter().map(|cpu| cpu.0).collect()
    }

    #[test]
    fn every_cpu_has_a_loop_and_no_loop_reaches_over_nodes_without_need() {
        for nodes in [
            &[1][..],
            &[8],
            &[4, 4],
            &[6, 2],
            &[1, 1, 1],
            &[3, 0, 5],
            &[2, 2, 2, 2],
            &[16, 1],
        ] {
            let cpus = machine(nodes);
            let used = nodes.iter().filter(|count| **count > 0).count();
            for loops in 1..20 {
                let places = places(&cpus, loops);
                let what = format!("{nodes:?}, {loops} loops: {places:?}");
                assert_eq!(places.len(), loops, "{what}");
                assert!(places.iter().all(|place| !place.cpus.is_empty()), "{what}");
                for (cpu, _) in &cpus {
                    assert!(places.iter().any(|place| place.cpus.contains(cpu)), "{what}");
                }
                for place in &places {
                    let node = |cpu: &CpuId| {
                        cpus.iter()
                            .find(|(other, _)| other == cpu)
                            .and_then(|found| found.1)
                    };
                    let one = place.cpus.iter().all(|cpu| node(cpu) == node(&place.cpus[0]));
                    assert!(one || loops < used, "{what}");
                    assert_eq!(place.node, node(&place.cpus[0]).filter(|_| one), "{what}");
                }
            }
        }
    }

    #[test]
    fn loops_are_shared_out_as_the_cpus_are() {
        let counts = |nodes: &[u32], loops: usize| -> Vec<usize> {
            let places = places(&machine(nodes), loops);
            let of = |node| places.iter().filter(|place| place.node == Some(node)).count();
            (0..nodes.len() as u32).map(of).collect()
        };
        assert_eq!(counts(&[4, 4], 8), [4, 4]);
        assert_eq!(counts(&[4, 4], 2), [1, 1]);
        assert_eq!(counts(&[4, 4], 3), [2, 1]);
        assert_eq!(counts(&[6, 2], 4), [3, 1]);
        assert_eq!(counts(&[2, 2], 8), [4, 4]);
    }

    #[test]
    fn a_machine_of_one_node_or_of_unknown_ones_is_shared_out_in_turn() {
        let unknown: Vec<(CpuId, Option<u32>)> = [3, 5, 7].map(|cpu| (CpuId(cpu), None)).to_vec();
        let shared: Vec<Vec<u32>> = places(&unknown, 2).iter().map(numbers).collect();
        assert_eq!(shared, [vec![3, 7], vec![5]]);
        assert_eq!(places(&unknown, 1)[0].node, None);
        assert_eq!(places(&[], 2), [Place::default(), Place::default()]);
        let one = places(&machine(&[2]), 2);
        assert_eq!(
            one[1],
            Place {
                node: Some(0),
                cpus: vec![CpuId(1)]
            }
        );
    }

    #[test]
    fn interleaved_cpus_are_grouped_by_node() {
        let cpus: Vec<(CpuId, Option<u32>)> = (0..8).map(|cpu| (CpuId(cpu), Some(cpu % 2))).collect();
        let shared: Vec<Vec<u32>> = places(&cpus, 4).iter().map(numbers).collect();
        assert_eq!(shared, [vec![0, 4], vec![2, 6], vec![1, 5], vec![3, 7]]);
        // One loop has all, two a node each.
        assert_eq!(places(&cpus, 1)[0].cpus.len(), 8);
        assert_eq!(numbers(&places(&cpus, 2)[1]), [1, 3, 5, 7]);
    }
}
