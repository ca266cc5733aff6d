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

/// A simple query of each text.
pub fn queries(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| query(text)).collect()
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
    bind_as(portal, statement, values, &[i16::from(binary)])
}

/// The same with these formats of the result's columns.
pub fn bind_as(
    portal: &str,
    statement: &str,
    values: &[Option<impl AsRef<[u8]>>],
    formats: &[i16],
) -> Vec<u8> {
    let mut body = Vec::new();
    text(&mut body, portal);
    text(&mut body, statement);
    body.extend([0, 0]);
    body.extend(row(values));
    body.extend((formats.len() as u16).to_be_bytes());
    body.extend(formats.iter().flat_map(|format| format.to_be_bytes()));
    message(b'B', &body)
}

/// The body of a `DataRow`, which is how `Bind` has its values, too.
pub fn row(values: &[Option<impl AsRef<[u8]>>]) -> Vec<u8> {
    let mut body = (values.len() as u16).to_be_bytes().to_vec();
    for value in values {
        let value = value.as_ref().map(AsRef::as_ref);
        body.extend(value.map_or(u32::MAX, |value| value.len() as u32).to_be_bytes());
        body.extend(value.unwrap_or_default());
    }
    body
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

/// Takes the message at the start of some bytes, if it is there to its end.
pub fn take(bytes: &mut Vec<u8>) -> Option<Message> {
    let head = bytes.get(1..5)?;
    let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
    if bytes.len() < length + 1 {
        return None;
    }
    let whole: Vec<u8> = bytes.drain(..=length).collect();
    Some(Message {
        tag: whole[0],
        body: whole.get(5..).unwrap_or_default().to_vec(),
    })
}

/// The messages in some bytes, in which there is nothing else.
pub fn all(bytes: &[u8]) -> Vec<Message> {
    let mut rest = bytes.to_vec();
    let all = std::iter::from_fn(|| take(&mut rest)).collect();
    assert!(rest.is_empty(), "no message: {rest:02x?}");
    all
}

/// The values in the body of a `DataRow`; what is missing is empty.
pub fn values(mut row: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut taken = |count: usize| {
        let (taken, rest) = row.split_at(count.min(row.len()));
        row = rest;
        taken
    };
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    (0..number(taken(2)))
        .map(|_| match number(taken(4)) {
            0xFFFF_FFFF => None,
            length => Some(taken(length).to_vec()),
        })
        .collect()
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

/// Rows of values, null as nothing.
pub type Rows = Vec<Vec<Option<String>>>;

/// The rows among messages.
pub fn rows(messages: &[Message]) -> Rows {
    let rows = messages.iter().filter(|message| message.tag == b'D');
    rows.map(Message::columns).collect()
}

/// Messages as lines that can be compared.
pub fn shown(messages: &[Message]) -> Vec<String> {
    messages.iter().filter_map(Message::show).collect()
}

/// Texts that end in a zero byte.
fn texts(bytes: &[u8]) -> Vec<String> {
    let parts = bytes.split(|byte| *byte == 0);
    parts
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect()
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
        texts(&self.body)
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

    /// Names of the columns of a `RowDescription`, and where the rest of each stands.
    fn described(&self) -> Vec<(String, usize)> {
        let mut at = 2;
        (0..self.u16_at(0))
            .map(|_| {
                let rest = self.body.get(at..).unwrap_or_default();
                let name = rest.split(|byte| *byte == 0).next().unwrap_or_default();
                let place = at + name.len() + 1;
                at = place + 18;
                (String::from_utf8_lossy(name).into_owned(), place)
            })
            .collect()
    }

    /// Names of the columns of a `RowDescription`.
    pub fn column_names(&self) -> Vec<String> {
        self.described().into_iter().map(|(name, _)| name).collect()
    }

    /// Types of the columns of a `RowDescription`.
    pub fn column_types(&self) -> Vec<u32> {
        let described = self.described().into_iter();
        described.map(|(_, at)| self.u32_at(at + 6)).collect()
    }

    /// Types in a `ParameterDescription`.
    pub fn type_oids(&self) -> Vec<u32> {
        let count = usize::from(self.u16_at(0));
        (0..count).map(|number| self.u32_at(2 + 4 * number)).collect()
    }

    /// Columns of a `DataRow`.
    pub fn columns(&self) -> Vec<Option<String>> {
        let shown = |bytes: Vec<u8>| match std::str::from_utf8(&bytes) {
            Ok(text) if !text.contains('\0') => text.to_owned(),
            _ => format!("{bytes:02x?}"),
        };
        let values = values(&self.body).into_iter();
        values.map(|value| value.map(shown)).collect()
    }

    /// One line that is the same for two servers that did the same. `None` for what may differ: the cancel key.
    pub fn show(&self) -> Option<String> {
        let name = char::from(self.tag);
        Some(match self.tag {
            b'K' => return None,
            b'D' => format!("row {:?}", self.columns()),
            b'T' => format!("columns {}", self.show_columns()),
            b'E' | b'N' => {
                let mut fields = self.texts();
                fields.retain(|field| !field.is_empty());
                let kind = if self.tag == b'E' { "error" } else { "notice" };
                format!("{kind} {}", fields.join(" | "))
            }
            b'Z' => format!("ready {}", String::from_utf8_lossy(&self.body)),
            b'C' => format!("complete {}", self.texts()[0]),
            b'S' => format!("parameter {:?}", &self.texts()[..2]),
            b'A' => format!("notification {:?}", texts(&self.body[4..])),
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
        let shown = self.described().into_iter().map(|(name, at)| {
            format!(
                "{name}: table {} column {} type {} length {} modifier {} format {}",
                self.u32_at(at).min(FIRST_OWN_OBJECT),
                self.u16_at(at + 4),
                self.u32_at(at + 6).min(FIRST_OWN_OBJECT),
                self.u16_at(at + 10) as i16,
                self.u32_at(at + 12) as i32,
                self.u16_at(at + 16)
            )
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.show().unwrap_or_else(|| format!("{}", char::from(self.tag))))
    }
}
