//! How a server's events stand in its log.

use std::fmt::{self, Debug};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// What stands before a hint, which has a line of its own.
const HINT: &str = "\nhint: ";

/// One line for each: time, level, whose connection it is, what happened, the rest as `key=value`. Connections are named as PgBouncer names
/// them, `database/user@address`, so that what reads its log reads this one.
pub(crate) struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut parts = Parts::default();
        event.record(&mut parts);
        SystemTime.format_time(&mut writer)?;
        write!(writer, " {:>5} ", event.metadata().level())?;
        writeln!(writer, "{}", parts.line())
    }
}

/// The fields of an event.
#[derive(Default)]
struct Parts {
    message: String,
    database: Option<String>,
    user: Option<String>,
    address: Option<String>,
    rest: String,
}

impl Parts {
    fn line(self) -> String {
        let Parts {
            message,
            database,
            user,
            address,
            rest,
        } = self;
        let named = match (database, user, address) {
            (Some(database), Some(user), Some(address)) => format!("{database}/{user}@{address} {message}"),
            (database, user, address) => {
                let named = [("database", database), ("user", user), ("address", address)];
                let named = named.into_iter().filter_map(|(key, value)| Some((key, value?)));
                message
                    + &named
                        .map(|(key, value)| format!(" {key}={value:?}"))
                        .collect::<String>()
            }
        };
        // Clients choose names, and errors repeat them: nothing of it ends a line but the hint, moves a terminal's cursor or colours it.
        let lines = (named + &rest)
            .split(HINT)
            .map(|part| part.replace(char::is_control, " "))
            .collect::<Vec<_>>();
        lines.join(HINT)
    }

    fn put(&mut self, field: &Field, value: String, quoted: bool) {
        match field.name() {
            "message" => self.message = value,
            "database" => self.database = Some(value),
            "user" => self.user = Some(value),
            "from" | "host" => self.address = Some(value),
            key if quoted => self.rest += &format!(" {key}={value:?}"),
            key => self.rest += &format!(" {key}={value}"),
        }
    }
}

impl Visit for Parts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned(), true);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_connection_it_is_stands_before_what_happened() {
        let parts = |address: Option<&str>| Parts {
            message: "login".to_owned(),
            database: Some("shop".to_owned()),
            user: Some("anna".to_owned()),
            address: address.map(str::to_owned),
            rest: " client=7".to_owned(),
        };
        assert_eq!(
            parts(Some("10.0.0.1:99")).line(),
            "shop/anna@10.0.0.1:99 login client=7"
        );
        let mut forged = parts(Some("10.0.0.1:99"));
        forged.user = Some("anna\nINFO forged\u{1b}[2J".to_owned());
        assert_eq!(
            forged.line(),
            "shop/anna INFO forged [2J@10.0.0.1:99 login client=7"
        );
        assert_eq!(
            parts(None).line(),
            "login database=\"shop\" user=\"anna\" client=7"
        );
        let mut refused = parts(None);
        refused.message = "role \"a\nINFO forged\" does not exist\nhint: create it".to_owned();
        assert_eq!(
            refused.line(),
            "role \"a INFO forged\" does not exist\nhint: create it database=\"shop\" user=\"anna\" client=7"
        );
    }
}
