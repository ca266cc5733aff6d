//! What may go wrong around the proxy: servers that die, clients that vanish or read slowly, nonsense on the wire, cancels and
//! reloads under load. No wrong answer, no hang, no leak, no lost committed write.

mod cancels;
mod clients;
mod console;
mod listeners;
mod servers;
mod wire;

use crate::common::raw::{Login, Raw, last_value};
use crate::common::wait::wait;

/// Logs in and runs a statement, again and again until that succeeds.
fn soon(login: &Login, sql: &str) -> String {
    wait(|| {
        let mut client = Raw::connect(login).map_err(|error| error.to_string())?;
        client.try_rows(sql).map(last_value)
    })
    .unwrap_or_default()
}
