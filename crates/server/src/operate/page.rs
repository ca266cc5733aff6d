//! The page of status: one document that asks for nothing but itself again.
//!
//! All texts pass [`escape`] on their way into it. Its script takes the new `<main>` of each answer into the old page; scripts of a document
//! that is parsed so never run, and the policy of the answer lets only the page's own run anyway.

use std::fmt::Write as _;

use corun_model::server_status::{QueryState, QueuedQuery, ServerStatus, SessionStatus};
use corun_model::units::Bytes;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::web::Answer;

/// Rows of a table; sessions may be a thousand.
const ROWS_MAX: usize = 100;
/// Bytes of a statement's text.
const STATEMENT_BYTES_MAX: usize = 400;
/// What is in a cell without a value.
const NOTHING: &str = "–";

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A heading, and whether its column holds numbers.
type Heading = (&'static str, bool);

/// The answer with the page.
pub(super) fn answer(status: &ServerStatus) -> Answer {
    let nonce = nonce();
    let policy = format!(
        "Content-Security-Policy: default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    );
    Answer {
        headers: policy,
        ..Answer::new("text/html; charset=utf-8", html(status, &nonce))
    }
}

/// A word that nobody can guess; without random numbers the page has neither style nor script.
fn nonce() -> String {
    let mut bytes = [0; 16];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => bytes
            .iter()
            .fold(String::new(), |text, byte| text + &format!("{byte:02x}")),
        Err(_) => "none".to_owned(),
    }
}

fn html(status: &ServerStatus, nonce: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><title>{program}</title>\
         <noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\
         <style nonce=\"{nonce}\">{STYLE}</style></head><body>\n\
         <p class=\"lost\" role=\"status\">The server does not answer. What is shown is old.</p>\n{main}\
         <script nonce=\"{nonce}\">{SCRIPT}</script></body></html>\n",
        program = escape(&status.program),
        main = main(status),
    )
}

fn main(status: &ServerStatus) -> String {
    let mut out = String::from("<main>\n");
    let state = match status.is_stopping {
        true => "<strong class=\"bad\">stopping</strong>",
        false => "<strong class=\"good\">serving</strong>",
    };
    let _ = writeln!(
        out,
        "<h1>{} {}</h1><p>{state} for {}</p>",
        escape(&status.program),
        escape(&status.version),
        time(status.uptime_s)
    );
    tiles(&mut out, status);
    sessions(&mut out, status);
    queue(&mut out, status);
    classes(&mut out, status);
    caches(&mut out, status);
    shared(&mut out, status);
    slow(&mut out, status);
    out + "</main>\n"
}

/// The numbers that are looked at first.
fn tiles(out: &mut String, status: &ServerStatus) {
    let (connections, totals, memory) = (&status.connections, &status.statements, &status.memory);
    let active = status
        .sessions
        .iter()
        .filter(|session| session.state == "active")
        .count();
    let queue = |state| status.queue.as_ref().map_or(0, |queue| queue.count(state));
    let pool = match memory.pool_bytes_max {
        Some(most) => format!("of {} for queries", Bytes(most)),
        None => "for queries, no limit".to_owned(),
    };
    let tiles = [
        (
            "Sessions",
            format!("{active} active"),
            format!(
                "{} of {} connected",
                connections.sessions, connections.sessions_max
            ),
        ),
        (
            "Queue",
            format!("{} running", queue(QueryState::Running)),
            format!(
                "{} waiting, {} short",
                queue(QueryState::Waiting),
                queue(QueryState::Short)
            ),
        ),
        (
            "Statements",
            count(totals.completed),
            format!(
                "{} failed, {} cancelled",
                count(totals.failed),
                count(totals.cancelled)
            ),
        ),
        (
            "Sent",
            format!("{} rows", count(totals.rows)),
            Bytes(totals.bytes).to_string(),
        ),
        (
            "Memory",
            Bytes(memory.pool_bytes).to_string(),
            format!("{pool}; the process {}", Bytes(memory.resident_bytes)),
        ),
    ];
    out.push_str("<dl class=\"tiles\">");
    for (name, large, small) in tiles {
        let _ = write!(
            out,
            "<div><dt>{name}</dt><dd><b>{}</b><small>{}</small></dd></div>",
            escape(&large),
            escape(&small)
        );
    }
    out.push_str("</dl>\n");
}

fn sessions(out: &mut String, status: &ServerStatus) {
    const HEADINGS: &[Heading] = &[
        ("Session", true),
        ("User", false),
        ("Database", false),
        ("From", false),
        ("State", false),
        ("For", true),
        ("Statement", false),
    ];
    // Those that do something first.
    let mut sessions: Vec<&SessionStatus> = status.sessions.iter().collect();
    sessions.sort_by_key(|session| (session.state != "active", session.pid));
    let rows = sessions.iter().map(|session| {
        vec![
            session.pid.to_string(),
            session.user.clone(),
            session.database.clone(),
            session.address.clone().unwrap_or_else(|| "local".to_owned()),
            session.state.clone(),
            time(session.statement_s.unwrap_or(session.connected_s)),
            cut(&session.statement),
        ]
    });
    section(out, "Sessions", "", HEADINGS, rows, "Nobody is connected.");
}

