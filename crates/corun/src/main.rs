//! The command-line program: wiring only. Arguments in [`cli`], one module a subcommand, all printing through [`out`],
//! and every error shown in the same three parts by [`failure`].

mod autosteps;
mod bench;
mod characterize;
mod cli;
mod config;
mod demo;
mod facts;
mod failure;
mod interrupt;
mod out;
mod partition;
mod progress;
mod proxy;
mod report_file;
mod simulate;
mod sql;
mod steps_subject;
mod top;
mod topology;

use std::process::ExitCode;

use anyhow::Context;

/// mimalloc, as analytic engines ship it, counted so that peak memory can be reported, with huge pages for large
/// blocks. Both sides of every comparison run on it.
#[global_allocator]
static ALLOCATOR: machine::memory::CountingAllocator<mimalloc::MiMalloc> =
    machine::memory::CountingAllocator::new(mimalloc::MiMalloc);

fn main() -> ExitCode {
    failure::install_panic_hook();
    let arguments = match cli::parse(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(stop) => return stop.finish(),
    };
    if !matches!(&arguments.command, cli::Command::Proxy(args) if args.logs_itself()) {
        out::start_logging(arguments.verbose);
    }
    let result = match arguments.command {
        cli::Command::Demo(args) => demo::run(args),
        cli::Command::Sql(args) => sql::run(args),
        cli::Command::Topology(args) => topology::run(args),
        cli::Command::Simulate(args) => simulate::run(args),
        cli::Command::Characterize(args) => characterize::run(args),
        cli::Command::Autosteps(args) => autosteps::run(args),
        cli::Command::Partition(args) => partition::run(args),
        cli::Command::Proxy(args) => proxy::run(args, arguments.verbose),
        cli::Command::Top(args) => top::run(args),
        cli::Command::Config(args) => config::run(args),
        cli::Command::Bench(args) => bench::run(args),
        cli::Command::StepsSubject(args) => steps_subject::run(args),
    };
    failure::finish(result)
}

/// A runtime with one worker a core. Plans of many joins recurse deeply, hence the larger stacks.
///
/// # Errors
/// When the operating system refuses threads.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(::bench::suites::all_cores())
        .thread_stack_size(8 << 20)
        .enable_all()
        .build()
        .context("cannot start the worker threads")
}
