//! The proxy as a part of another program: reads a configuration file, serves until the standard input ends.
//!
//! `cargo run --release -p corun-pooler --example pooler -- corun.toml`

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program talks to whoever runs it"
)]

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use corun_pooler::{ConfigFiles, Pooler};

fn main() -> ExitCode {
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("usage: pooler CONFIG");
        return ExitCode::from(2);
    };
    let started = ConfigFiles::load(Path::new(&file))
        .map_err(|error| error.to_string())
        .and_then(|(files, _)| Pooler::start(files).map_err(|error| error.to_string()));
    match started {
        Ok(proxy) => {
            let sockets: Vec<_> = proxy.sockets().collect();
            println!("listening at {:?} {sockets:?}", proxy.addresses());
            // Whoever started this ends it by closing its standard input.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            proxy.stop(false);
            proxy.join();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
