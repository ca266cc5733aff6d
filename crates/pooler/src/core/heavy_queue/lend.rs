//! [`lend`]: on which cores the parallel workers of queries run: cores of the queue that no query has been given.
//!
//! ```text
//!  cores of the queue   0  1  2  3      query A on 0, two workers; query B on 2
//!  given                A  .  B  .      A's workers: 1 and 3, until somebody is started there
//! ```
//!
//! A start takes one core however many workers the plan has, so that nobody waits for workers' cores and no bound of the scheduler changes;
//! what is free besides is lent, and taken back by the next start. Where cores do not suffice a query's workers share what it has with
//! their leader: on a machine full of queries a parallel one has one core, as each other.

use corun_model::units::CpuId;

/// A query that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    /// Its cache, by its place among the domains.
    pub domain: usize,
    /// Its core.
    pub cpu: CpuId,
    /// Workers it is planned with.
    pub workers: usize,
}

/// The cores lent to each of these queries, in order of their start: at most one for each worker, those of its own cache first, one
/// query after the other in turn.
pub(super) fn lend(domains: &[Vec<CpuId>], holders: &[Holder]) -> Vec<Vec<CpuId>> {
    let mut lent = vec![Vec::new(); holders.len()];
    if holders.iter().all(|holder| holder.workers == 0) {
        return lent;
    }
    let given = |cpu: &CpuId| holders.iter().any(|holder| holder.cpu == *cpu);
    let mut free: Vec<(usize, CpuId)> = domains
        .iter()
        .enumerate()
        .flat_map(|(domain, cpus)| cpus.iter().map(move |&cpu| (domain, cpu)))
        .filter(|(_, cpu)| !given(cpu))
        .collect();
    loop {
        let mut any = false;
        for (holder, lent) in holders.iter().zip(&mut lent) {
            if lent.len() >= holder.workers || free.is_empty() {
                continue;
            }
            let own = free.iter().position(|(domain, _)| *domain == holder.domain);
            lent.push(free.remove(own.unwrap_or(0)).1);
            any = true;
        }
        if !any {
            return lent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cpus(numbers: &[u32]) -> Vec<CpuId> {
        numbers.iter().copied().map(CpuId).collect()
    }

    fn holder(domain: usize, cpu: u32, workers: usize) -> Holder {
        Holder {
            domain,
            cpu: CpuId(cpu),
            workers,
        }
    }

    #[test]
    fn own_caches_first_and_in_turn() {
        let domains = [cpus(&[0, 1, 2, 3]), cpus(&[4, 5])];
        let both = [holder(0, 0, 4), holder(0, 2, 1), holder(1, 4, 0)];
        assert_eq!(lend(&domains, &both), [cpus(&[1, 5]), cpus(&[3]), cpus(&[])]);
        let full = [holder(1, 4, 2), holder(1, 5, 2)];
        assert_eq!(lend(&domains[1..], &full), [cpus(&[]), cpus(&[])]);
        assert_eq!(lend(&domains, &[]), Vec::<Vec<CpuId>>::new());
    }

    proptest! {
        #[test]
        fn each_core_has_one_query_and_none_that_is_wanted_is_left(
            sizes in prop::collection::vec(1_u32..5, 1..4),
            taken in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..6), 0..8),
        ) {
            let mut next = 0;
            let domains: Vec<Vec<CpuId>> = sizes
                .iter()
                .map(|size| {
                    next += size;
                    (next - size..next).map(CpuId).collect()
                })
                .collect();
            let all: Vec<(usize, CpuId)> = domains
                .iter()
                .enumerate()
                .flat_map(|(at, cpus)| cpus.iter().map(move |&cpu| (at, cpu)))
                .collect();
            let mut holders: Vec<Holder> = Vec::new();
            for (index, workers) in taken {
                let (domain, cpu) = all[index.index(all.len())];
                if holders.iter().all(|holder| holder.cpu != cpu) {
                    holders.push(Holder { domain, cpu, workers });
                }
            }
            let lent = lend(&domains, &holders);
            let mut used: Vec<CpuId> = lent.iter().flatten().copied().collect();
            used.extend(holders.iter().map(|holder| holder.cpu));
            let count = used.len();
            used.sort_unstable();
            used.dedup();
            prop_assert_eq!(used.len(), count, "a core is given twice");
            for (holder, lent) in holders.iter().zip(&lent) {
                prop_assert!(lent.len() <= holder.workers);
                prop_assert!(lent.len() == holder.workers || count == all.len(), "a core is left");
            }
            // Nobody has less than one that came later, but for what it asked.
            for (at, first) in lent.iter().enumerate() {
                for later in &lent[at + 1..] {
                    prop_assert!(first.len() >= later.len() || first.len() == holders[at].workers);
                }
            }
        }
    }
}
