//! `corun-lab`: the command line of the lab. Wiring only: arguments in [`cli`], one module a subcommand, all printing through
//! [`corun_cli::out`], and every error shown in the same three parts by [`corun_cli::failure`].

#[cfg(feature = "cpu")]
mod autosteps;
mod bench;
#[cfg(feature = "postgres")]
mod characterize;
mod cli;
#[cfg(feature = "engine")]
mod demo;
mod facts;
#[cfg(feature = "cpu")]
mod instruction_cache_subject;
#[cfg(any(feature = "cpu", feature = "postgres"))]
mod interrupt;
mod report_file;
mod results;
#[cfg(feature = "engine")]
mod simulate;

use std::process::ExitCode;

use clap::CommandFactory;
use corun_cli::{arguments, documents, failure, out};
use corun_exec::allocator::{self, HugeBlocks};
use corun_machine::memory::CountingAllocator;
use lab_core::BenchError;

/// The allocator of `corun-sql`, counted so that peak memory can be reported. Both sides of every comparison run on it.
#[global_allocator]
static ALLOCATOR: CountingAllocator<HugeBlocks> = CountingAllocator::new(HugeBlocks);

fn main() -> ExitCode {
    allocator::keep_free_memory();
    let arguments: cli::Arguments = match arguments::begin("corun-lab") {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    out::start_logging(arguments.verbose);
    let result = match arguments.command {
        #[cfg(feature = "engine")]
        cli::Command::Demo(args) => demo::run(args),
        cli::Command::Bench(args) => bench::run(args),
        cli::Command::Results(args) => results::run(args),
        #[cfg(feature = "engine")]
        cli::Command::Simulate(args) => simulate::run(args),
        #[cfg(feature = "postgres")]
        cli::Command::Characterize(args) => characterize::run(args),
        #[cfg(feature = "cpu")]
        cli::Command::Autosteps(args) => autosteps::run(args),
        #[cfg(feature = "cpu")]
        cli::Command::InstructionCacheSubject(args) => instruction_cache_subject::run(args),
        cli::Command::Documents(args) => documents::run(&args, cli::Arguments::command(), &[]),
    };
    failure::finish_explained(result, |error| {
        let error = error.downcast_ref::<BenchError>()?;
        Some(failure::Known {
            report: failure::Report {
                primary: error.to_string(),
                detail: error.detail(),
                hint: error.hint(),
            },
            is_usage: error.is_usage(),
        })
    })
}
