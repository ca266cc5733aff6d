//! Ctrl-C and SIGTERM during long work: it is asked to give up, so that it leaves everything as it found it. A second
//! one ends us at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// What becomes true at the first of those signals. From here on they no longer end the program by themselves.
///
/// # Errors
/// When the system refuses a thread or a handler.
pub fn asked_to_stop() -> Result<Arc<AtomicBool>> {
    let context = "cannot listen for signals";
    let asked = Arc::new(AtomicBool::new(false));
    let sets = Arc::clone(&asked);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context(context)?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        let listen = |kind| signal(kind).context(context);
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?)
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                    // Relaxed: the flag says all there is to say.
                    if sets.swap(true, Ordering::Relaxed) {
                        std::process::exit(130);
                    }
                }
            });
        })
        .context(context)?;
    Ok(asked)
}
