//! Which physical plan a query gets while others run beside it (paper 002, sections 5.1 and 6.3).
//!
//! Only the first two joins of a pipeline decide its locality, so only they are varied: [`sub_trees`] combines the physical
//! operators each of them could use, and [`choose`] picks one whose cost is near the cheapest:
//!
//! ```text
//!   first join:  hash | index ─┐              cost ≤ cheapest + 30 %        SameStrength or MixedStrength
//!   second join: hash | index ─┴─ sub-trees ──────────────────────▶ candidates ───────────────────────────▶ one
//!                                                                                     ▲
//!                                                            how many plans of each queue there are
//! ```
//!
//! Not here: costing, which is the host's, and building the plan. A host that looks at locality only after planning passes
//! whole plans as [`SubTree`]s.

use std::fmt;

use crate::cache::locality::{Classifier, Footprint, Locality, PlanQueue};
use crate::units::Bytes;

/// How much dearer than the cheapest a candidate may be: 30 %, about what a weak plan costs a strong one beside it
/// (paper 002, section 5.1).
pub const COST_MARGIN: f64 = 0.3;

/// One way to execute a join.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JoinChoice {
    /// The operator.
    pub operator: JoinOperator,
    /// Its cost in the host's unit.
    pub cost: f64,
}

/// The join operators that differ in locality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinOperator {
    /// With a hash table of this many bytes.
    Hash {
        /// Buckets and rows.
        table: Bytes,
    },
    /// With an index lookup for each row, by index scan or bitmap.
    Index,
}

impl JoinOperator {
    /// What it keeps coming back to.
    pub fn footprint(self) -> Footprint {
        match self {
            JoinOperator::Hash { table } => Footprint::Tables(table),
            JoinOperator::Index => Footprint::Streams,
        }
    }
}

/// A physical form of the first two joins of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubTree {
    /// The lowest join.
    pub first: JoinOperator,
    /// The one above; `None` where the plan has a single join.
    pub second: Option<JoinOperator>,
    /// Cost of both in the host's unit.
    pub cost: f64,
}

impl SubTree {
    /// The tables of both joins.
    pub fn footprint(&self) -> Footprint {
        let second = self.second.map_or(Footprint::Streams, JoinOperator::footprint);
        self.first.footprint().and(second)
    }
}

/// Every combination of operators for the first two joins, those of the first join varying slowest.
///
/// `second` is empty for a plan with a single join. Costs add up: which operator computes the first join does not change the
/// rows the second one gets.
pub fn sub_trees(first: &[JoinChoice], second: &[JoinChoice]) -> Vec<SubTree> {
    let mut trees = Vec::with_capacity(first.len() * second.len().max(1));
    for lower in first {
        if second.is_empty() {
            trees.push(SubTree {
                first: lower.operator,
                second: None,
                cost: lower.cost,
            });
        }
        for upper in second {
            trees.push(SubTree {
                first: lower.operator,
                second: Some(upper.operator),
                cost: lower.cost + upper.cost,
            });
        }
    }
    trees
}

/// What the choice has to fit to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceRule {
    /// Plans run beside their like, without a partitioned cache (paper 002, section 5.1): the cheapest strong candidate,
    /// else the cheapest weak one, which neither harms nor suffers beside its like, else the cheapest.
    SameStrength,
    /// Plans run beside their opposites, in a partitioned cache (paper 002, section 6.3): the cheapest candidate for the
    /// queue that has fewer plans; where both have as many, the cheapest strong one; where there is none such, the cheapest.
    MixedStrength(Balance),
}

/// How many plans there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Of strong and moderate locality.
    pub reusing: usize,
    /// Of weak locality.
    pub streaming: usize,
}

impl Balance {
    /// The queue with fewer plans; `None` where both have as many.
    pub fn shorter(self) -> Option<PlanQueue> {
        match self.reusing.cmp(&self.streaming) {
            std::cmp::Ordering::Less => Some(PlanQueue::Reusing),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(PlanQueue::Streaming),
        }
    }

    /// Counts one plan more.
    pub fn add(&mut self, queue: PlanQueue) {
        match queue {
            PlanQueue::Reusing => self.reusing += 1,
            PlanQueue::Streaming => self.streaming += 1,
        }
    }
}

/// A candidate and why it was taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Its place among the sub-trees given.
    pub index: usize,
    /// Its locality.
    pub locality: Locality,
    /// How much dearer it is than the cheapest: 0.172 for 17.2 %.
    pub extra_cost: f64,
    /// What decided.
    pub reason: Reason,
}

/// Why a candidate was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The only one within the margin.
    Only,
    /// Strong candidates come first.
    Strong,
    /// No candidate was strong, and weak ones do not harm each other.
    NoneStrong,
    /// Its queue is the shorter one.
    Balances(PlanQueue),
    /// No candidate fitted the rule.
    Cheapest,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Only => "no other plan is within the cost margin",
            Reason::Strong => "cheapest plan of strong locality",
            Reason::NoneStrong => "no plan has strong locality; cheapest of weak locality",
            Reason::Balances(PlanQueue::Reusing) => "fewer plans of strong and moderate locality are about",
            Reason::Balances(PlanQueue::Streaming) => "fewer plans of weak locality are about",
            Reason::Cheapest => "cheapest",
        })
    }
}

