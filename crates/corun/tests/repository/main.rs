//! The repository itself: who depends on whom, what stands in which source, what scripts do, which names are used.

mod common;
mod dependencies;
mod names;
mod scratch_projects;
mod scripts;
mod sources;
