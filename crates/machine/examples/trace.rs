//! Traces one operation of a program and says how long it was, how fast it was traced, and which functions it ran most in.
//!
//! ```text
//! cargo run --release -p corun-machine --example trace -- --function NAME [--warm N] PROGRAM [ARGUMENT...]
//! cargo run --release -p corun-machine --example trace -- --marked [--pid PID | PROGRAM [ARGUMENT...]]
//! ```
#![allow(clippy::print_stdout)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::collections::HashMap;
    use std::process::Command;
    use std::time::Instant;

    use corun_machine::trace::{After, Lines, Target, TraceOptions, TraceSource, Tracer};
    use corun_model::teams::instructions::{Event, InstructionSink};

    #[derive(Default)]
    struct Counts(HashMap<u64, u64>);
    impl InstructionSink for Counts {
        fn event(&mut self, event: &Event<'_>) {
            if let Event::Instruction(instruction) = event {
                *self.0.entry(instruction.address).or_default() += 1;
            }
        }
    }

    let mut arguments = std::env::args().skip(1);
    let mut options = TraceOptions::of(Target::Marked);
    let mut tracer = loop {
        let mut next = || {
            arguments
                .next()
                .ok_or("--function NAME | --marked, then a program")
        };
        match next()?.as_str() {
            "--marked" => options.target = Target::Marked,
            "--function" => options.target = Target::Function(next()?),
            "--warm" => options.warm = next()?.parse()?,
            "--operations" => options.operations = next()?.parse()?,
            "--pid" => break Tracer::attach(next()?.parse()?, options)?,
            program => {
                let mut command = Command::new(program);
                command.args(arguments);
                break Tracer::start(command, options)?;
            }
        }
    };
    loop {
        let mut counts = Counts::default();
        let start = Instant::now();
        let Some(operation) = tracer.next_operation(&mut counts)? else {
            break;
        };
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{} instructions of thread {} ({:?}), {} different ones, {:.0} a second",
            operation.instructions,
            operation.thread,
            operation.end,
            counts.0.len(),
            operation.instructions as f64 / seconds
        );
        let mut lines = Lines::new(tracer.modules());
        let mut functions: HashMap<String, u64> = HashMap::new();
        for (address, count) in counts.0 {
            let name = lines.place(address).function.unwrap_or_else(|| "?".to_owned());
            *functions.entry(name).or_default() += count;
        }
        let mut functions: Vec<_> = functions.into_iter().collect();
        functions.sort_by_key(|(name, count)| (u64::MAX - count, name.clone()));
        for (name, count) in functions.into_iter().take(8) {
            println!("  {count:9} {name}");
        }
    }
    if let Some(mut child) = tracer.finish(After::LetRun) {
        println!("the program ran on: {}", child.wait()?);
    }
    Ok(())
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    println!("programs are traced on x86-64 Linux only");
}