fn queue(out: &mut String, status: &ServerStatus) {
    const HEADINGS: &[Heading] = &[
        ("Query", true),
        ("Session", true),
        ("State", false),
        ("Class", false),
        ("CPUs", false),
        ("For", true),
        ("Why", false),
        ("Statement", false),
    ];
    let Some(queue) = &status.queue else {
        let about = "There is no coordinator (--policy off): each query runs at once.";
        return section(out, "Queue", about, HEADINGS, std::iter::empty(), "");
    };
    let statement = |query: &QueuedQuery| {
        let session = status
            .sessions
            .iter()
            .find(|session| query.pid == Some(session.pid));
        session.map(|session| cut(&session.statement)).unwrap_or_default()
    };
    let rows = queue.queries.iter().map(|query| {
        let why = match query.overtaken {
            0 => query.why.clone(),
            overtaken => format!("overtaken: {overtaken}"),
        };
        vec![
            query.id.to_string(),
            query.pid.map(|pid| pid.to_string()).unwrap_or_default(),
            query.state.name().to_owned(),
            query.class.map(|class| class.to_string()).unwrap_or_default(),
            query.cpus.clone(),
            query.seconds.map(time).unwrap_or_default(),
            why,
            statement(query),
        ]
    });
    let about = format!("Policy {}. Short queries run beside the others.", queue.policy);
    section(out, "Queue", &about, HEADINGS, rows, "No query waits or runs.");
}

fn classes(out: &mut String, status: &ServerStatus) {
    const HEADINGS: &[Heading] = &[
        ("Class", false),
        ("Queries", true),
        ("Beside strong", true),
        ("Beside moderate", true),
        ("Beside weak", true),
    ];
    let Some(queue) = &status.queue else { return };
    let mut rows = Vec::new();
    for (class, queries) in ["strong", "moderate", "weak"]
        .into_iter()
        .zip(status.statements.by_class)
    {
        let mut row = vec![class.to_owned(), count(queries)];
        for beside in ["strong", "moderate", "weak"] {
            let cell = queue
                .slowdowns
                .iter()
                .find(|cell| cell.victim.to_string() == class && cell.corunner.to_string() == beside);
            row.push(
                cell.map(|cell| format!("{:.2} ×", cell.factor))
                    .unwrap_or_default(),
            );
        }
        rows.push(row);
    }
    let about = "What a query takes beside one of another class, in times of what it takes alone, as far as that was learnt.";
    section(out, "Classes", about, HEADINGS, rows.into_iter(), "");
}

fn caches(out: &mut String, status: &ServerStatus) {
    const HEADINGS: &[Heading] = &[
        ("Level", false),
        ("Size", true),
        ("How many", true),
        ("CPUs of each", true),
        ("Served by", false),
    ];
    let rows = status.caches.iter().map(|cache| {
        vec![
            cache.name.clone(),
            cache
                .bytes
                .map(|bytes| Bytes(bytes).to_string())
                .unwrap_or_default(),
            cache.count.to_string(),
            cache.cpus.to_string(),
            cache.mechanism.clone(),
        ]
    });
    section(out, "Caches of this machine", "", HEADINGS, rows, "");
}

fn shared(out: &mut String, status: &ServerStatus) {
    const HEADINGS: &[Heading] = &[
        ("What", false),
        ("Kept now", true),
        ("Bytes", true),
        ("Since the start", false),
    ];
    let shared = &status.shared;
    let rows = [
        vec![
            "parts of statements".to_owned(),
            count(shared.results),
            Bytes(shared.result_bytes).to_string(),
            format!(
                "{} run, {} times read along, {} times taken from what was kept",
                count(shared.parts_run),
                count(shared.parts_joined),
                count(shared.results_reused)
            ),
        ],
        vec![
            "columns of files".to_owned(),
            count(shared.columns),
            Bytes(shared.column_bytes).to_string(),
            format!(
                "{} asked for, {} of them kept",
                count(shared.columns_asked),
                count(shared.columns_reused)
            ),
        ],
    ];
    section(out, "Shared work", "", HEADINGS, rows.into_iter(), "");
}

