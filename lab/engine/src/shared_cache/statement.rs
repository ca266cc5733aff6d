//! What runs beside what: PLQ_k as a hash join, through the index in two orders, and a scan.
//!
//! PLQ_k (paper 002, section 4.2.1) is `select sum(lo_revenue) from part, lineorder where p_partkey = lo_partkey and (p_category
//! = ? or ...)` with `k` terms. Categories are numbers here (`MFGR#12` is 12), so that testing them does not hide the join.
//!
//! | name | how |
//! | --- | --- |
//! | `hash_plqK` | a hash table of the parts, probed by `lineorder` |
//! | `index_plqK` | the parts in arrival order, each looked up in the index of `lineorder`: the paper's index scan |
//! | `bitmap_plqK` | the same parts sorted by key, so that the index is descended in key order. The paper's bitmap index scan sorts the rows found, not the keys; both turn scattered lookups into ordered ones |
//! | `scan` | a filter and a sum over `lineorder` |

use std::fmt;

use corun_model::cache::locality::{Footprint, Locality};

use super::sizes::Sizes;

/// How PLQ_k is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// By a hash table.
    Hash,
    /// Through the index, outer keys as they come.
    Index,
    /// Through the index, outer keys sorted.
    Bitmap,
}

impl Access {
    /// The word in names and mixes.
    pub fn as_str(self) -> &'static str {
        match self {
            Access::Hash => "hash",
            Access::Index => "index",
            Access::Bitmap => "bitmap",
        }
    }
}

/// One query of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statement {
    /// PLQ_k.
    Plq {
        /// Terms, 1 to 25.
        k: usize,
        /// How it is answered.
        access: Access,
    },
    /// The scan.
    Scan,
}

/// Orders the scan counts: about half.
pub(super) const SCAN_QUANTITY_BELOW: i32 = 26;

/// The number of a category: `MFGR#12` is 12.
pub(super) fn category(term: usize) -> i32 {
    (10 * (1 + term / 5) + 1 + term % 5) as i32
}

impl Statement {
    /// PLQ_k by a hash table.
    pub const fn hash(k: usize) -> Statement {
        let access = Access::Hash;
        Statement::Plq { k, access }
    }

    /// PLQ_k through the index.
    pub const fn index(k: usize) -> Statement {
        let access = Access::Index;
        Statement::Plq { k, access }
    }

    /// PLQ_k through the index in key order.
    pub const fn bitmap(k: usize) -> Statement {
        let access = Access::Bitmap;
        Statement::Plq { k, access }
    }

    /// The SQL over the tables of [`super::data`].
    pub fn sql(self) -> String {
        let (k, part, orders) = match self {
            Statement::Scan => {
                return format!(
                    "select sum(lo_revenue) as revenue from lineorder where lo_quantity < {SCAN_QUANTITY_BELOW}"
                );
            }
            Statement::Plq { k, access } => match access {
                Access::Hash => (k, "part", "lineorder"),
                Access::Index => (k, "part", "lineorder_indexed"),
                Access::Bitmap => (k, "part_by_key", "lineorder_indexed"),
            },
        };
        let terms: Vec<String> = (0..k)
            .map(|term| format!("p_category = {}", category(term)))
            .collect();
        format!(
            "select sum(lo_revenue) as revenue from {part}, {orders} where p_partkey = lo_partkey and ({})",
            terms.join(" or ")
        )
    }

    /// What it keeps in the cache.
    pub fn footprint(self, sizes: &Sizes) -> Footprint {
        match self {
            Statement::Plq {
                k,
                access: Access::Hash,
            } => Footprint::Tables(sizes.table_bytes(k)),
            _ => Footprint::Streams,
        }
    }

    /// Its class.
    pub fn class(self, sizes: &Sizes) -> Locality {
        sizes.class(self.footprint(sizes))
    }

    /// Whether it needs an index on `lineorder`.
    pub fn needs_index(self) -> bool {
        matches!(self, Statement::Plq { access, .. } if access != Access::Hash)
    }

    /// The kind of work, for the name of a mix.
    pub fn kind(self) -> &'static str {
        match self {
            Statement::Plq { access, .. } => access.as_str(),
            Statement::Scan => "scan",
        }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statement::Plq { k, access } => f.pad(&format!("{}_plq{k}", access.as_str())),
            Statement::Scan => f.pad("scan"),
        }
    }
}

#[cfg(test)]
mod tests {
    use corun_model::units::Bytes;

    use super::*;

    #[test]
    fn plq_has_k_distinct_terms() {
        for k in [1, 13, 25] {
            let sql = Statement::hash(k).sql();
            assert_eq!(sql.matches("p_category = ").count(), k);
        }
        assert!(Statement::hash(25).sql().ends_with("p_category = 55)"));
    }

    #[test]
    fn names_and_tables_say_how() {
        let statements = [
            Statement::hash(5),
            Statement::index(25),
            Statement::bitmap(2),
            Statement::Scan,
        ];
        let names: Vec<String> = statements.iter().map(Statement::to_string).collect();
        assert_eq!(names, ["hash_plq5", "index_plq25", "bitmap_plq2", "scan"]);
        assert!(!Statement::hash(5).needs_index() && !Statement::Scan.needs_index());
        assert!(
            Statement::index(25)
                .sql()
                .contains("from part, lineorder_indexed")
        );
        assert!(
            Statement::bitmap(2)
                .sql()
                .contains("from part_by_key, lineorder_indexed")
        );
    }

    #[test]
    fn only_hash_joins_keep_anything() {
        let sizes = Sizes::of(Bytes::mib(4), true).expect("a possible cache");
        assert_eq!(Statement::hash(1).class(&sizes), Locality::Strong);
        assert_eq!(Statement::hash(5).class(&sizes), Locality::Moderate);
        for weak in [
            Statement::hash(25),
            Statement::index(1),
            Statement::bitmap(1),
            Statement::Scan,
        ] {
            assert_eq!(weak.class(&sizes), Locality::Weak, "{weak}");
        }
    }
}
