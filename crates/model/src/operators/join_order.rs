//! In which order inner joins run, by the rows that lie between them.
//!
//! A join of two sets of relations that are equal in some columns gives the product of their rows, divided, for each of these columns, by the
//! larger number of different values (Selinger et al., SIGMOD 1979). Keys are looked up where they come from ([`JoinGraph::rows_of`]), so
//! a relation that is joined later keeps rows away already; what an order can still win are joins of many rows to many.

use std::fmt::{Display, Formatter};

/// At most so many relations are tried in every order; more are joined greedily, the smallest result first.
pub const EXHAUSTIVE_MAX: usize = 10;

/// At most so many relations are ordered at all.
pub const RELATIONS_MAX: usize = 32;

/// Another order must leave this many times fewer rows between joins: the estimate takes columns for independent.
pub const GAIN_MIN: f64 = 4.0;

/// And save this many rows: a few milliseconds.
pub const ROWS_SAVED_MIN: f64 = 500_000.0;

/// Relations, and what they are equal in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JoinGraph {
    /// Rows of each relation, its own conditions applied.
    pub rows: Vec<f64>,
    /// Columns that are equal, all of one class to each other, of each relation at most one.
    pub classes: Vec<Vec<JoinColumn>>,
}

/// A relation's column in a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JoinColumn {
    /// Place of the relation in [`JoinGraph::rows`].
    pub relation: usize,
    /// Different values of the column in the relation's rows.
    pub distinct: f64,
}

/// An order of joins.
#[derive(Debug, Clone, PartialEq)]
pub enum JoinTree {
    /// A relation.
    Relation(usize),
    /// Two sets, joined by all classes that both have columns of.
    Join(Box<JoinTree>, Box<JoinTree>),
}

/// Why joins stay in the given order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AsGiven {
    /// Fewer than three relations have one order.
    Two,
    /// More than [`RELATIONS_MAX`] relations.
    Many,
    /// So few rows lie between the joins that no order can save [`ROWS_SAVED_MIN`].
    FewRows(f64),
    /// Some relations have no column in common with the others.
    Apart,
    /// The best order is not better enough ([`GAIN_MIN`], [`ROWS_SAVED_MIN`]).
    NoBetter {
        /// Rows between joins in the best order.
        rows: f64,
        /// Rows between joins in the given order.
        rows_given: f64,
    },
}

impl Display for AsGiven {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            AsGiven::Two => write!(f, "two tables have one order"),
            AsGiven::Many => write!(f, "more than {RELATIONS_MAX} tables"),
            AsGiven::FewRows(rows) => write!(f, "{rows:.0} rows between joins are few"),
            AsGiven::Apart => write!(f, "some tables have no column in common with the others"),
            AsGiven::NoBetter { rows, rows_given } => {
                write!(f, "{rows_given:.0} rows between joins, {rows:.0} at best")
            }
        }
    }
}

/// An order that is better than the given one, and what makes it so.
#[derive(Debug, Clone, PartialEq)]
pub struct BetterOrder {
    /// The order.
    pub tree: JoinTree,
    /// Rows between joins in this order.
    pub rows: f64,
    /// Rows between joins in the given order.
    pub rows_given: f64,
}

impl Display for BetterOrder {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:.0} rows between joins, {:.0} as written",
            self.rows, self.rows_given
        )
    }
}

impl JoinTree {
    /// The join of two.
    pub fn join(left: JoinTree, right: JoinTree) -> JoinTree {
        JoinTree::Join(Box::new(left), Box::new(right))
    }

    /// Its relations, a bit each.
    pub fn relations(&self) -> u32 {
        match self {
            JoinTree::Relation(relation) => 1 << relation,
            JoinTree::Join(left, right) => left.relations() | right.relations(),
        }
    }
}

/// A set of relations in the best order that is known of it.
#[derive(Clone)]
struct Plan {
    tree: JoinTree,
    relations: u32,
    /// Rows of its joins, its own result included.
    rows: f64,
}

