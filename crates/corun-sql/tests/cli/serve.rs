//! `corun-sql serve` and `corun-sql user`: a real server, psql, and what goes wrong at the start.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::program::{check_error, corun_in};

/// How long anything here may take before it counts as hanging.
const LONG: Duration = Duration::from_secs(120);

/// A server that ends with its test.
pub struct Server {
    child: Child,
    /// Its first line.
    line: String,
    pub port: u16,
}

impl Server {
    pub fn start(folder: &Path, arguments: &[&str]) -> Server {
        let mut child = Command::new(crate::PROGRAM)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped"))
            .read_line(&mut line)
            .expect("a line");
        let port = line
            .strip_prefix("listening at 127.0.0.1:")
            .and_then(|rest| rest.split(':').next())
            .and_then(|port| port.parse().ok());
        let Some(port) = port else {
            let mut errors = String::new();
            let _ = child.stderr.take().expect("piped").read_to_string(&mut errors);
            panic!("{line}{errors}");
        };
        Server { child, line, port }
    }

    pub fn psql(&self, options: &str, statements: &[&str]) -> Output {
        let mut psql = Command::new("psql");
        psql.args(["-XAt", "-v", "ON_ERROR_STOP=1"]);
        for statement in statements {
            psql.arg("-c").arg(statement);
        }
        psql.arg(format!("host=127.0.0.1 port={} {options}", self.port));
        psql.env_clear().env("PATH", "/usr/bin:/bin:/usr/local/bin");
        psql.output().expect("psql is installed (scripts/bootstrap)")
    }

