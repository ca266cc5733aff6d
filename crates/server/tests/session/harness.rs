//! An engine over a folder, its clients, and what they are sent as lines of text.

use corun_datafusion::CoordinatorOptions;
use corun_server::data::DataConfig;
use corun_server::session::{ClientSession, Engine, EngineConfig, Gone, Identity, Sink};
use corun_wire::error::Refusal;
use corun_wire::{HEADER_BYTES, header};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

pub struct Server {
    pub folder: tempfile::TempDir,
    pub engine: Engine,
}

static PIDS: AtomicU32 = AtomicU32::new(1);

/// A number that no other session has.
pub fn pid() -> u32 {
    PIDS.fetch_add(1, Ordering::Relaxed)
}

/// `t`: numbers `n` from 0 to 9 and a text; `sales.q1`: another.
pub fn files(folder: &Path) {
    let rows: Vec<String> = (0..10).map(|n| format!("{n},row {n}")).collect();
    std::fs::write(folder.join("t.csv"), format!("n,word\n{}\n", rows.join("\n"))).unwrap();
    std::fs::create_dir(folder.join("sales")).unwrap();
    std::fs::write(folder.join("sales/q1.csv"), "region,amount\nnorth,1.5\nsouth,\n").unwrap();
    std::fs::write(folder.join("sales/q2.csv"), "region,amount\nwest,3\n").unwrap();
}

/// The coordinator as the programs set it up.
pub fn coordinator() -> CoordinatorOptions {
    let topology = corun_topology::discover();
    CoordinatorOptions::for_machine(&topology, None).expect("a cache")
}

impl Server {
    pub fn new() -> Server {
        Server::with(|config| config.coordinator = Some(coordinator()))
    }

    pub fn with(change: impl FnOnce(&mut EngineConfig)) -> Server {
        let folder = tempfile::tempdir().unwrap();
        files(folder.path());
        let mut config = EngineConfig::new(DataConfig {
            catalogs: vec![("corun".to_owned(), folder.path().to_owned())],
            allow_write: vec![folder.path().to_owned()],
            ..DataConfig::default()
        });
        change(&mut config);
        let engine = Engine::start(config).expect("the engine starts");
        Server { folder, engine }
    }

    pub fn session(&self) -> ClientSession {
        self.session_as(&[]).expect("a session")
    }

    pub fn session_as(&self, options: &[(&str, &str)]) -> Result<ClientSession, Refusal> {
        self.engine.session(Identity {
            user: "ada".to_owned(),
            database: String::new(),
            pid: pid(),
            address: None,
            options: options
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        })
    }

    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.engine.runtime().block_on(work)
    }

    /// Runs a text in a session.
    pub fn run(&self, session: &mut ClientSession, sql: &str) -> Result<Vec<String>, Refusal> {
        let mut sink = Collected::default();
        self.block_on(session.simple(sql, &mut sink))
            .map(|_| shown(&sink.0))
    }

    /// Runs a text that must not fail.
    pub fn rows(&self, session: &mut ClientSession, sql: &str) -> Vec<String> {
        self.run(session, sql)
            .unwrap_or_else(|refusal| panic!("{sql}: {refusal:?}"))
    }

    /// SQLSTATE, message, hint and position of a text that must fail.
    pub fn refused(&self, session: &mut ClientSession, sql: &str) -> Refusal {
        match self.run(session, sql) {
            Ok(rows) => panic!("{sql}: {rows:?}"),
            Err(refusal) => refusal,
        }
    }
}

#[derive(Default)]
pub struct Collected(pub Vec<u8>);

impl Sink for Collected {
    async fn chunk(&mut self, bytes: Vec<u8>) -> Result<(), Gone> {
        self.0.extend(bytes);
        Ok(())
    }
}

/// Type and body of each message.
pub fn messages(mut bytes: &[u8]) -> Vec<(char, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some(head) = header(bytes).expect("messages") {
        assert!(bytes.len() >= head.total, "messages are whole");
        found.push((char::from(head.tag), bytes[HEADER_BYTES..head.total].to_vec()));
        bytes = &bytes[head.total..];
    }
    assert!(bytes.is_empty(), "nothing stands behind the last message");
    found
}

/// Fields of a DataRow; `None` is NULL.
pub fn fields(mut body: &[u8]) -> Vec<Option<Vec<u8>>> {
    let count = u16::from_be_bytes([body[0], body[1]]);
    body = &body[2..];
    let mut fields = Vec::new();
    for _ in 0..count {
        let length = i32::from_be_bytes(body[..4].try_into().unwrap());
        body = &body[4..];
        if length < 0 {
            fields.push(None);
            continue;
        }
        fields.push(Some(body[..length as usize].to_vec()));
        body = &body[length as usize..];
    }
    assert!(body.is_empty());
    fields
}

/// Rows with `|` between their fields, names of columns after `#`, tags after `=`, parts of a COPY after `>`.
pub fn shown(bytes: &[u8]) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut lines = Vec::new();
    for (tag, body) in messages(bytes) {
        match tag {
            'T' => {}
            'D' => {
                let fields = fields(&body)
                    .into_iter()
                    .map(|field| field.map_or("NULL".to_owned(), |field| text(&field)));
                lines.push(fields.collect::<Vec<_>>().join("|"));
            }
            'C' => lines.push(format!("={}", text(&body[..body.len() - 1]))),
            'd' => lines.push(format!(">{}", text(&body).trim_end())),
            other => lines.push(other.to_string()),
        }
    }
    lines
}