impl JoinGraph {
    /// Rows of the join of the relations `of`, a bit each; of those that are not among them, each keeps the share of rows away that no key of it
    /// matches.
    pub fn rows_of(&self, of: u32) -> f64 {
        self.rows_before(of, 0)
    }

    /// The same where the relations `later` keep nothing away: they are read when these rows are in a table already.
    pub fn rows_before(&self, of: u32, later: u32) -> f64 {
        let inside = |relation: usize| of >> relation & 1 == 1;
        let relations = self.rows.iter().enumerate();
        let mut rows: f64 = relations
            .filter(|(at, _)| inside(*at))
            .map(|(_, rows)| *rows)
            .product();
        for class in &self.classes {
            let (mut least, mut product) = (f64::INFINITY, 1.0);
            for column in class.iter().filter(|column| inside(column.relation)) {
                least = least.min(column.distinct.max(1.0));
                product *= column.distinct.max(1.0);
            }
            if least == f64::INFINITY {
                continue;
            }
            rows *= least / product;
            let asked = |relation: usize| (of | later) >> relation & 1 == 0;
            for column in class.iter().filter(|column| asked(column.relation)) {
                rows *= (column.distinct.max(1.0) / least).min(1.0);
            }
        }
        rows
    }

    /// Rows of all joins but the last, which every order has.
    pub fn rows_between(&self, tree: &JoinTree) -> f64 {
        self.rows_of_joins(tree) - self.rows_of(tree.relations())
    }

    fn rows_of_joins(&self, tree: &JoinTree) -> f64 {
        match tree {
            JoinTree::Relation(_) => 0.0,
            JoinTree::Join(left, right) => {
                let below = self.rows_of_joins(left) + self.rows_of_joins(right);
                below + self.rows_of(left.relations() | right.relations())
            }
        }
    }

    /// The best order, if it is far better than `given`. Products of relations without a common column are not tried.
    ///
    /// # Errors
    /// Why the order stays as it is given.
    pub fn better_order(&self, given: &JoinTree) -> Result<BetterOrder, AsGiven> {
        let relations = self.rows.len();
        match relations {
            0..=2 => return Err(AsGiven::Two),
            3..=RELATIONS_MAX => {}
            _ => return Err(AsGiven::Many),
        }
        let rows_given = self.rows_between(given);
        if rows_given < ROWS_SAVED_MIN {
            return Err(AsGiven::FewRows(rows_given));
        }
        let tree = match relations <= EXHAUSTIVE_MAX {
            true => self.exhaustive(),
            false => self.greedy(),
        };
        let tree = tree.ok_or(AsGiven::Apart)?;
        let rows = self.rows_between(&tree);
        if rows * GAIN_MIN > rows_given || rows_given - rows < ROWS_SAVED_MIN {
            return Err(AsGiven::NoBetter { rows, rows_given });
        }
        Ok(BetterOrder {
            tree,
            rows,
            rows_given,
        })
    }

    /// The relations that have a column in common with each relation, a bit each.
    fn neighbours(&self) -> Vec<u32> {
        let mut neighbours = vec![0; self.rows.len()];
        for class in &self.classes {
            let all = class.iter().fold(0, |all, column| all | 1 << column.relation);
            for column in class {
                neighbours[column.relation] |= all;
            }
        }
        neighbours
    }

    fn joined(&self, left: &Plan, right: &Plan) -> Plan {
        let relations = left.relations | right.relations;
        Plan {
            tree: JoinTree::join(left.tree.clone(), right.tree.clone()),
            relations,
            rows: left.rows + right.rows + self.rows_of(relations),
        }
    }

    fn relations(&self) -> impl Iterator<Item = Plan> {
        (0..self.rows.len()).map(|relation| Plan {
            tree: JoinTree::Relation(relation),
            relations: 1 << relation,
            rows: 0.0,
        })
    }

