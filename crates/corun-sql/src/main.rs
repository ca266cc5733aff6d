//! `corun-sql`: SQL on the embedded engine. Wiring only: arguments in [`cli`], all printing through [`corun_cli::out`], and every error
//! shown in the same three parts by [`corun_cli::failure`].

mod cli;
mod cluster;
mod copies;
mod scheduling;
mod scratch;
mod serve;
mod sql;

use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use corun_cli::{arguments, documents, failure, out};
use corun_exec::allocator::{self, HugeBlocks};

#[global_allocator]
static ALLOCATOR: HugeBlocks = HugeBlocks;

fn main() -> ExitCode {
    allocator::keep_free_memory();
    let arguments: cli::Arguments = match arguments::begin("corun-sql") {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    // A server logs as its settings say.
    if !matches!(arguments.command, cli::Command::Serve(_)) {
        out::start_logging(arguments.verbose);
    }
    // Where none can be made, a query that needs files says why.
    let scratch = || scratch::Scratch::begin().ok();
    let result = match arguments.command {
        cli::Command::Sql(args) => {
            let _scratch = scratch();
            sql::run(*args)
        }
        cli::Command::Serve(args) => {
            let _scratch = scratch();
            serve::run(*args, arguments.verbose)
        }
        cli::Command::User(args) => serve::user::run(&args),
        cli::Command::Worker(args) => {
            let _scratch = scratch();
            cluster::run(&args)
        }
        cli::Command::Backup(args) => copies::backup(&args),
        cli::Command::Restore(args) => copies::restore(&args),
        cli::Command::Verify(args) => copies::verify(&args),
        cli::Command::Documents(args) => documents::run(&args, cli::Arguments::command(), &[]),
    };
    failure::finish_explained(result, |error| {
        let error = error.downcast_ref::<corun_datafusion::EngineError>()?;
        Some(failure::Known::of(error))
    })
}

/// A runtime with one worker a core. Plans of many joins recurse deeply, hence the larger stacks.
///
/// # Errors
/// When the operating system refuses threads.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(all_cores())
        .thread_stack_size(8 << 20)
        .enable_all()
        .build()
        .context("cannot start the worker threads")
}

/// Cores this process may use.
fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}
