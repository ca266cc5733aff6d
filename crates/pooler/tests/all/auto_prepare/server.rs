//! A PostgreSQL server of the test's own, and a client that speaks just enough of the protocol.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server in a folder of its own; killed when dropped.
pub struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    pub fn start() -> Server {
        let programs =
            std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed: see scripts/bootstrap");
        let mut versions: Vec<PathBuf> = programs.flatten().map(|entry| entry.path().join("bin")).collect();
        versions.sort();
        let programs = versions
            .pop()
            .expect("PostgreSQL is installed: see scripts/bootstrap");
        let folder = std::env::temp_dir().join(format!("corun-auto-prepare-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        run(Command::new("chmod").arg("777").arg(&folder));
        let data = folder.join("data");
        run(as_postgres(&programs.join("initdb"))
            .args([
                "-A",
                "trust",
                "-U",
                "postgres",
                "-E",
                "UTF8",
                "--locale=C",
                "-N",
                "-D",
            ])
            .arg(&data));
        let child = as_postgres(&programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-p", "5432", "-c"])
            .arg(format!("unix_socket_directories={}", folder.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let server = Server { child, folder };
        let since = Instant::now();
        while Client::try_connect(&server.folder).is_none() {
            assert!(
                since.elapsed() < Duration::from_secs(60),
                "the server does not answer"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    pub fn connect(&self) -> Client {
        Client::try_connect(&self.folder).expect("a connection")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // At once, without a checkpoint; the lock file has the server's own number also behind setpriv, which execs.
        let _ = Command::new("kill")
            .args(["-QUIT", &self.child.id().to_string()])
            .status();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A program of PostgreSQL's, which refuses to run as root; it goes when the test goes.
fn as_postgres(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    let id = Command::new("id").arg("-u").output().expect("id runs").stdout;
    if id.trim_ascii() == b"0" {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    command.arg("--pdeathsig=QUIT").arg(program).current_dir("/");
    command
}

fn run(command: &mut Command) {
    let output = command.output().expect("the program runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// What came back for one statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// OIDs of ParameterDescription.
    pub parameters: Vec<u32>,
    /// The body of RowDescription.
    pub description: Vec<u8>,
    /// Bodies of DataRow.
    pub rows: Vec<Vec<u8>>,
    pub tag: String,
    /// SQLSTATE, message, detail, hint.
    pub error: Option<Vec<String>>,
    /// Where in the text the error lies.
    pub position: Option<usize>,
}

pub struct Client(UnixStream);

impl Client {
    fn try_connect(folder: &Path) -> Option<Client> {
        let stream = UnixStream::connect(folder.join(".s.PGSQL.5432")).ok()?;
        let mut client = Client(stream);
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        body.extend_from_slice(b"user\0postgres\0database\0postgres\0\0");
        let mut message = (body.len() as u32 + 4).to_be_bytes().to_vec();
        message.extend(body);
        client.0.write_all(&message).ok()?;
        client.answer().error.is_none().then_some(client)
    }

    pub fn simple(&mut self, text: &str) -> Answer {
        self.send(&[message(b'Q', &[text.as_bytes(), b"\0"])]);
        self.answer()
    }

    /// Parse and Describe.
    pub fn prepare(&mut self, name: &str, text: &str, types: &[u32]) -> Answer {
        let mut body = [name.as_bytes(), b"\0", text.as_bytes(), b"\0"].concat();
        body.extend((types.len() as u16).to_be_bytes());
        types.iter().for_each(|oid| body.extend(oid.to_be_bytes()));
        let describe = message(b'D', &[b"S", name.as_bytes(), b"\0"]);
        self.send(&[message(b'P', &[&body]), describe, message(b'S', &[])]);
        self.answer()
    }

    /// Bind, Execute.
    pub fn execute(&mut self, name: &str, values: &[impl AsRef<[u8]>]) -> Answer {
        let mut body = [b"\0", name.as_bytes(), b"\0", &[0, 0]].concat();
        body.extend((values.len() as u16).to_be_bytes());
        for value in values {
            let value = value.as_ref();
            body.extend((value.len() as u32).to_be_bytes());
            body.extend(value);
        }
        body.extend([0, 0]);
        self.send(&[
            message(b'B', &[&body]),
            message(b'E', &[b"\0\0\0\0\0"]),
            message(b'S', &[]),
        ]);
        self.answer()
    }

    fn send(&mut self, messages: &[Vec<u8>]) {
        self.0.write_all(&messages.concat()).expect("the server listens");
    }

    /// Everything up to ReadyForQuery.
    fn answer(&mut self) -> Answer {
        let mut answer = Answer::default();
        loop {
            let mut head = [0; 5];
            if self.0.read_exact(&mut head).is_err() {
                answer.error = Some(vec!["the connection ended".to_string()]);
                return answer;
            }
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
            let mut body = vec![0; length];
            self.0.read_exact(&mut body).expect("a whole message");
            match head[0] {
                b'Z' => return answer,
                b'T' => answer.description = body,
                b'D' => answer.rows.push(body),
                b'C' => answer.tag = String::from_utf8_lossy(&body).into_owned(),
                b't' => {
                    let oid = |chunk: &[u8]| u32::from_be_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
                    answer.parameters = body[2..].chunks_exact(4).map(oid).collect();
                }
                b'E' => {
                    let field = |code: u8| {
                        let field = body
                            .split(|byte| *byte == 0)
                            .find(|field| field.first() == Some(&code));
                        String::from_utf8_lossy(field.map_or(&b""[..], |field| &field[1..])).into_owned()
                    };
                    answer.position = field(b'P').parse().ok();
                    answer.error = Some([b'C', b'M', b'D', b'H'].map(field).to_vec());
                }
                _ => {}
            }
        }
    }
}

fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut message = vec![kind];
    message.extend((body.len() as u32 + 4).to_be_bytes());
    message.extend(body);
    message
}
