//! Decisions of STEPS (paper 003): which CTX points are on, which team runs next, which teams are too thin to stand alone, and
//! whether teams pay at all.
//!
//! Not here: threads and switches (`corun_exec::teams`), and how points are found (`corun_cachesim::instruction_cache`).

mod auto;
pub mod instructions;
mod merge;
mod next_team;
mod profile;
mod statistics;

pub use auto::{AutoTeams, REST_FIRST, REST_MAX, REST_TEAMS, TRIAL_PAIRS, TRIAL_PAIRS_NOISY, TeamsMode};
pub use merge::{Mapping, merge, worth_splitting};
pub use next_team::{NextTeam, PASSED_OVER_MAX, TeamList};
pub use profile::{CtxProfile, CtxSite, Knee, L1i, ProfileError};
pub use statistics::OperationStatistics;
