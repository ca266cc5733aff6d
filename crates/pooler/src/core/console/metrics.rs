//! Metrics for Prometheus: a thread that answers scrapes, one after the other, beside the event loops.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use corun_net::metrics::CONTENT_TYPE;
use corun_net::metrics::http::{Request, response};
use corun_net::reactor::Listener;

use crate::admin::{Latencies, Snapshot, prometheus};
use crate::core::console::ask::{Answers, Order, Part, Tell};
use crate::core::console::known_rows;
use crate::core::console::rows;
use crate::core::console::statistics::Times;
use crate::core::ranges::range_rows;
use crate::core::shared::Shared;
use crate::core::shutdown::HANDSHAKES;

/// How long a scraper may take to ask, and how long the event loops may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two looks at whether the proxy ends.
const LOOK: Duration = Duration::from_millis(200);

/// Starts the thread. It ends with the proxy, or before, where another process may listen at the same address.
///
/// # Errors
/// When there is no thread.
pub(in crate::core) fn serve(listener: Listener, shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    shared.metrics_listen.store(true, Ordering::Relaxed);
    let run = move || {
        // Whatever ends the thread.
        let told = Told(Arc::clone(&shared));
        accept(&listener, &shared);
        drop(listener);
        drop(told);
    };
    std::thread::Builder::new()
        .name("corun-metrics".to_owned())
        .spawn(run)
}

/// Says when it goes that nobody asks for metrics here any more.
struct Told(Arc<Shared>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.metrics_listen.store(false, Ordering::Relaxed);
    }
}

fn accept(listener: &Listener, shared: &Arc<Shared>) {
    let Listener::Tcp(connections) = listener else {
        return;
    };
    let began = Instant::now();
    let mut last = None;
    while !shared.stopping.load(Ordering::Relaxed) {
        if last.is_none() && shared.ending.load(Ordering::Relaxed) {
            let _ = listener.drop_syns();
            last = Some(Instant::now() + HANDSHAKES);
        }
        // Those who still wait have waited for others that said nothing.
        if last.is_some_and(|last| Instant::now() > last + PATIENCE) {
            return;
        }
        match connections.accept() {
            Ok((stream, _)) => {
                if let Err(error) = scrape(stream, shared, began) {
                    tracing::debug!(%error, "a scrape of the metrics failed");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if last.is_some_and(|last| Instant::now() > last) {
                    return;
                }
                std::thread::sleep(LOOK);
            }
            Err(error) => {
                tracing::warn!(%error, "metrics: a connection could not be accepted");
                std::thread::sleep(LOOK);
            }
        }
    }
}

/// Answers one request.
fn scrape(mut stream: TcpStream, shared: &Arc<Shared>, began: Instant) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    // For the question and, once more, for the answer.
    let mut until = Instant::now() + PATIENCE;
    let answer = loop {
        match Request::read(&bytes) {
            Request::Incomplete if Instant::now() > until => return Err(io::ErrorKind::TimedOut.into()),
            Request::Incomplete => match stream.read(&mut buffer)? {
                0 => return Ok(()),
                read => bytes.extend(&buffer[..read]),
            },
            Request::Get { path, .. } if path == "/metrics" => {
                break response("200 OK", CONTENT_TYPE, "", &prometheus(&snapshot(shared, began)?));
            }
            Request::Get { .. } => {
                let said = "404 Not Found\nThe metrics are at /metrics.\n";
                break response("404 Not Found", "text/plain", "", said);
            }
            Request::Refused(answer) => break answer,
        }
    };
    until = Instant::now() + PATIENCE;
    let mut rest = &answer[..];
    while !rest.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        let written = stream.write(rest)?;
        rest = &rest[written..];
    }
    Ok(())
}

/// Asks every event loop what there is.
fn look(shared: &Shared) -> io::Result<Vec<Part>> {
    let (sender, receiver) = sync_channel(1);
    let answers = Answers::ask(shared, &Order::Look, Tell::Thread(sender));
    receiver
        .recv_timeout(PATIENCE)
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
    Ok(answers.parts())
}

fn snapshot(shared: &Arc<Shared>, began: Instant) -> io::Result<Snapshot> {
    let parts = look(shared)?;
    let files = shared.files();
    let mut times: Vec<(String, Times)> = Vec::new();
    for view in parts.iter().flat_map(|part| &part.pools) {
        match times
            .iter_mut()
            .find(|(database, _)| **database == *view.database)
        {
            Some((_, all)) => all.merge(&view.times),
            None => times.push((view.database.to_string(), view.times.clone())),
        }
    }
    let status = |name: &str| {
        let hosts = shared.fleets.lock().get(name).map(Arc::clone);
        hosts.map(|hosts| hosts.status()).unwrap_or_default()
    };
    let ranges = shared.ranges.lock();
    Ok(Snapshot {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: began.elapsed().as_secs_f64(),
        resident_bytes: corun_net::memory::resident_bytes().unwrap_or(0),
        clients: parts.iter().map(|part| part.clients.len() as u64).sum(),
        clients_max: u64::from(files.config.proxy.max_client_conn),
        pools: rows::pools(&parts),
        stats: rows::stats(&parts).into_iter().collect(),
        cores: rows::cores(&parts),
        hosts: rows::hosts(&parts, &files.config, status, shared.started.elapsed()),
        // Processors and switches are not shown.
        ranges: range_rows::ranges(&ranges, &[], |_| false),
        keys: range_rows::keys(&ranges),
        splits: range_rows::splits(&parts),
        heavy_queue: shared.heavy_queue.counted(),
        latencies: times
            .into_iter()
            .map(|(database, times)| Latencies {
                database,
                query: times.query,
                transaction: times.transaction,
                wait: times.wait,
            })
            .collect(),
        databases: known_rows::databases(&parts, &files.config, &shared.stopped.lock()),
        errors: known_rows::errors(&parts),
    })
}