    /// Dynamic programming over sets of relations.
    fn exhaustive(&self) -> Option<JoinTree> {
        let all = (1_u32 << self.rows.len()) - 1;
        let neighbours = self.neighbours();
        // Of each set; a set is one without its lowest relation, and that.
        let mut near = vec![0; all as usize + 1];
        for set in 1..=all {
            let rest = set & (set - 1);
            near[set as usize] = near[rest as usize] | neighbours[set.trailing_zeros() as usize];
        }
        let mut best: Vec<Option<Plan>> = vec![None; all as usize + 1];
        for relation in self.relations() {
            let at = relation.relations as usize;
            best[at] = Some(relation);
        }
        for set in 1..=all {
            let mut least: Option<(f64, u32)> = None;
            // Every way to cut the set in two, once: the first part has the lowest relation.
            let lowest = set & set.wrapping_neg();
            let rest = set ^ lowest;
            let mut part = rest;
            while part != 0 {
                part = (part - 1) & rest;
                let (left, right) = (part | lowest, rest ^ part);
                if right != 0
                    && let (Some(a), Some(b)) = (&best[left as usize], &best[right as usize])
                    && near[left as usize] & right != 0
                    && least.is_none_or(|(rows, _)| a.rows + b.rows < rows)
                {
                    least = Some((a.rows + b.rows, left));
                }
            }
            if let Some((_, left)) = least {
                let (a, b) = (
                    best[left as usize].as_ref()?,
                    best[(set ^ left) as usize].as_ref()?,
                );
                best[set as usize] = Some(self.joined(a, b));
            }
        }
        best.swap_remove(all as usize).map(|plan| plan.tree)
    }

