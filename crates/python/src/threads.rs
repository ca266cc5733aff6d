//! The threads of this library, which last as long as the process: objects of Python may be dropped anywhere, a runtime may not.

use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;
use parking_lot::Mutex;
use tokio::runtime::{Handle, Runtime};

static THREADS: Mutex<Option<(u32, Runtime)>> = Mutex::new(None);

/// The threads, one a core, which are made when they are first asked for.
///
/// # Errors
/// The operating system refuses threads; they are those of the process that this one was forked from, which are not here.
pub(crate) fn handle() -> Result<Handle> {
    let mut threads = THREADS.lock();
    if let Some((process, runtime)) = threads.as_ref() {
        return match *process == std::process::id() {
            true => Ok(runtime.handle().clone()),
            false => exec_err!(
                "corun was started in the process that this one was forked from: use multiprocessing's \"spawn\" or \"forkserver\""
            ),
        };
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("corun")
        .enable_all()
        .build()
        .map_err(|error| exec_datafusion_err!("corun cannot start threads: {error}"))?;
    let handle = runtime.handle().clone();
    *threads = Some((std::process::id(), runtime));
    Ok(handle)
}
