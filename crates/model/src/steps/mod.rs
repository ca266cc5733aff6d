//! Decisions of STEPS (paper 003): which CTX points are on, which team runs next, which teams are too thin to stand alone, and
//! whether teams pay at all.
//!
//! Not here: threads and switches (`exec::teams`), and how points are found (`cachesim::steps`).

mod profile;

pub use profile::{CtxProfile, CtxSite, Knee, L1i, ProfileError};
