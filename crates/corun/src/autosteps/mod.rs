//! `corun autosteps`: where a team of threads that run the same operation should switch, for any program.
mod args;
mod json;
mod report;
mod study;
mod text;

pub use args::AutostepsArgs;

/// Runs the command.
pub fn run(args: AutostepsArgs) -> anyhow::Result<()> {
    args.check()
}
