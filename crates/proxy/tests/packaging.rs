//! What is shipped: the example configuration, the unit, the Debian package.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use proxy::config::Config;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).expect(file)
}

fn run(program: &str, arguments: &[&Path]) -> Output {
    Command::new(program)
        .args(arguments)
        .current_dir(root())
        .output()
        .expect(program)
}

fn text(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_shipped_configuration_passes_also_with_its_examples_turned_on() {
    let shipped = read("packaging/corun.toml");
    let loaded = Config::parse(&shipped, "corun.toml").expect("passes");
    assert_eq!(loaded.warnings, []);
    let any = loaded
        .config
        .effective_database("shop", "alice")
        .expect("every database");
    assert_eq!(any.hosts[0].to_string(), "/var/run/postgresql:5432");

    // A commented-out setting is a line that begins with `#` and no blank.
    let on: Vec<&str> = shipped
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with([' ', '#']) => setting,
            _ => line,
        })
        .collect();
    let loaded = Config::parse(&on.join("\n"), "corun.toml").expect("passes");
    assert_eq!(loaded.warnings, []);
    assert!(loaded.config.corun.prometheus_listen.is_some());
    assert_eq!(loaded.config.databases["shop"].replicas.len(), 2);
}

/// The values of a key of the unit.
fn unit(key: &str) -> Vec<String> {
    read("packaging/corun-proxy.service")
        .lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_unit_fits_the_rest() {
    let start = unit("ExecStart");
    assert_eq!(start, ["/usr/bin/corun proxy --config /etc/corun/corun.toml"]);
    assert!(unit("ExecReload")[0].ends_with("config check /etc/corun/corun.toml"));
    let user = unit("User");
    assert!(read("packaging/corun.sysusers").contains(&format!("\nu {} ", user[0])));
    // The socket's folder is the one systemd makes.
    let config = Config::parse(&read("packaging/corun.toml"), "x")
        .expect("passes")
        .config;
    assert_eq!(
        config.proxy.unix_socket_dir,
        format!("/run/{}", unit("RuntimeDirectory")[0])
    );
    let files: u32 = unit("LimitNOFILE")[0].parse().expect("a number");
    assert!(files > config.proxy.max_client_conn * 2);
    // Backends are other users' processes: no namespace may hide them, and the one capability for that is kept.
    assert!(unit("PrivateUsers").is_empty() && unit("ProtectProc").is_empty());
    assert_eq!(unit("AmbientCapabilities"), unit("CapabilityBoundingSet"));
    // The container runs the same.
    let container = read("packaging/Containerfile");
    let arguments: Vec<String> = start[0].split(' ').map(|part| format!("\"{part}\"")).collect();
    assert!(
        container.contains(&format!("ENTRYPOINT [{}]", arguments.join(", "))),
        "{container}"
    );
    assert!(container.contains(&format!("STOPSIGNAL {}", unit("KillSignal")[0])));
}

#[test]
fn a_unit_that_waits_to_be_told_is_told() {
    // As soon as the program has the subcommand, it must say when it listens, or systemd gives up on it.
    let program = root().join("crates/corun/src");
    let has = |needle: &str| {
        let mut folders = vec![program.clone(), root().join("crates/proxy/src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder").flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else if fs::read_to_string(entry.path()).is_ok_and(|source| source.contains(needle)) {
                    return true;
                }
            }
        }
        false
    };
    let subcommand = program.join("proxy.rs").exists() || program.join("proxy").exists();
    assert_eq!(unit("Type"), ["notify"]);
    assert!(!subcommand || has("notify::"), "nobody calls machine::notify");
}

#[test]
fn the_debian_package_has_what_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("corun");
    fs::write(&program, "#!/bin/sh\nexit 0\n").expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).expect("set");
    let script = root().join("scripts/package-deb");
    let script = script.to_str().expect("a path");

    let package = PathBuf::from(text(&run(script, &[&program, folder.path()])).trim());
    let name = package
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert!(
        name.starts_with(&format!("corun_{}_", env!("CARGO_PKG_VERSION"))),
        "{name}"
    );
    let bytes = fs::read(&package).expect("made");
    text(&run(script, &[&program, folder.path()]));
    assert!(
        fs::read(&package).expect("made") == bytes,
        "made twice, it differs"
    );

    let control = text(&run("dpkg-deb", &[Path::new("-f"), &package]));
    for line in ["Package: corun", "Depends: libc6", "Section: database"] {
        assert!(
            control.lines().any(|found| found.starts_with(line)),
            "{line}: {control}"
        );
    }
    let listing = text(&run("dpkg-deb", &[Path::new("-c"), &package]));
    for (mode, file) in [
        ("-rwxr-xr-x root/root", "./usr/bin/corun"),
        ("-rw-r--r-- root/root", "./lib/systemd/system/corun-proxy.service"),
        ("-rw-r--r-- root/root", "./usr/lib/sysusers.d/corun.conf"),
        ("-rw-r----- root/root", "./etc/corun/corun.toml"),
        ("-rw-r----- root/root", "./etc/corun/userlist.txt"),
        ("-rw-r--r-- root/root", "./usr/share/doc/corun/proxy-config.md"),
        ("-rw-r--r-- root/root", "./usr/share/doc/corun/copyright"),
        ("-rw-r--r-- root/root", "./usr/share/man/man1/corun.1.gz"),
        ("drwxr-xr-x root/root", "./etc/corun/"),
    ] {
        let found = listing.lines().find(|line| line.ends_with(&format!(" {file}")));
        assert!(
            found.is_some_and(|line| line.starts_with(mode)),
            "{mode} {file}:\n{listing}"
        );
    }

    let parts = folder.path().join("parts");
    text(&run("dpkg-deb", &[Path::new("-R"), &package, &parts]));
    let conffiles = fs::read_to_string(parts.join("DEBIAN/conffiles")).expect("there");
    assert_eq!(
        conffiles.lines().collect::<Vec<_>>(),
        ["/etc/corun/corun.toml", "/etc/corun/userlist.txt"]
    );
    for script in ["postinst", "prerm", "postrm"] {
        let script = parts.join("DEBIAN").join(script);
        text(&run("sh", &[Path::new("-n"), &script]));
    }
    assert_eq!(
        fs::read(parts.join("usr/bin/corun")).expect("there"),
        fs::read(&program).expect("there")
    );
    // Installed, it loads: the file it names is beside it.
    let loaded = Config::load(&parts.join("etc/corun/corun.toml")).expect("loads");
    assert_eq!(loaded.warnings, []);

    let refused = run(script, &[Path::new("nothing")]);
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        error.starts_with("error: ") && error.contains("\nhint: "),
        "{error}"
    );
}
