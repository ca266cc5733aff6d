//! Decisions against a simulated machine, and formulas against what others published.

mod coschedule;
mod pmu;
