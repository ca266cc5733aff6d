//! `corun top`, `corun proxy preflight` and `corun proxy learn` as programs: a proxy that runs, one that does not, and what they answer. No database is
//! needed: the console is the proxy's own. What they find on real servers is tested where it is made, in the proxy crate.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{check_error, corun_in};

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// A proxy that runs until the end of the test.
struct Proxy {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl Proxy {
    /// Starts it with this way of asking clients.
    fn start(auth_type: &str) -> Proxy {
        // Another program may take the port between the choice and the start.
        let started = (0..5).find_map(|_| Proxy::try_start(auth_type));
        started.expect("the proxy listens")
    }

    fn try_start(auth_type: &str) -> Option<Proxy> {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        configure(folder.path(), port, free_port(), auth_type);
        let child = Command::new(crate::PROGRAM)
            .args(["proxy", "--config", "corun.toml"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut proxy = Proxy { child, folder, port };
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until && proxy.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            // Where nobody listens, a connection may find its own end, and keeps the proxy from the port.
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(socket) if socket.local_addr().ok() != socket.peer_addr().ok() => return Some(proxy),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        None
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A configuration in `folder`: the proxy at one port, its database at another.
fn configure(folder: &Path, port: u16, server: u16, auth_type: &str) {
    let text = format!(
        "[proxy]\nlisten_addr = \"127.0.0.1\"\nlisten_port = {port}\nunix_socket_dir = \"\"\nauth_type = \"{auth_type}\"\n\
         auth_file = \"users.txt\"\nadmin_users = [\"boss\"]\n[databases.shop]\nhost = \"127.0.0.1\"\nport = {server}\n\
         [corun]\nevent_loops = 2\n"
    );
    std::fs::write(folder.join("corun.toml"), text).expect("written");
    let users = folder.join("users.txt");
    std::fs::write(&users, "\"boss\" \"secret\"\n\"guest\" \"secret\"\n").expect("written");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o600)).expect("permissions");
}

/// The objects a program printed.
fn objects(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn one_look_at_a_proxy_as_text_and_as_json() {
    let proxy = Proxy::start("scram-sha-256");
    let folder = proxy.folder.path();
    let text = corun_in(folder, &["top", "--once", "--interval", "0.1"], "");
    assert_eq!((text.code, text.err.as_str()), (0, ""), "{text:?}");
    assert!(
        text.out
            .starts_with(concat!("corun ", env!("CARGO_PKG_VERSION"), "  127.0.0.1:")),
        "{text:?}"
    );
    assert!(text.out.contains("\nCores\nloop  "), "{text:?}");
    let dsn = format!("postgres://boss:secret@127.0.0.1:{}/corun", proxy.port);
    let json = corun_in(
        folder,
        &["top", "--dsn", &dsn, "--once", "--json", "--interval", "0.1"],
        "",
    );
    assert_eq!((json.code, json.err.as_str()), (0, ""), "{json:?}");
    let found = objects(&json.out);
    assert_eq!(found[0]["table"], "total");
    assert_eq!(found[0]["transactions_per_s"], 0.0);
    assert_eq!(found.iter().filter(|object| object["table"] == "core").count(), 2);
}

#[test]
fn top_ends_with_its_terminal() {
    let proxy = Proxy::start("trust");
    let dsn = format!("postgres://boss@127.0.0.1:{}/pgbouncer", proxy.port);
    let command = format!("exec {} top --dsn {dsn}", crate::PROGRAM);
    let mut terminal = Command::new("script")
        .args(["-qc", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a terminal");
    // It has drawn something.
    std::io::Read::read_exact(terminal.stdout.as_mut().expect("piped"), &mut [0; 200]).expect("a screen");
    let children = format!("/proc/{0}/task/{0}/children", terminal.id());
    let children = std::fs::read_to_string(children).expect("its children");
    let top = children.split_whitespace().next().expect("a child").to_owned();
    terminal.kill().expect("killed");
    terminal.wait().expect("it has ended");
    let until = Instant::now() + Duration::from_secs(60);
    let state = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    while state(&top).contains("(corun)") && !state(&top).contains(") Z ") {
        assert!(Instant::now() < until, "it goes on without a terminal");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn top_says_why_it_cannot_look() {
    let proxy = Proxy::start("scram-sha-256");
    let folder = proxy.folder.path();
    let dsn = |user: &str| format!("postgres://{user}@127.0.0.1:{}/corun", proxy.port);
    let wrong = corun_in(folder, &["top", "--once", "--dsn", &dsn("boss:hunter2")], "");
    check_error(&wrong, 1, "SASL authentication failed", "PGPASSWORD");
    assert!(!wrong.err.contains("hunter2"), "{wrong:?}");
    let guest = corun_in(folder, &["top", "--once", "--dsn", &dsn("guest:secret")], "");
    check_error(&guest, 1, "not allowed", "admin_users");
    let nobody = format!("postgres://boss@127.0.0.1:{}/corun", free_port());
    check_error(
        &corun_in(folder, &["top", "--once", "--dsn", &nobody], ""),
        1,
        "Connection refused",
        "is the pooler running",
    );
    check_error(&corun_in(folder, &["top"], ""), 2, "terminal", "--once");
    check_error(
        &corun_in(folder, &["top", "--once", "--dsn", "http://x"], ""),
        2,
        "postgres://",
        "postgres://USER@HOST",
    );
    check_error(&corun_in(folder, &["top", "--json"], ""), 2, "--once", "");
    check_error(
        &corun_in(folder, &["top", "--interval", "0"], ""),
        2,
        "above 0",
        "",
    );
    check_error(
        &corun_in(folder, &["top", "--once", "--config", "none.toml"], ""),
        1,
        "none.toml",
        "--config",
    );
}

#[test]
fn an_imported_file_is_new_and_only_its_owner_reads_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let ini = "[databases]\nshop = host=127.0.0.1 user=app password=hush\n[pgbouncer]\nauth_type = any\n";
    std::fs::write(folder.path().join("pgbouncer.ini"), ini).expect("written");
    let program = crate::PROGRAM;
    let command = format!("umask 000; exec {program} proxy import pgbouncer.ini --output corun.toml");
    let status = Command::new("sh")
        .args(["-c", &command])
        .current_dir(folder.path())
        .status();
    assert!(status.expect("it runs").success());
    let file = folder.path().join("corun.toml");
    let mode = std::fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).expect("read");
    assert!(text.contains("hush"), "{text}");
    std::fs::write(&file, "mine").expect("written");
    let arguments = ["proxy", "import", "pgbouncer.ini", "--output", "corun.toml"];
    let again = corun_in(folder.path(), &arguments, "");
    let problem = again.err.lines().find(|line| line.starts_with("error: "));
    assert_eq!(
        (again.code, problem),
        (1, Some("error: corun.toml is there already")),
        "{again:?}"
    );
    assert!(
        again.err.ends_with("hint: name another file, or remove it\n"),
        "{again:?}"
    );
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "mine");
}

#[test]
fn preflight_says_what_fails_and_ends_with_1() {
    let folder = tempfile::tempdir().expect("a folder");
    configure(folder.path(), free_port(), free_port(), "scram-sha-256");
    let run = corun_in(folder.path(), &["proxy", "preflight"], "");
    check_error(&run, 1, "1 failed", "");
    assert!(run.out.contains("\nfail  reachable    127.0.0.1:"), "{run:?}");
    let run = corun_in(
        folder.path(),
        &["proxy", "preflight", "--json", "--user", "boss"],
        "",
    );
    assert_eq!(run.code, 1);
    let found = objects(&run.out);
    let failed: Vec<_> = found.iter().filter(|object| object["level"] == "fail").collect();
    assert_eq!(failed.len(), 1, "{run:?}");
    assert_eq!(failed[0]["check"], "reachable");
    assert!(failed[0]["hint"].is_string());
    check_error(
        &corun_in(folder.path(), &["proxy", "preflight", "--timeout", "soon"], ""),
        2,
        "is not a number",
        "",
    );
}

/// A configuration whose server is the console of a proxy, and that has nothing but a secret to log in there with.
fn with_secret_only(proxy: &Proxy) -> tempfile::TempDir {
    use corun_wire::auth::scram::{ITERATIONS_DEFAULT, Verifier};
    let folder = tempfile::tempdir().expect("a folder");
    configure(folder.path(), free_port(), proxy.port, "scram-sha-256");
    let file = folder.path().join("corun.toml");
    let text = std::fs::read_to_string(&file).expect("read");
    let text = text.replace("[databases.shop]\n", "[databases.shop]\ndbname = \"pgbouncer\"\n");
    std::fs::write(&file, text.replace("admin_users = [\"boss\"]\n", "")).expect("written");
    let verifier = Verifier::derive(b"secret", b"salt", ITERATIONS_DEFAULT).to_secret_text();
    std::fs::write(
        folder.path().join("users.txt"),
        format!("\"boss\" \"{verifier}\"\n"),
    )
    .expect("written");
    folder
}

#[test]
fn where_files_have_a_secret_the_password_comes_from_the_environment() {
    let proxy = Proxy::start("scram-sha-256");
    let folder = with_secret_only(&proxy);
    let run = |command: &str, password: Option<&str>| -> String {
        let mut program = Command::new(crate::PROGRAM);
        program.args(["proxy", command]).current_dir(folder.path());
        program.env_remove("PGPASSWORD").stdin(Stdio::null());
        program.envs(password.map(|password| ("PGPASSWORD", password)));
        let output = program.output().expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    for command in ["preflight", "learn"] {
        let out = run(command, None);
        assert!(
            out.contains("No password is known to log in with: set PGPASSWORD"),
            "{out}"
        );
        let out = run(command, Some("another"));
        assert!(
            out.contains("The password given here is not this account's"),
            "{out}"
        );
    }
    let out = run("preflight", Some("secret"));
    let expected = "boss to database pgbouncer: scram-sha-256, with the password given here";
    assert!(out.contains(expected), "{out}");
    let out = run("learn", Some("secret"));
    assert!(!out.contains("PGPASSWORD") && !out.contains("--user"), "{out}");
}

#[test]
fn a_terminal_is_asked_for_the_password_and_does_not_show_it() {
    use std::io::{Read, Write};
    let proxy = Proxy::start("scram-sha-256");
    let folder = with_secret_only(&proxy);
    let command = format!("exec {} proxy preflight", crate::PROGRAM);
    let mut terminal = Command::new("script")
        .args(["-qc", &command, "/dev/null"])
        .current_dir(folder.path())
        .env_remove("PGPASSWORD")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a terminal");
    let mut out = terminal.stdout.take().expect("piped");
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains("Password of boss on the servers (Enter: none): ") {
        let mut byte = [0];
        out.read_exact(&mut byte).expect("it asks");
        shown.push(byte[0]);
    }
    let mut keys = terminal.stdin.take().expect("piped");
    keys.write_all(b"secrex\x7ft\r").expect("typed");
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    terminal.wait().expect("it has ended");
    assert!(rest.contains(", with the password given here"), "{rest}");
    assert!(
        !rest.contains("secrex") && rest.trim_start().starts_with("ok "),
        "{rest}"
    );
}

#[test]
fn learn_says_why_nothing_is_proposed() {
    let folder = tempfile::tempdir().expect("a folder");
    configure(folder.path(), free_port(), free_port(), "scram-sha-256");
    let before = std::fs::read_to_string(folder.path().join("corun.toml")).expect("read");
    let run = corun_in(folder.path(), &["proxy", "learn"], "");
    check_error(&run, 1, "no database responded", "");
    assert!(run.out.lines().all(|line| line.starts_with('#')), "{run:?}");
    assert!(run.out.contains("# shop: 127.0.0.1:"), "{run:?}");
    let json = corun_in(folder.path(), &["proxy", "learn", "--json", "--user", "boss"], "");
    let found = objects(&json.out);
    assert!(found.iter().all(|object| object["table"] == "remark"), "{json:?}");
    assert!(
        found.iter().any(|object| object["about"] == "console"),
        "{json:?}"
    );
    assert!(!json.out.contains("secret"), "{json:?}");
    let after = std::fs::read_to_string(folder.path().join("corun.toml")).expect("read");
    assert_eq!(before, after);
    check_error(
        &corun_in(folder.path(), &["proxy", "learn", "--workers", "0"], ""),
        2,
        "--workers",
        "",
    );
}
