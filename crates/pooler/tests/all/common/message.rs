//! Messages of PostgreSQL's protocol: building those of a client, and showing those of a server so that two servers' can be compared.

/// One message of the server.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Its type.
    pub tag: u8,
    /// What follows the length.
    pub body: Vec<u8>,
}

/// A typed message of a client.
pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn text(into: &mut Vec<u8>, text: &str) {
    into.extend_from_slice(text.as_bytes());
    into.push(0);
}

/// A startup message, protocol 3.`minor`.
pub fn startup(minor: u16, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = (3u32 << 16 | u32::from(minor)).to_be_bytes().to_vec();
    for (name, value) in parameters {
        text(&mut body, name);
        text(&mut body, value);
    }
    body.push(0);
    let mut bytes = (body.len() as u32 + 4).to_be_bytes().to_vec();
    bytes.extend_from_slice(&body);
    bytes
}

/// `SSLRequest`.
pub fn ssl_request() -> Vec<u8> {
    [8u32.to_be_bytes(), 80_877_103u32.to_be_bytes()].concat()
}

/// `CancelRequest`.
pub fn cancel_request(pid: u32, secret: &[u8]) -> Vec<u8> {
    let mut bytes = (12 + secret.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&80_877_102u32.to_be_bytes());
    bytes.extend_from_slice(&pid.to_be_bytes());
    bytes.extend_from_slice(secret);
    bytes
}

/// `Query`.
pub fn query(sql: &str) -> Vec<u8> {
    let mut body = Vec::new();
    text(&mut body, sql);
    message(b'Q', &body)
}

/// `Parse`.
pub fn parse(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut body = Vec::new();
    text(&mut body, name);
    text(&mut body, sql);
    body.extend_from_slice(&(types.len() as u16).to_be_bytes());
    for oid in types {
        body.extend_from_slice(&oid.to_be_bytes());
    }
    message(b'P', &body)
}

/// `Bind` with values as text; the result in text or binary.
pub fn bind(portal: &str, statement: &str, values: &[Option<&str>], binary: bool) -> Vec<u8> {
    let mut body = Vec::new();
    text(&mut body, portal);
    text(&mut body, statement);
    body.extend_from_slice(&0u16.to_be_bytes());
    body.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for value in values {
        match value {
            None => body.extend_from_slice(&u32::MAX.to_be_bytes()),
            Some(value) => {
                body.extend_from_slice(&(value.len() as u32).to_be_bytes());
                body.extend_from_slice(value.as_bytes());
            }
        }
    }
    body.extend_from_slice(&1u16.to_be_bytes());
    body.extend_from_slice(&u16::from(binary).to_be_bytes());
    message(b'B', &body)
}

/// `Describe` of a statement (`S`) or portal (`P`).
pub fn describe(kind: u8, name: &str) -> Vec<u8> {
    named(b'D', kind, name)
}

/// `Close` of a statement (`S`) or portal (`P`).
pub fn close(kind: u8, name: &str) -> Vec<u8> {
    named(b'C', kind, name)
}

fn named(tag: u8, kind: u8, name: &str) -> Vec<u8> {
    let mut body = vec![kind];
    text(&mut body, name);
    message(tag, &body)
}

/// `Execute`; 0 rows means all.
pub fn execute(portal: &str, rows: u32) -> Vec<u8> {
    let mut body = Vec::new();
    text(&mut body, portal);
    body.extend_from_slice(&rows.to_be_bytes());
    message(b'E', &body)
}

/// `Sync`.
pub fn sync() -> Vec<u8> {
    message(b'S', &[])
}

/// `Flush`.
pub fn flush() -> Vec<u8> {
    message(b'H', &[])
}

/// `Terminate`.
pub fn terminate() -> Vec<u8> {
    message(b'X', &[])
}

/// `CopyData`.
pub fn copy_data(bytes: &[u8]) -> Vec<u8> {
    message(b'd', bytes)
}

/// `CopyDone`.
pub fn copy_done() -> Vec<u8> {
    message(b'c', &[])
}

/// `CopyFail`.
pub fn copy_fail(reason: &str) -> Vec<u8> {
    let mut body = Vec::new();
    text(&mut body, reason);
    message(b'f', &body)
}

/// `Parse`, `Sync`.
pub fn prepare(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    [parse(name, sql, types), sync()].concat()
}

/// `Bind`, `Execute` of a prepared statement, to its last row.
pub fn bind_execute(statement: &str, values: &[Option<&str>]) -> Vec<u8> {
    [bind("", statement, values, false), execute("", 0)].concat()
}

/// The same, and `Sync`.
pub fn run(statement: &str, values: &[Option<&str>]) -> Vec<u8> {
    [bind_execute(statement, values), sync()].concat()
}

/// `Bind`, `Describe` of the portal, `Execute`, `Sync`, as drivers run a prepared statement.
pub fn run_described(statement: &str, values: &[Option<&str>], binary: bool) -> Vec<u8> {
    [
        bind("", statement, values, binary),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ]
    .concat()
}

/// `Parse`, `Bind`, `Execute` of a text.
pub fn statement(sql: &str, values: &[Option<&str>]) -> Vec<u8> {
    [parse("", sql, &[]), bind_execute("", values)].concat()
}

/// SQLSTATEs of the errors among messages.
pub fn errors(messages: &[Message]) -> Vec<String> {
    let errors = messages.iter().filter(|message| message.tag == b'E');
    errors.filter_map(|message| message.field(b'C')).collect()
}

/// The first error among messages.
pub fn first_error(messages: &[Message]) -> Option<&Message> {
    messages.iter().find(|message| message.tag == b'E')
}

