//! `corun`: the command line of the pooler and of what this machine is. Wiring only: arguments in [`cli`], one module a subcommand, all
//! printing through [`corun_cli::out`], and every error shown in the same three parts by [`corun_cli::failure`].

mod cli;
mod config;
mod partition;
mod proxy;
mod top;
mod topology;

use std::process::ExitCode;

use clap::CommandFactory;
use corun_cli::{arguments, documents, failure, out};

/// mimalloc: event loops allocate small blocks from several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: cli::Arguments = match arguments::begin("corun") {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    if !matches!(&arguments.command, cli::Command::Proxy(args) if args.logs_itself()) {
        out::start_logging(arguments.verbose);
    }
    let result = match arguments.command {
        cli::Command::Proxy(args) => proxy::run(args, arguments.verbose),
        cli::Command::Top(args) => top::run(args),
        cli::Command::Config(args) => config::run(args),
        cli::Command::Topology(args) => topology::run(args),
        cli::Command::Partition(args) => partition::run(args),
        cli::Command::Documents(args) => documents::run(&args, cli::Arguments::command(), &cli::SECTIONS),
    };
    failure::finish(result)
}
