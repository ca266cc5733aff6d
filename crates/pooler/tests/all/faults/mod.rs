//! What may go wrong around the proxy: servers that die, clients that vanish or read slowly, nonsense on the wire, cancels and
//! reloads under load. No wrong answer, no hang, no leak, no lost committed write.

mod cancels;
mod clients;
mod console;
mod servers;
mod wire;

use std::time::{Duration, Instant};

use crate::common::raw::{Login, Raw};

/// Logs in and runs a statement, again and again until that succeeds; panics after 30 seconds.
fn soon(login: &Login, sql: &str) -> String {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let error = match Raw::connect(login) {
            Ok(mut client) => match client.try_rows(sql) {
                Ok(mut rows) => {
                    return rows
                        .pop()
                        .and_then(|row| row.into_iter().next().flatten())
                        .unwrap_or_default();
                }
                Err(error) => error,
            },
            Err(error) => error.to_string(),
        };
        assert!(Instant::now() < until, "still: {error}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