    pub fn printed(&self, options: &str, statements: &[&str]) -> String {
        let output = self.psql(options, statements);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{options} {statements:?}: {errors}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    pub fn failed(&self, options: &str, statements: &[&str]) -> String {
        let output = self.psql(options, statements);
        assert!(!output.status.success(), "{options} {statements:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Ends it by a signal; its exit code.
    fn end(mut self, signal: &str) -> Option<i32> {
        let sent = Command::new("kill")
            .args([format!("-{signal}"), self.child.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code();
            }
            assert!(begin.elapsed() < LONG, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder `data` with a table of 3,000 orders, and one in a schema of its own.
pub fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("data/hr")).expect("folders");
    std::fs::write(
        folder.path().join("data/hr/people.csv"),
        "id,name\n1,Ann\n2,Bob\n",
    )
    .expect("written");
    let rows = "copy (select value as o_id, 'c' || (value % 7) as o_customer from generate_series(1, 3000) as s(value) order by 1) to 'data/orders.parquet'";
    let run = corun_in(folder.path(), &["sql", "-c", rows], "");
    assert_eq!(run.code, 0, "{run:?}");
    folder
}

#[test]
fn a_folder_is_a_database() {
    let folder = folder();
    let server = Server::start(folder.path(), &["data"]);
    assert!(
        server
            .line
            .ends_with(&format!(": psql -h 127.0.0.1 -p {} data\n", server.port)),
        "{}",
        server.line
    );
    let on = "dbname=data user=ann";
    assert_eq!(server.printed(on, &["select count(*) from orders"]), "3000\n");
    assert_eq!(
        server.printed(on, &["select 1; select name from hr.people order by id"]),
        "1\nAnn\nBob\n"
    );
    let tables = server.printed(on, &["\\dt"]);
    assert!(tables.contains("public|orders|table"), "{tables}");
    let columns = server.printed(on, &["\\d orders"]);
    assert!(columns.contains("o_id|bigint"), "{columns}");
    let copied = server.printed(
        on,
        &["\\copy (select o_id from orders where o_id < 3 order by 1) to stdout"],
    );
    assert_eq!(copied, "1\n2\n");
    let told = server.failed(on, &["select nothing from orders"]);
    assert!(told.contains("ERROR:") && told.contains("nothing"), "{told}");
    let told = server.failed("dbname=elsewhere user=ann", &["select 1"]);
    assert!(told.contains("elsewhere"), "{told}");
    assert_eq!(server.end("TERM"), Some(0));
}

#[test]
fn a_client_that_is_killed_ends_its_query() {
    let folder = folder();
    let server = Server::start(folder.path(), &["data"]);
    let on = "dbname=data user=ann";
    let others = || {
        let others = "select count(*) from pg_stat_activity where pid <> pg_backend_pid()";
        server.printed(on, &[others]).trim().to_owned()
    };
    let wait = |count: &str| {
        let begin = Instant::now();
        while others() != count {
            assert!(begin.elapsed() < LONG, "there are {} others", others());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let long = "select count(distinct x) from generate_series(1, 20000000000) t(x)";
    let mut psql = Command::new("psql")
        .args(["-X", "-c", long])
        .arg(format!("host=127.0.0.1 port={} {on}", server.port))
        .stdout(Stdio::null())
        .spawn()
        .expect("psql is installed (scripts/bootstrap)");
    wait("1");
    psql.kill().expect("it runs");
    psql.wait().expect("it ends");
    wait("0");
    assert_eq!(server.end("TERM"), Some(0));
}

#[test]
fn users_and_what_they_may_read() {
    let folder = folder();
    for (name, superuser) in [("ann", false), ("root", true)] {
        let mut arguments = vec!["user", "add", name, "--users", "users.toml"];
        arguments.extend(superuser.then_some("--superuser"));
        let run = corun_in(folder.path(), &arguments, "secret\n");
        assert_eq!(run.code, 0, "{run:?}");
    }
    let path = folder.path().join("users.toml");
    let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&path).expect("read");
    assert!(!text.contains("\"secret\""), "a verifier, not the password");
    let text = text.replacen("[user.ann]", "[user.ann]\nroles = [\"people\"]", 1)
        + "\n[role.people]\nread = [\"hr.*\"]\n";
    std::fs::write(&path, text).expect("written");
    let server = Server::start(folder.path(), &["data", "--users", "users.toml"]);
    let ann = "dbname=data user=ann password=secret";
    assert_eq!(server.printed(ann, &["select count(*) from hr.people"]), "2\n");
    let told = server.failed(ann, &["select count(*) from orders"]);
    assert!(told.contains("permission denied"), "{told}");
    let root = "dbname=data user=root password=secret";
    assert_eq!(server.printed(root, &["select count(*) from orders"]), "3000\n");
    let told = server.failed("dbname=data user=ann password=wrong", &["select 1"]);
    assert!(told.contains("SASL authentication failed"), "{told}");
    assert_eq!(server.end("INT"), Some(0));
}

#[test]
fn a_file_of_settings() {
    let folder = folder();
    let file = folder.path().join("serve.toml");
    std::fs::write(
        &file,
        "folders = [\"shop=data\"]\nmemory_limit = \"1GiB\"\npolicy = \"off\"\n",
    )
    .expect("written");
    let server = Server::start(folder.path(), &["--config", "serve.toml"]);
    assert_eq!(
        server.printed("dbname=shop user=ann", &["select count(*) from orders"]),
        "3000\n"
    );
    drop(server);
    std::fs::write(&file, "folders = [\"data\"]\nmemory_limits = 1\n").expect("written");
    let run = corun_in(folder.path(), &["serve", "--config", "serve.toml"], "");
    check_error(
        &run,
        2,
        "serve.toml: line 2: unknown key \"memory_limits\"",
        "did you mean \"memory_limit\"?",
    );
}

#[test]
fn what_is_refused_at_the_start() {
    let folder = folder();
    let run = |arguments: &[&str]| corun_in(folder.path(), &[&["serve"], arguments].concat(), "");
    check_error(
        &run(&[]),
        2,
        "there is no folder to show",
        "corun-sql serve FOLDER",
    );
    check_error(&run(&["none"]), 2, "cannot read the folder none", "");
    check_error(
        &run(&["data", "--listen", "0.0.0.0:0"]),
        2,
        "others reach 0.0.0.0:0, and there is no file of users",
        "--users",
    );
    std::fs::write(folder.path().join("users.txt"), "\"ann\" \"secret\"\n").expect("written");
    check_error(
        &run(&["data", "--listen", "0.0.0.0:0", "--users", "users.txt"]),
        2,
        "there is no TLS",
        "--allow-plaintext",
    );
    check_error(&run(&["data", "--policy", "best"]), 2, "best", "");
    check_error(
        &run(&["data", "--users", "none.toml"]),
        1,
        "cannot read the file of users none.toml",
        "",
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    check_error(
        &run(&["data", "--listen", &address]),
        1,
        "cannot listen at",
        "--listen",
    );
}