/// SQLSTATE of the first error among messages, or nothing.
pub fn code(messages: &[Message]) -> String {
    errors(messages).into_iter().next().unwrap_or_default()
}

/// SQLSTATE and message of the first error among messages, or nothing.
pub fn error(messages: &[Message]) -> String {
    first_error(messages).map(Message::error).unwrap_or_default()
}

/// The rows among messages.
pub fn rows(messages: &[Message]) -> super::raw::Rows {
    let rows = messages.iter().filter(|message| message.tag == b'D');
    rows.map(Message::columns).collect()
}

/// Messages as lines that can be compared.
pub fn shown(messages: &[Message]) -> Vec<String> {
    messages.iter().filter_map(Message::show).collect()
}

/// What identifies an object made during the test, whose number may differ from server to server.
const FIRST_OWN_OBJECT: u32 = 16_384;

impl Message {
    /// Reads cut-out parts of the body; what is missing is empty.
    fn u16_at(&self, at: usize) -> u16 {
        self.body
            .get(at..at + 2)
            .map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
    }

    /// A number of the body.
    pub fn u32_at(&self, at: usize) -> u32 {
        self.body
            .get(at..at + 4)
            .map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// Texts of the body that end in a zero byte.
    pub fn texts(&self) -> Vec<String> {
        self.body
            .split(|byte| *byte == 0)
            .map(|part| String::from_utf8_lossy(part).into_owned())
            .collect()
    }

    /// One field of an error or notice.
    pub fn field(&self, code: u8) -> Option<String> {
        self.body
            .split(|byte| *byte == 0)
            .find(|part| part.first() == Some(&code))
            .map(|part| String::from_utf8_lossy(&part[1..]).into_owned())
    }

    /// SQLSTATE and message of an error.
    pub fn error(&self) -> String {
        let field = |code| self.field(code).unwrap_or_default();
        format!("{} {}", field(b'C'), field(b'M'))
    }

    /// Names of the columns of a `RowDescription`.
    pub fn column_names(&self) -> Vec<String> {
        let mut at = 2;
        (0..self.u16_at(0))
            .map(|_| {
                let rest = self.body.get(at..).unwrap_or_default();
                let name = rest.split(|byte| *byte == 0).next().unwrap_or_default();
                at += name.len() + 1 + 18;
                String::from_utf8_lossy(name).into_owned()
            })
            .collect()
    }

    /// Types in a `ParameterDescription`.
    pub fn type_oids(&self) -> Vec<u32> {
        let count = usize::from(self.u16_at(0));
        (0..count).map(|number| self.u32_at(2 + 4 * number)).collect()
    }

    /// Columns of a `DataRow`.
    pub fn columns(&self) -> Vec<Option<String>> {
        let mut at = 2;
        (0..self.u16_at(0))
            .map(|_| {
                let length = self.u32_at(at);
                at += 4;
                if length == u32::MAX {
                    return None;
                }
                let bytes = self.body.get(at..at + length as usize).unwrap_or_default();
                at += length as usize;
                Some(match std::str::from_utf8(bytes) {
                    Ok(text) if !text.contains('\0') => text.to_owned(),
                    _ => format!("{bytes:02x?}"),
                })
            })
            .collect()
    }

    /// One line that is the same for two servers that did the same. `None` for what may differ: the cancel key.
    pub fn show(&self) -> Option<String> {
        let name = char::from(self.tag);
        Some(match self.tag {
            b'K' => return None,
            b'D' => format!("row {:?}", self.columns()),
            b'T' => format!("columns {}", self.show_columns()),
            b'E' | b'N' => {
                let fields: Vec<String> = self
                    .body
                    .split(|byte| *byte == 0)
                    .filter(|part| !part.is_empty())
                    .map(|part| String::from_utf8_lossy(part).into_owned())
                    .collect();
                format!(
                    "{} {}",
                    if self.tag == b'E' { "error" } else { "notice" },
                    fields.join(" | ")
                )
            }
            b'Z' => format!("ready {}", String::from_utf8_lossy(&self.body)),
            b'C' => format!("complete {}", self.texts()[0]),
            b'S' => format!("parameter {:?}", &self.texts()[..2]),
            b'A' => format!(
                "notification {:?}",
                Message {
                    tag: b'A',
                    body: self.body[4..].to_vec()
                }
                .texts()
            ),
            b't' => {
                let types = self.type_oids();
                let types: Vec<u32> = types.into_iter().map(|oid| oid.min(FIRST_OWN_OBJECT)).collect();
                format!("parameters {types:?}")
            }
            b'd' => format!("copy data {:?}", String::from_utf8_lossy(&self.body)),
            _ => format!("{name} {:02x?}", self.body),
        })
    }

    fn show_columns(&self) -> String {
        let mut at = 2;
        let mut shown = Vec::new();
        for _ in 0..self.u16_at(0) {
            let Some(end) = self.body[at..].iter().position(|byte| *byte == 0) else {
                return "cut off".to_owned();
            };
            let name = String::from_utf8_lossy(&self.body[at..at + end]).into_owned();
            at += end + 1;
            shown.push(format!(
                "{name}: table {} column {} type {} length {} modifier {} format {}",
                self.u32_at(at).min(FIRST_OWN_OBJECT),
                self.u16_at(at + 4),
                self.u32_at(at + 6).min(FIRST_OWN_OBJECT),
                self.u16_at(at + 10) as i16,
                self.u32_at(at + 12) as i32,
                self.u16_at(at + 16)
            ));
            at += 18;
        }
        shown.join(", ")
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.show().unwrap_or_else(|| format!("{}", char::from(self.tag))))
    }
}