fn slow(out: &mut String, status: &ServerStatus) {
    const HEADINGS: &[Heading] = &[
        ("Ago", true),
        ("User", false),
        ("Database", false),
        ("Took", true),
        ("Waited", true),
        ("Class", false),
        ("CPUs", false),
        ("Rows", true),
        ("Sent", true),
        ("Error", false),
        ("Statement", false),
    ];
    let rows = status.slow.iter().map(|slow| {
        vec![
            time(slow.ago_s),
            slow.user.clone(),
            slow.database.clone(),
            time(slow.seconds),
            slow.waited_s.map(time).unwrap_or_default(),
            slow.class.map(|class| class.to_string()).unwrap_or_default(),
            slow.cpus.clone(),
            count(slow.rows),
            Bytes(slow.bytes).to_string(),
            slow.sqlstate.clone().unwrap_or_default(),
            cut(&slow.statement),
        ]
    });
    section(out, "Last slow statements", "", HEADINGS, rows, "None so far.");
}

/// A heading, a sentence, and a table; `none` where there are no rows.
fn section(
    out: &mut String,
    title: &str,
    about: &str,
    headings: &[Heading],
    rows: impl Iterator<Item = Vec<String>>,
    none: &str,
) {
    let rows: Vec<Vec<String>> = rows.collect();
    let _ = write!(out, "<section><h2>{title}</h2>");
    for text in [about, if rows.is_empty() { none } else { "" }] {
        if !text.is_empty() {
            let _ = write!(out, "<p>{}</p>", escape(text));
        }
    }
    if !rows.is_empty() {
        out.push_str("<table><thead><tr>");
        for (name, is_number) in headings {
            let _ = write!(out, "<th scope=\"col\"{}>{name}</th>", class_of(*is_number));
        }
        out.push_str("</tr></thead><tbody>\n");
        for row in rows.iter().take(ROWS_MAX) {
            out.push_str("<tr>");
            for ((name, is_number), cell) in headings.iter().zip(row) {
                let cell = if cell.is_empty() { NOTHING } else { cell };
                let kind = match *name {
                    "Statement" => " class=\"sql\"",
                    _ => class_of(*is_number),
                };
                let _ = write!(out, "<td data-name=\"{name}\"{kind}>{}</td>", escape(cell));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table>");
        if rows.len() > ROWS_MAX {
            let _ = write!(out, "<p>and {} more</p>", rows.len() - ROWS_MAX);
        }
    }
    out.push_str("</section>\n");
}

fn class_of(is_number: bool) -> &'static str {
    if is_number { " class=\"number\"" } else { "" }
}

/// A text as HTML has it, in elements and in quoted attributes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// The beginning of a statement.
fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(STATEMENT_BYTES_MAX);
    match end < text.len() {
        true => format!("{}…", &text[..end]),
        false => text.to_owned(),
    }
}

/// A whole number with commas.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A time in two or three digits.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::server_status::{QueueStatus, SlowStatement};

    #[test]
    fn what_clients_write_is_text() {
        let hostile = "select '<script>alert(1)</script>' as \"a\" & b";
        let session = SessionStatus {
            user: "<b>ann</b>".to_owned(),
            state: "active".to_owned(),
            statement: hostile.to_owned(),
            ..SessionStatus::default()
        };
        let slow = SlowStatement {
            statement: hostile.to_owned(),
            database: "\"onload='x'".to_owned(),
            ..SlowStatement::default()
        };
        let status = ServerStatus {
            sessions: vec![session],
            slow: vec![slow],
            queue: Some(QueueStatus {
                queries: vec![QueuedQuery::default()],
                ..QueueStatus::default()
            }),
            ..ServerStatus::default()
        };
        let answer = answer(&status);
        assert_eq!(answer.body.matches("<script").count(), 1, "only the page's own");
        assert!(!answer.body.contains("<b>ann") && !answer.body.contains("\"onload"));
        let shown = "select &#39;&lt;script&gt;alert(1)&lt;/script&gt;&#39; as &quot;a&quot; &amp; b";
        assert_eq!(answer.body.matches(shown).count(), 2, "{}", answer.body);
        // It asks nobody else for anything.
        for outside in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!answer.body.contains(outside), "{outside}");
        }
        let again = super::answer(&status);
        assert_ne!(
            answer.headers, again.headers,
            "the word of the policy is new each time"
        );
    }

    #[test]
    fn a_table_ends() {
        let sessions = (0..ROWS_MAX as i32 + 5).map(|pid| SessionStatus {
            pid,
            ..SessionStatus::default()
        });
        let status = ServerStatus {
            sessions: sessions.collect(),
            ..ServerStatus::default()
        };
        let page = html(&status, "x");
        assert!(page.contains("<p>and 5 more</p>"));
        assert!(page.contains("There is no coordinator"), "{page}");
    }

    #[test]
    fn numbers_are_short() {
        let times = [0.000_05, 0.25, 1.25, 100.0, 3_600.0, 90_000.0, 900_000.0].map(time);
        assert_eq!(
            times,
            ["50 µs", "250 ms", "1.2 s", "100 s", "60 min", "25 h", "10 days"]
        );
        assert_eq!([count(7), count(1_234_567)], ["7", "1,234,567"]);
        assert_eq!(cut(&"ä".repeat(400)).chars().count(), 201);
    }
}
