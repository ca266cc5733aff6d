//! [`Front`]: starts listeners and event loops, and ends them.

use std::any::Any;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use corun_model::server_status::Connections;
use corun_net::reactor::{Epoll, ListenOptions, Listener, Reactor, SocketFile, Uring};

use super::access::Access;
use super::client::listener_token;
use super::config::{FrontConfig, Io};
use super::engine::SqlEngine;
use super::event_loop::EventLoop;
use super::shared::{Mailbox, Shared};

/// Why a front does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address or a path.
    #[error(
        "cannot listen at {place}: {error}\nhint: another process may listen there; see --listen and --socket"
    )]
    Listen {
        /// Which.
        place: String,
        /// Why.
        error: std::io::Error,
    },
    /// Nothing to listen at.
    #[error("there is nothing to listen at\nhint: give --listen ADDRESS:PORT or --socket FOLDER")]
    Nowhere,
    /// Threads, descriptors, io_uring.
    #[error("cannot start {what}: {error}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        error: std::io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(std::io::Error) -> StartError {
    move |error| StartError::System { what, error }
}

/// Why a front ended that was not asked to.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failed(String);

/// What others may see of a front; clones are the same.
#[derive(Clone)]
pub struct FrontView(Arc<Shared>);

impl FrontView {
    /// Connections and logins, now and since the start.
    pub fn connections(&self) -> Connections {
        self.0.connections()
    }

    /// Whether it ends.
    pub fn is_stopping(&self) -> bool {
        self.0.is_stopping()
    }
}

/// A front that serves. Dropping it ends it at once.
pub struct Front {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    addresses: Vec<SocketAddr>,
    socket: Option<SocketFile>,
}

impl Front {
    /// Listens and serves, each event loop on a thread of its own.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn start<E: SqlEngine>(
        config: FrontConfig,
        access: impl Into<Arc<Access>>,
        engine: E,
    ) -> Result<Self, StartError> {
        let access = access.into();
        match config.io {
            Io::Epoll => Self::over(config, access, engine, Epoll::new),
            Io::IoUring => Self::over(config, access, engine, Uring::new),
        }
    }

    fn over<R: Reactor + Send + 'static, E: SqlEngine>(
        config: FrontConfig,
        access: Arc<Access>,
        engine: E,
        reactor: impl Fn() -> std::io::Result<R>,
    ) -> Result<Self, StartError> {
        let (listeners, addresses, socket) = listen(&config)?;
        let loops = config.loops.max(1);
        let mut reactors = Vec::with_capacity(loops);
        for _ in 0..loops {
            reactors.push(reactor().map_err(system("an event loop"))?);
        }
        let mailboxes: Vec<Arc<Mailbox>> = reactors
            .iter()
            .map(|reactor| Arc::new(Mailbox::new(reactor.waker())))
            .collect();
        let shared = Arc::new(Shared::new(config, access, mailboxes));
        let mut front = Self {
            shared: Arc::clone(&shared),
            threads: Vec::with_capacity(loops),
            addresses,
            socket,
        };
        let mut listeners = Some(listeners);
        for (index, mut reactor) in reactors.into_iter().enumerate() {
            // The first loop accepts for all.
            let own = listeners.take().unwrap_or_default();
            let count = own.len();
            for (number, listener) in own.into_iter().enumerate() {
                reactor
                    .listen(listener_token(number), listener)
                    .map_err(system("a listener"))?;
            }
            let mailbox = Arc::clone(&shared.mailboxes[index]);
            let mut event_loop = EventLoop::new(Arc::clone(&shared), mailbox, engine.clone(), count);
            let shared = Arc::clone(&shared);
            let run = move || {
                let ended = catch_unwind(AssertUnwindSafe(|| event_loop.run(&mut reactor)));
                let why = match &ended {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => format!("an event loop cannot wait for its sockets: {error}"),
                    Err(panic) => format!("an event loop panicked: {}", said(panic.as_ref())),
                };
                // Clients of other loops are told; those of this one are gone with it.
                shared.fail(why);
            };
            let thread = std::thread::Builder::new().name(format!("corun-front-{index}"));
            front.threads.push(thread.spawn(run).map_err(system("a thread"))?);
        }
        Ok(front)
    }

    /// TCP addresses listened at.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The Unix socket.
    pub fn socket(&self) -> Option<PathBuf> {
        self.socket.as_ref().map(|socket| socket.path().to_owned())
    }

    /// Ends the front: no new clients; statements under way have [`FrontConfig::shutdown_grace`], or no time if `at_once`, and then are
    /// cancelled. Clients hear 57P01. Returns before it is over.
    pub fn stop(&self, at_once: bool) {
        self.shared.stop(at_once);
    }

    /// Whether everything has ended.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits until everything has ended.
    ///
    /// # Errors
    /// Why, where nobody asked for it.
    pub fn join(mut self) -> Result<(), Failed> {
        self.wait();
        self.shared.failure().map_or(Ok(()), |why| Err(Failed(why)))
    }

    fn wait(&mut self) {
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("an event loop panicked at its end");
            }
        }
    }

    /// What others may see of it.
    pub fn view(&self) -> FrontView {
        FrontView(Arc::clone(&self.shared))
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.stop(true);
        self.wait();
        if let Some(socket) = &self.socket {
            socket.remove();
        }
    }
}

/// The words of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without words")
}

type Listening = (Vec<Listener>, Vec<SocketAddr>, Option<SocketFile>);

fn listen(config: &FrontConfig) -> Result<Listening, StartError> {
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    let options = ListenOptions::default();
    for address in &config.listen {
        let listener = Listener::tcp(*address, &options).map_err(|error| StartError::Listen {
            place: address.to_string(),
            error,
        })?;
        addresses.extend(listener.local());
        listeners.push(listener);
    }
    let mut socket = None;
    if let Some(folder) = &config.unix_socket_folder {
        let port = addresses.first().map_or(5432, SocketAddr::port);
        let path = folder.join(format!(".s.PGSQL.{port}"));
        let refused = |error| StartError::Listen {
            place: path.display().to_string(),
            error,
        };
        // Only this user: `local` rules may be trust.
        let options = ListenOptions {
            mode: 0o700,
            ..options
        };
        listeners.push(Listener::unix(&path, &options).map_err(refused)?);
        socket = Some(SocketFile::hold(&path).map_err(refused)?);
    }
    match listeners.is_empty() {
        true => Err(StartError::Nowhere),
        false => Ok((listeners, addresses, socket)),
    }
}
