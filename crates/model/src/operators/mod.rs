//! How operators wait for memory (paper 000): execution modes, which of them pays, where a second thread goes, which join to take.

pub mod cardinality;
pub mod groups;
pub mod index_join;
pub mod join_order;
pub mod mode;
pub mod placement;
pub mod technique;
pub mod trace;
pub mod work_ahead;
