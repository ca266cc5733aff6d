//! Where traced operations come from: a program that is started once for each, a running one, or a kept trace.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use corun_machine::trace::{Recorded, Recorder, Target, TraceOptions, TraceSource};
use corun_model::progress::Progress as _;

use super::args::AutostepsArgs;
use super::traced::{Traced, failed};
use crate::interrupt;
use corun_cli::progress::Bars;

/// Most bytes of a kept trace for each instruction that may be in it.
const BYTES_PER_INSTRUCTION: usize = 16;

/// Traces what the arguments ask for.
///
/// # Errors
/// What the tracer says; files that cannot be read or written.
pub fn traced(args: &AutostepsArgs, bars: &Bars) -> Result<Vec<Traced>> {
    let mut advance = |instructions| bars.advance(instructions);
    if let Some(path) = &args.trace {
        bars.begin("reading the trace", 0);
        let mut source = Recorded::open(path).map_err(failed)?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        let one = Traced::take(&name, &mut source, args.instructions_max, None, &mut advance)?;
        return Ok(vec![one]);
    }
    let stop = interrupt::asked_to_stop()?;
    let mut all = Vec::new();
    for function in args.operations() {
        let name = function.unwrap_or("marked");
        bars.begin(&format!("tracing {name}"), 0);
        // Dropped at the end of the round: the program ends, or runs on if it was attached to.
        let mut tracer = start(args, function, &stop)?;
        let one = match &args.trace_out {
            None => Traced::take(name, tracer.as_mut(), args.instructions_max, None, &mut advance)?,
            Some(path) => {
                let mut recorder = Recorder::new(args.instructions_max.saturating_mul(BYTES_PER_INSTRUCTION));
                let keep = Some(&mut recorder);
                let one = Traced::take(name, tracer.as_mut(), args.instructions_max, keep, &mut advance)?;
                let kept = recorder.finish(tracer.as_ref());
                std::fs::write(path, kept)
                    .with_context(|| format!("cannot write the trace {}", path.display()))?;
                one
            }
        };
        drop(tracer);
        bars.end();
        all.push(one);
    }
    Ok(all)
}

fn start(
    args: &AutostepsArgs,
    function: Option<&str>,
    stop: &Arc<AtomicBool>,
) -> Result<Box<dyn TraceSource>> {
    let target = function.map_or(Target::Marked, |name| Target::Function(name.to_owned()));
    let mut options = TraceOptions::of(target);
    options.warm = u64::from(args.skip);
    options.instructions_max = args.instructions_max as u64;
    options.stop = Some(Arc::clone(stop));
    // A time too long to be written down is none.
    options.time_max = args
        .timeout
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    options.stop_others = args.stop_others;
    for (lock, unlock) in &args.latches {
        options.latches.enter.push(lock.clone());
        options.latches.leave.push(unlock.clone());
    }
    tracer(args, options)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn tracer(args: &AutostepsArgs, options: TraceOptions) -> Result<Box<dyn TraceSource>> {
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};

    use corun_machine::trace::Tracer;

    let tracer = match (args.attach, args.program.split_first()) {
        (Some(pid), _) => Tracer::attach(pid, options),
        (None, program) => {
            let (program, arguments) = program.context("no program to trace")?;
            let mut command = Command::new(program);
            // Standard output is for the answer.
            let stderr = std::io::stderr()
                .as_fd()
                .try_clone_to_owned()
                .context("cannot share stderr")?;
            command.args(arguments).stdout(Stdio::from(stderr));
            Tracer::start(command, options)
        }
    };
    Ok(Box::new(tracer.map_err(failed)?))
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn tracer(_args: &AutostepsArgs, _options: TraceOptions) -> Result<Box<dyn TraceSource>> {
    Err(corun_cli::failure::Failed(
        "programs are traced on x86-64 Linux only\nhint: take the trace there with --trace-out, and read it here with --trace".to_owned(),
    )
    .into())
}
