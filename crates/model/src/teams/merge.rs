//! Merging thin teams: operations whose teams stay small share one (paper 003, section 4.1.2); [`merge`].
//!
//! Overlap of code is traded for members. Only operations of one kind may share a team: fetches of different indexes, say, run
//! the same functions. The counterpart is [`worth_splitting`]: operations that different tables share in part are cut finer
//! where their teams stay thin, so that the common part finds company.

use std::collections::BTreeMap;

use super::OperationStatistics;

/// A mapping of operations to the lists they form teams in: entry `operation` is the operation whose list is used. Operations
/// beyond its end use their own list, as do those that map to themselves.
pub type Mapping = Vec<u16>;

/// Which operations share a team. `kind` says what may be put together; teams of fewer than `wanted` members on average are
/// thin. Thin ones are put together, the thinnest first, until the sum of their averages reaches `wanted`; the one with the most
/// teams gives its name. Operations that never ran stay apart.
pub fn merge(statistics: &[OperationStatistics], wanted: f64, kind: impl Fn(u16) -> u16) -> Mapping {
    let mut kinds: BTreeMap<u16, Vec<&OperationStatistics>> = BTreeMap::new();
    for one in statistics {
        if one.teams > 0 && one.in_average() < wanted {
            kinds.entry(kind(one.operation)).or_default().push(one);
        }
    }
    let operations = statistics.iter().map(|one| one.operation).max();
    let mut mapping: Mapping = operations.map_or_else(Vec::new, |last| (0..=last).collect());
    for mut thin in kinds.into_values() {
        thin.sort_by(|a, b| {
            let order = a.in_average().total_cmp(&b.in_average());
            order.then(a.operation.cmp(&b.operation))
        });
        while !thin.is_empty() {
            let mut sum = 0.0;
            let count = thin.iter().take_while(|one| {
                let before = sum;
                sum += one.in_average();
                before < wanted
            });
            let group: Vec<_> = thin.drain(..count.count()).collect();
            let name = group
                .iter()
                .max_by_key(|one| (one.teams, std::cmp::Reverse(one.operation)));
            if let Some(name) = name {
                for one in &group {
                    mapping[usize::from(one.operation)] = name.operation;
                }
            }
        }
    }
    mapping
}

/// Which operations should be cut finer: those whose teams have fewer than `wanted` members on average.
pub fn worth_splitting(statistics: &[OperationStatistics], wanted: f64) -> Vec<u16> {
    let thin = statistics
        .iter()
        .filter(|one| one.teams > 0 && one.in_average() < wanted);
    thin.map(|one| one.operation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(operation: u16, teams: u64, in_: u64) -> OperationStatistics {
        OperationStatistics {
            operation,
            teams,
            in_,
            ..Default::default()
        }
    }

    #[test]
    fn thin_teams_of_a_kind_are_put_together() {
        // Averages 2, 10, 3, 1.5, never ran, 4; kinds 0 0 0 1 0 0.
        let statistics = [
            of(0, 10, 20),
            of(1, 10, 100),
            of(2, 20, 60),
            of(3, 2, 3),
            of(4, 0, 0),
            of(5, 5, 20),
        ];
        let kind = |operation| u16::from(operation == 3);
        // 2 + 3 reach 5; 4 is left alone.
        assert_eq!(merge(&statistics, 5.0, kind), [2, 1, 2, 3, 4, 5]);
        // 2 + 3 + 4 reach 9 first.
        assert_eq!(merge(&statistics, 9.0, kind), [2, 1, 2, 3, 4, 2]);
        assert_eq!(merge(&statistics, 1.0, kind), [0, 1, 2, 3, 4, 5]);
        assert_eq!(merge(&[], 5.0, kind), Vec::<u16>::new());
        assert_eq!(worth_splitting(&statistics, 3.5), [0, 2, 3]);
    }
}
