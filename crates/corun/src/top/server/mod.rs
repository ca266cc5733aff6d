//! `corun-sql serve`: its `/status.json` is asked, and shown as tables.

pub mod json;
mod tables;

use std::time::{Duration, Instant};

use corun_model::server_status::ServerStatus;
use corun_net::metrics::http;

use super::LIMIT;
use super::view::View;
use super::watcher::{Lost, Source};
use corun_cli::failure::Report;

/// Longest answer; a thousand sessions have a megabyte.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The path of the status.
const PATH: &str = "/status.json";

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The URL.
    #[error(
        "the URL of the server is not right: {0}\nhint: write http://HOST:PORT, the address of its --metrics"
    )]
    Url(&'static str),
    /// Nobody there, or no answer.
    #[error(
        "cannot ask {place}: {error}\nhint: does corun-sql serve run, and with --metrics at this address?"
    )]
    Unreachable {
        /// Where.
        place: String,
        /// Why.
        error: std::io::Error,
    },
    /// It does not answer here.
    #[error("{place} refuses: HTTP status {status}\nhint: {hint}")]
    Refused {
        /// Where.
        place: String,
        /// HTTP's number.
        status: u16,
        /// What to do.
        hint: &'static str,
    },
    /// The answer is another's.
    #[error(
        "what {0} returned is no status of a server\nhint: is this corun-sql serve, of about the same version?"
    )]
    Strange(String),
}

/// A server at one moment, and the one before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// Now.
    pub status: ServerStatus,
    /// The one before, of the same run of the server, and how long ago.
    pub earlier: Option<(ServerStatus, Duration)>,
}

impl Moment {
    /// As it is shown.
    pub fn view(&self) -> View {
        tables::view(self)
    }

    /// How much a counter grew in a second.
    fn rate(&self, counter: impl Fn(&ServerStatus) -> f64) -> Option<f64> {
        let (earlier, period) = self.earlier.as_ref()?;
        let grown = counter(&self.status) - counter(earlier);
        (grown >= 0.0).then(|| grown / period.as_secs_f64().max(1e-3))
    }

    /// The mean of something that all statements together had, of those that ended since the moment before.
    fn mean(&self, sum: impl Fn(&ServerStatus) -> f64) -> Option<Duration> {
        let statements = self.rate(ended).filter(|rate| *rate > 0.0)?;
        Duration::try_from_secs_f64(self.rate(sum)? / statements).ok()
    }
}

/// Statements that have ended, however they did.
fn ended(status: &ServerStatus) -> f64 {
    let totals = &status.statements;
    (totals.completed + totals.failed + totals.cancelled) as f64
}

/// A server that is asked again and again.
pub struct Server {
    authority: String,
    earlier: Option<(ServerStatus, Instant)>,
}

impl Server {
    /// The server at `http://HOST:PORT`.
    ///
    /// # Errors
    /// Another text.
    pub fn at(url: &str) -> Result<Self, StatusError> {
        let authority = match url.split_once("://") {
            Some(("http", rest)) => rest.trim_end_matches('/'),
            Some(("https", _)) => return Err(StatusError::Url("metrics are shown without TLS")),
            Some(_) => return Err(StatusError::Url("it does not begin with http://")),
            None => url.trim_end_matches('/'),
        };
        if authority.is_empty() || authority.contains(['/', '@', '?', ' ']) {
            return Err(StatusError::Url("there is more in it than a host and a port"));
        }
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Ok(Self {
            authority: match has_port {
                true => authority.to_owned(),
                false => format!("{authority}:80"),
            },
            earlier: None,
        })
    }

    /// What there is now, and since the last call.
    ///
    /// # Errors
    /// Nobody there, or somebody else.
    pub fn moment(&mut self) -> Result<Moment, StatusError> {
        let place = self.authority.clone();
        let answer = http::get(&place, PATH, LIMIT, ANSWER_BYTES_MAX);
        let (status, body) = answer.map_err(|error| StatusError::Unreachable {
            place: place.clone(),
            error,
        })?;
        let hint = match status {
            200 => None,
            404 => Some("is this a pooler's prometheus_listen? Its console is asked with --dsn"),
            421 => Some("ask by an address, or start the server with --metrics-host and this name"),
            _ => Some("is this corun-sql serve?"),
        };
        if let Some(hint) = hint {
            return Err(StatusError::Refused { place, status, hint });
        }
        let status: ServerStatus =
            serde_json::from_slice(&body).map_err(|_| StatusError::Strange(place.clone()))?;
        if status.program.is_empty() {
            return Err(StatusError::Strange(place));
        }
        let now = Instant::now();
        let earlier = self.earlier.replace((status.clone(), now));
        Ok(Moment {
            // One that was started again counts anew.
            earlier: earlier
                .filter(|(earlier, _)| earlier.uptime_s <= status.uptime_s)
                .map(|(earlier, then)| (earlier, now - then)),
            status,
        })
    }
}

impl Source for Server {
    fn place(&self) -> String {
        self.authority.clone()
    }

    fn look(&mut self) -> Result<View, Lost> {
        self.moment().map(|moment| moment.view()).map_err(|error| {
            self.earlier = None;
            Lost {
                why: Report::parse(&error.to_string()).primary,
                is_final: matches!(error, StatusError::Refused { .. } | StatusError::Strange(_)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let at = |url: &str| Server::at(url).map(|server| server.authority);
        assert_eq!(at("http://127.0.0.1:9100/").expect("right"), "127.0.0.1:9100");
        assert_eq!(at("[::1]:9100").expect("right"), "[::1]:9100");
        assert_eq!(at("http://db1").expect("right"), "db1:80");
        for wrong in [
            "",
            "https://a:1",
            "postgres://a:1",
            "http://a:1/metrics",
            "http://u@a:1",
        ] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }
}
