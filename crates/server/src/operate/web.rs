//! [`Web`]: one thread that answers GET, over a reactor, so that no client keeps another waiting.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use corun_net::metrics::http::{Request, is_own_name, response};
use corun_net::reactor::{Epoll, Event, Handler, ListenOptions, Listener, Reactor, Stream, Token, Waker};
use slab::Slab;

/// Connections at a time; more are closed at once.
const CONNECTIONS_MAX: usize = 64;
/// Time that a client has to ask, and then to read.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two looks at who has been too slow.
const TICK: Duration = Duration::from_millis(500);
/// The listener's token; connections have those below.
const LISTENER: Token = CONNECTIONS_MAX;

/// Headers of every answer: nothing may embed, keep or guess it.
const HEADERS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n";

/// Where to answer.
#[derive(Debug, Clone)]
pub struct WebConfig {
    /// The address; port 0 is one that is free.
    pub listen: SocketAddr,
    /// Names that requests may give beside addresses and `localhost`; `*`: any.
    pub names: Vec<String>,
}

/// Why nobody answers.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// Others reach the address.
    #[error(
        "others reach {0}, and whoever asks for the metrics there sees all statements\n\
         hint: give --metrics-host NAME, the name under which they may ask; or --metrics 127.0.0.1:PORT"
    )]
    Reachable(SocketAddr),
    /// The address cannot be listened at.
    #[error(
        "cannot listen for metrics at {address}: {error}\nhint: another process may listen there; see --metrics"
    )]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// No thread or no descriptor.
    #[error("cannot start the thread of the metrics: {0}")]
    System(io::Error),
}

/// An answer to a request.
#[derive(Debug, Clone)]
pub struct Answer {
    /// `200 OK`, ...
    pub status: &'static str,
    /// Its content type.
    pub kind: &'static str,
    /// Further headers, each with its end of line.
    pub headers: String,
    /// What it says.
    pub body: String,
}

impl Answer {
    /// One that says this.
    pub fn new(kind: &'static str, body: String) -> Self {
        Self {
            status: "200 OK",
            kind,
            headers: String::new(),
            body,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let headers = format!("{HEADERS}{}", self.headers);
        response(self.status, self.kind, &headers, &self.body)
    }
}

/// A running server of pages. Dropping it ends it.
pub struct Web {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Web {
    /// Listens; `answer` is asked for each path, on the thread of the pages, and must not wait.
    ///
    /// # Errors
    /// An address that others reach where no names are given; what the system refuses.
    pub fn start(
        config: &WebConfig,
        answer: impl Fn(&str) -> Option<Answer> + Send + 'static,
    ) -> Result<Self, WebError> {
        if !config.listen.ip().is_loopback() && config.names.is_empty() {
            return Err(WebError::Reachable(config.listen));
        }
        let refused = |error| WebError::Listen {
            address: config.listen,
            error,
        };
        let listener = Listener::tcp(config.listen, &ListenOptions::default()).map_err(refused)?;
        let address = listener.local().unwrap_or(config.listen);
        let mut reactor = Epoll::new().map_err(WebError::System)?;
        reactor.listen(LISTENER, listener).map_err(WebError::System)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let waker = reactor.waker();
        let mut pages = Pages {
            names: config.names.clone(),
            answer: Box::new(answer),
            clients: Slab::with_capacity(CONNECTIONS_MAX),
        };
        let is_stopping = Arc::clone(&stopping);
        let run = move || {
            if let Err(error) = pages.run(&mut reactor, &is_stopping) {
                tracing::error!(%error, "metrics: the thread cannot wait for its sockets");
            }
        };
        let thread = std::thread::Builder::new().name("corun-metrics".to_owned());
        Ok(Self {
            address,
            stopping,
            waker,
            thread: Some(thread.spawn(run).map_err(WebError::System)?),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("metrics: the thread panicked");
        }
    }
}

/// What is under a path.
type Answers = Box<dyn Fn(&str) -> Option<Answer> + Send>;

/// The thread's part.
struct Pages {
    names: Vec<String>,
    answer: Answers,
    clients: Slab<Client>,
}

/// Who has not asked yet, or has not read the answer.
struct Client {
    until: Duration,
    bytes: Vec<u8>,
    is_answered: bool,
}

impl Pages {
    fn run(&mut self, reactor: &mut Epoll, stopping: &AtomicBool) -> io::Result<()> {
        while !stopping.load(Ordering::Acquire) {
            let wait = (!self.clients.is_empty()).then_some(TICK);
            reactor.turn(wait, self)?;
            let now = reactor.now();
            let slow = self.clients.iter().filter(|(_, client)| client.until <= now);
            let slow: Vec<Token> = slow.map(|(token, _)| token).collect();
            for token in slow {
                reactor.close(token);
                self.clients.remove(token);
            }
        }
        Ok(())
    }

    fn accepted(&mut self, reactor: &mut Epoll, stream: Stream) {
        if self.clients.len() >= CONNECTIONS_MAX {
            return;
        }
        let client = Client {
            until: reactor.now() + PATIENCE,
            bytes: Vec::new(),
            is_answered: false,
        };
        let token = self.clients.insert(client);
        if let Err(error) = reactor.add(token, stream) {
            tracing::debug!(%error, "metrics: a connection could not be served");
            self.clients.remove(token);
        }
    }

    fn data(&mut self, reactor: &mut Epoll, token: Token, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(token).filter(|client| !client.is_answered) else {
            return;
        };
        client.bytes.extend_from_slice(bytes);
        let answer = match Request::read(&client.bytes) {
            Request::Incomplete => return,
            Request::Refused(answer) => answer,
            Request::Get { path, host } => self.answer(&path, host.as_deref()).bytes(),
        };
        reactor.send(token, &answer);
        if reactor.queued(token) == 0 {
            return self.leave(reactor, token);
        }
        // Until it has read the most of it.
        self.clients[token] = Client {
            until: reactor.now() + PATIENCE,
            bytes: Vec::new(),
            is_answered: true,
        };
    }

    fn leave(&mut self, reactor: &mut Epoll, token: Token) {
        if self.clients.try_remove(token).is_some() {
            reactor.close_after_drain(token, PATIENCE);
        }
    }

    fn answer(&self, path: &str, host: Option<&str>) -> Answer {
        let refused = |status: &'static str, why: &str| Answer {
            status,
            ..Answer::new("text/plain", format!("{status}\n{why}\n"))
        };
        if !host.is_some_and(|host| is_own_name(host, &self.names)) {
            let why = "This server is asked by its address, as localhost, or by a name of --metrics-host.";
            return refused("421 Misdirected Request", why);
        }
        (self.answer)(path).unwrap_or_else(|| {
            refused(
                "404 Not Found",
                "There are /, /metrics, /status.json and /health.",
            )
        })
    }
}

impl Handler<Epoll> for Pages {
    fn event(&mut self, reactor: &mut Epoll, event: Event<'_>) {
        match event {
            Event::Accepted { stream, .. } => self.accepted(reactor, stream),
            Event::Data { token, bytes } => self.data(reactor, token, bytes),
            Event::Drained { token } => self.leave(reactor, token),
            Event::Closed { token, .. } => drop(self.clients.try_remove(token)),
            _ => {}
        }
    }
}
