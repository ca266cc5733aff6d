//! Nobody gets in who would not get in directly, and everybody else does: passwords, attacks on the exchange, startup parameters
//! that reach for more, TLS.

mod attacks;
mod clusters;
mod once;
mod passwords;
mod server_tls;
mod startup;
mod tls;

use crate::common::postgres::shared;
use crate::common::raw::{Login, Raw};
use crate::common::target::{Mode, Pooling, Target};

/// A target that asks clients for a password in this way.
fn asking(auth_type: &str) -> Target {
    Target::start(
        shared(),
        &Pooling::new(Mode::Transaction, 3).set("auth_type", auth_type),
    )
}

/// A user whose password is stored so that it can be asked for in this way.
fn user_of(auth_type: &str) -> &'static str {
    match auth_type {
        "md5" => "app_md5",
        _ => "app_scram",
    }
}

/// Logs in and says who it is to the server; otherwise code and text of the error.
fn who(login: &Login) -> Result<String, String> {
    let mut raw = Raw::connect(login).map_err(|error| error.to_string())?;
    let rows =
        raw.try_rows("select session_user || ' ' || current_user || ' ' || current_setting('is_superuser')")?;
    rows.into_iter()
        .next()
        .and_then(|row| row.into_iter().next().flatten())
        .ok_or_else(|| "no row".to_owned())
}