    /// Joins, again and again, the two whose join has the fewest rows.
    fn greedy(&self) -> Option<JoinTree> {
        let neighbours = self.neighbours();
        let near = |set: u32| {
            let all = neighbours.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
            all.fold(0, |near, (_, neighbours)| near | neighbours)
        };
        let mut plans: Vec<Plan> = self.relations().collect();
        while plans.len() > 1 {
            let mut least: Option<(f64, usize, usize)> = None;
            for left in 0..plans.len() {
                for right in left + 1..plans.len() {
                    let (a, b) = (plans[left].relations, plans[right].relations);
                    if near(a) & b != 0 {
                        let rows = self.rows_of(a | b);
                        if least.is_none_or(|(fewest, _, _)| rows < fewest) {
                            least = Some((rows, left, right));
                        }
                    }
                }
            }
            let (_, left, right) = least?;
            let second = plans.swap_remove(right);
            plans[left] = self.joined(&plans[left], &second);
        }
        plans.pop().map(|plan| plan.tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(columns: &[(usize, f64)]) -> Vec<JoinColumn> {
        let column = |&(relation, distinct)| JoinColumn { relation, distinct };
        columns.iter().map(column).collect()
    }

    /// Relations joined one after the other.
    fn in_turn(relations: &[usize]) -> JoinTree {
        let relations = relations.iter().map(|relation| JoinTree::Relation(*relation));
        relations.reduce(JoinTree::join).expect("a relation")
    }

    /// TPC-DS q72 in short: sales (0) and stock (1) have an item in common, each has a date (2, 3), and the dates' weeks are equal.
    fn sales_and_stock() -> JoinGraph {
        JoinGraph {
            rows: vec![1e6, 1e7, 365.0, 73_000.0],
            classes: vec![
                class(&[(0, 18_000.0), (1, 18_000.0)]),
                class(&[(0, 1_800.0), (2, 365.0)]),
                class(&[(1, 260.0), (3, 73_000.0)]),
                class(&[(2, 53.0), (3, 10_400.0)]),
            ],
        }
    }

    #[test]
    fn rows_are_divided_by_the_larger_number_of_values() {
        let graph = sales_and_stock();
        assert_eq!(graph.rows_of(0b0100), 365.0);
        // Of the sales, those of 365 of 1,800 days are left, whether the dates are joined yet or not.
        let of_a_year = 1e6 * 365.0 / 1_800.0;
        assert!((graph.rows_of(0b0001) - of_a_year).abs() < 1.0);
        assert!((graph.rows_of(0b0101) - of_a_year).abs() < 1.0);
        // A table of sales that is built before the dates are read has all of them.
        assert_eq!(graph.rows_before(0b0001, 0b0100), 1e6);
        // Every sale meets all stock of its item.
        assert!((graph.rows_of(0b0011) / (of_a_year * 1e7 / 18_000.0) - 1.0).abs() < 1e-9);
        // Three columns in a class: the least number of values divides nothing.
        let three = JoinGraph {
            rows: vec![100.0; 3],
            classes: vec![class(&[(0, 10.0), (1, 20.0), (2, 50.0)])],
        };
        assert_eq!(three.rows_of(0b111), 1e6 / (20.0 * 50.0));
    }

    #[test]
    fn many_to_many_comes_last() {
        let graph = sales_and_stock();
        let given = in_turn(&[0, 1, 2, 3]);
        let better = graph.better_order(&given).expect("a better order");
        assert!(better.rows * 4.0 <= better.rows_given, "{better:?}");
        // The dates come before the stock, which is then found by item and date.
        let JoinTree::Join(left, right) = &better.tree else {
            panic!("{better:?}")
        };
        let sides = [left.relations(), right.relations()];
        assert!(sides.contains(&0b0010), "{better:?}");
        let (rows, rows_given) = (better.rows, better.rows);
        let the_best = match rows < ROWS_SAVED_MIN {
            true => AsGiven::FewRows(rows),
            false => AsGiven::NoBetter { rows, rows_given },
        };
        assert_eq!(graph.better_order(&better.tree), Err(the_best));
    }

    #[test]
    fn stars_stay_as_they_are() {
        // Facts and three dimensions, the most selective last: look-ups keep its facts away from the start.
        let graph = JoinGraph {
            rows: vec![6e6, 1e5, 2e3, 10.0],
            classes: vec![
                class(&[(0, 1e5), (1, 1e5)]),
                class(&[(0, 2e3), (2, 2e3)]),
                class(&[(0, 1e3), (3, 10.0)]),
            ],
        };
        let stays = graph.better_order(&in_turn(&[0, 1, 2, 3])).unwrap_err();
        assert!(
            matches!(stays, AsGiven::NoBetter { .. } | AsGiven::FewRows(_)),
            "{stays}"
        );
        let two = JoinGraph {
            rows: vec![1e6; 2],
            classes: vec![class(&[(0, 10.0), (1, 10.0)])],
        };
        assert_eq!(two.better_order(&in_turn(&[0, 1])), Err(AsGiven::Two));
    }

    #[test]
    fn products_are_not_tried_and_many_relations_are_joined_greedily() {
        let apart = JoinGraph {
            rows: vec![1e6; 4],
            classes: vec![class(&[(0, 10.0), (1, 10.0)]), class(&[(2, 10.0), (3, 10.0)])],
        };
        let stays = apart.better_order(&in_turn(&[0, 1, 2, 3]));
        assert_eq!(stays, Err(AsGiven::Apart));
        // A chain of twelve, given from its expensive end.
        let mut graph = sales_and_stock();
        for next in 4..12 {
            graph.rows.push(1_000.0);
            graph.classes.push(class(&[(next - 1, 1_000.0), (next, 1_000.0)]));
        }
        let given = in_turn(&(0..12).collect::<Vec<_>>());
        let better = graph.better_order(&given).expect("a better order");
        assert_eq!(better.tree.relations(), (1 << 12) - 1);
        assert!(better.rows * GAIN_MIN <= better.rows_given);
    }

    #[test]
    fn every_order_is_a_whole_one_and_none_is_better_than_the_best() {
        let graph = sales_and_stock();
        let mut best = f64::INFINITY;
        for number in 0..256_usize {
            let order = [number % 4, number / 4 % 4, number / 16 % 4, number / 64];
            if in_turn(&order).relations() == 0b1111 {
                best = best.min(graph.rows_between(&in_turn(&order)));
            }
        }
        let found = graph.exhaustive().expect("connected");
        assert!(graph.rows_between(&found) <= best);
    }
}
