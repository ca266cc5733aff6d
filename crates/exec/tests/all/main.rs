//! Tables, trees, operators, staged execution and teams from outside.
//!
//! The programs beside this one say why they stand alone. `make miri` runs the modules whose names end in `small`, and `stage_set`.

mod chains;
mod csb_small;
mod index_join;
mod operators;
mod operators_small;
mod patch;
mod shared_csb_small;
mod small;
mod stage;
mod stage_race;
mod stage_set;
mod stage_small;
mod stage_trace;
mod support;
mod teams;