/// Why nothing can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ChoiceError {
    /// Nothing to choose from.
    #[error("there is no plan to choose from")]
    NoPlan,
    /// A cost that orders nothing.
    #[error("the cost of plan {index} must be a finite number not below 0, not {cost}")]
    Cost {
        /// Its place among the sub-trees given.
        index: usize,
        /// As given.
        cost: f64,
    },
    /// A margin that admits nothing.
    #[error("the cost margin must be a finite number not below 0, not {0}")]
    Margin(f64),
}

/// Picks one of `trees`: of those that cost at most `1 + margin` times the cheapest ([`COST_MARGIN`] is the paper's), the one
/// `rule` asks for. Equal candidates are taken in the order given.
///
/// # Errors
/// [`ChoiceError`] for an empty list, and for costs and margins that are negative or not finite.
pub fn choose(
    trees: &[SubTree],
    rule: ChoiceRule,
    margin: f64,
    classifier: &Classifier,
) -> Result<Choice, ChoiceError> {
    if !(margin.is_finite() && margin >= 0.0) {
        return Err(ChoiceError::Margin(margin));
    }
    let bad = |tree: &SubTree| !(tree.cost.is_finite() && tree.cost >= 0.0);
    if let Some(index) = trees.iter().position(bad) {
        return Err(ChoiceError::Cost {
            index,
            cost: trees[index].cost,
        });
    }
    let cheapest = trees
        .iter()
        .map(|tree| tree.cost)
        .reduce(f64::min)
        .ok_or(ChoiceError::NoPlan)?;
    let limit = cheapest * (1.0 + margin);
    // Stable, so that equal costs keep the order given. The cheapest comes first.
    let mut candidates: Vec<(usize, f64, Locality)> = trees
        .iter()
        .enumerate()
        .filter(|(_, tree)| tree.cost <= limit)
        .map(|(index, tree)| (index, tree.cost, classifier.locality(tree.footprint())))
        .collect();
    candidates.sort_by(|a, b| a.1.total_cmp(&b.1));

    let of = |wanted: &dyn Fn(Locality) -> bool| candidates.iter().find(|(_, _, locality)| wanted(*locality));
    let strong = of(&|locality| locality == Locality::Strong);
    let wanted = match rule {
        ChoiceRule::SameStrength => strong
            .map(|found| (found, Reason::Strong))
            .or_else(|| of(&|locality| locality == Locality::Weak).map(|found| (found, Reason::NoneStrong))),
        ChoiceRule::MixedStrength(balance) => match balance.shorter() {
            Some(queue) => {
                of(&|locality| locality.queue() == queue).map(|found| (found, Reason::Balances(queue)))
            }
            None => strong.map(|found| (found, Reason::Strong)),
        },
    };
    let (&(index, cost, locality), reason) = wanted.unwrap_or((&candidates[0], Reason::Cheapest));
    Ok(Choice {
        index,
        locality,
        // A cheapest cost of 0 admits only costs of 0.
        extra_cost: if cheapest > 0.0 {
            cost / cheapest - 1.0
        } else {
            0.0
        },
        reason: if candidates.len() == 1 {
            Reason::Only
        } else {
            reason
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cache::locality::Thresholds;

    fn paper() -> Classifier {
        Classifier::new(Bytes::mib(4), Thresholds::default()).expect("4 MiB")
    }

    fn hash(hundredths_of_mib: u64, cost: f64) -> SubTree {
        SubTree {
            first: JoinOperator::Hash {
                table: Bytes((hundredths_of_mib << 20) / 100),
            },
            second: None,
            cost,
        }
    }

    fn index(cost: f64) -> SubTree {
        SubTree {
            first: JoinOperator::Index,
            second: None,
            cost,
        }
    }

    fn pick(trees: &[SubTree], rule: ChoiceRule) -> (usize, Reason) {
        let choice = choose(trees, rule, COST_MARGIN, &paper()).expect("a choice");
        (choice.index, choice.reason)
    }

    #[test]
    fn same_strength_prefers_strong_then_weak_then_moderate() {
        let rule = ChoiceRule::SameStrength;
        let (strong, moderate, weak) = (hash(100, 1.2), hash(200, 1.0), index(1.1));
        assert_eq!(pick(&[moderate, weak, strong], rule), (2, Reason::Strong));
        assert_eq!(pick(&[moderate, weak], rule), (1, Reason::NoneStrong));
        assert_eq!(pick(&[hash(300, 1.1), moderate], rule), (1, Reason::Cheapest));
        // Two strong ones: the cheaper. Two as cheap: the first given.
        assert_eq!(pick(&[strong, hash(50, 1.1), moderate], rule).0, 1);
        assert_eq!(pick(&[strong, strong, moderate], rule).0, 0);
    }

    #[test]
    fn the_margin_is_thirty_per_cent_of_the_cheapest_inclusive() {
        let rule = ChoiceRule::SameStrength;
        assert_eq!(
            pick(&[hash(200, 100.0), index(130.0)], rule),
            (1, Reason::NoneStrong)
        );
        assert_eq!(pick(&[hash(200, 100.0), index(130.1)], rule), (0, Reason::Only));
        assert_eq!(pick(&[hash(200, 0.0), index(0.1)], rule), (0, Reason::Only));
    }

    #[test]
    fn mixed_strength_fills_the_shorter_queue() {
        let rule = |reusing, streaming| ChoiceRule::MixedStrength(Balance { reusing, streaming });
        let trees = [hash(200, 1.0), hash(100, 1.1), index(1.2)];
        assert_eq!(
            pick(&trees, rule(1, 2)),
            (0, Reason::Balances(PlanQueue::Reusing))
        );
        assert_eq!(
            pick(&trees, rule(2, 1)),
            (2, Reason::Balances(PlanQueue::Streaming))
        );
        assert_eq!(pick(&trees, rule(2, 2)), (1, Reason::Strong));
        assert_eq!(pick(&trees[..2], rule(2, 1)), (0, Reason::Cheapest));
    }

    /// Section 7.3: four instances of PLQ_13, whose index plan is estimated 17.2 % dearer, come out two and two.
    #[test]
    fn four_instances_of_plq_13_become_two_hash_and_two_index_joins() {
        let trees = [hash(490, 1.0), index(1.172)];
        let mut balance = Balance::default();
        let mut chosen = Vec::new();
        for _ in 0..4 {
            let rule = ChoiceRule::MixedStrength(balance);
            let choice = choose(&trees, rule, COST_MARGIN, &paper()).expect("a choice");
            balance.add(choice.locality.queue());
            chosen.push(choice.index);
            assert!((choice.extra_cost - 0.172 * choice.index as f64).abs() < 1e-9);
        }
        assert_eq!(chosen, [0, 1, 0, 1]);
        // Without a partitioner it would be the weak plan four times.
        assert_eq!(pick(&trees, ChoiceRule::SameStrength).0, 1);
    }

    #[test]
    fn sub_trees_are_all_combinations_with_tables_added() {
        let choice = |operator, cost| JoinChoice { operator, cost };
        let table = |n| JoinOperator::Hash { table: Bytes(n) };
        let first = [choice(table(10), 1.0), choice(JoinOperator::Index, 2.0)];
        let second = [choice(table(5), 0.25), choice(JoinOperator::Index, 0.5)];
        let trees = sub_trees(&first, &second);
        let seen: Vec<_> = trees.iter().map(|tree| (tree.footprint(), tree.cost)).collect();
        assert_eq!(
            seen,
            [
                (Footprint::Tables(Bytes(15)), 1.25),
                (Footprint::Tables(Bytes(10)), 1.5),
                (Footprint::Tables(Bytes(5)), 2.25),
                (Footprint::Streams, 2.5),
            ]
        );
        let single = sub_trees(&first, &[]);
        assert_eq!(single.len(), 2);
        assert!(single.iter().all(|tree| tree.second.is_none()));
        assert_eq!(sub_trees(&[], &second), []);
    }

    #[test]
    fn senseless_input_is_refused() {
        let rule = ChoiceRule::SameStrength;
        let refused = |trees: &[SubTree], margin| choose(trees, rule, margin, &paper()).expect_err("refused");
        assert_eq!(refused(&[], 0.3), ChoiceError::NoPlan);
        for cost in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(matches!(
                refused(&[index(1.0), index(cost)], 0.3),
                ChoiceError::Cost { index: 1, .. }
            ));
            assert!(matches!(refused(&[index(1.0)], cost), ChoiceError::Margin(_)));
        }
    }

    proptest! {
        #[test]
        fn nothing_beyond_the_margin_is_ever_chosen(
            costs in prop::collection::vec((0.0f64..100.0, 0u64..3000), 1..12),
            reusing in 0usize..4,
            streaming in 0usize..4,
            mixed: bool,
        ) {
            let trees: Vec<SubTree> = costs
                .iter()
                .map(|&(cost, size)| if size % 3 == 0 { index(cost) } else { hash(size, cost) })
                .collect();
            let rule = if mixed {
                ChoiceRule::MixedStrength(Balance { reusing, streaming })
            } else {
                ChoiceRule::SameStrength
            };
            let choice = choose(&trees, rule, COST_MARGIN, &paper()).expect("a choice");
            let cheapest = trees.iter().map(|t| t.cost).fold(f64::INFINITY, f64::min);
            let chosen = &trees[choice.index];
            prop_assert!(chosen.cost <= cheapest * (1.0 + COST_MARGIN));
            prop_assert_eq!(choice.locality, paper().locality(chosen.footprint()));
            // No candidate of the same class was cheaper.
            let cheaper = trees.iter().any(|t| {
                t.cost < chosen.cost && paper().locality(t.footprint()) == choice.locality
            });
            prop_assert!(!cheaper);
        }
    }
}
