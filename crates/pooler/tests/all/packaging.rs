//! What is shipped: the example configuration, the unit, the Debian packages, the tarballs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use corun_pooler::config::Config;

use crate::common::assert_contains;

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
        // These programs are scripts, which lintian does not expect; it checks the real ones.
        .env("LINTIAN", "no-lintian")
        .output()
        .expect(program)
}

fn text(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
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

/// The values of a key of the pooler's unit.
fn unit(key: &str) -> Vec<String> {
    values("packaging/corun-proxy.service", key)
}

/// The values of a key of a unit.
fn values(unit: &str, key: &str) -> Vec<String> {
    read(unit)
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
    assert_contains(&container, &format!("ENTRYPOINT [{}]", arguments.join(", ")));
    assert!(container.contains(&format!("STOPSIGNAL {}", unit("KillSignal")[0])));
}

#[test]
fn the_unit_of_the_sql_server_fits_the_rest() {
    let unit = |key: &str| values("packaging/corun-sql-serve.service", key);
    assert_eq!(
        unit("ExecStart"),
        ["/usr/bin/corun-sql serve --config /etc/corun-sql/serve.toml"]
    );
    assert_eq!(unit("Type"), ["notify"]);
    assert!(read("packaging/corun-sql.sysusers").contains(&format!("\nu {} ", unit("User")[0])));
    let shipped = read("packaging/corun-sql-serve.toml");
    assert_contains(&shipped, &format!("=/var/lib/{}\"", unit("StateDirectory")[0]));
    // It needs no right of its own: both units are as tight as can be but for what the pooler does to other processes.
    assert_eq!(unit("CapabilityBoundingSet"), [""]);
    for key in [
        "ProtectSystem",
        "NoNewPrivileges",
        "SystemCallFilter",
        "MemoryDenyWriteExecute",
    ] {
        assert_eq!(unit(key), values("packaging/corun-proxy.service", key), "{key}");
    }
}

#[test]
fn the_manifest_of_the_pooler_has_a_configuration_that_holds() {
    let text = read("packaging/kubernetes/pooler.yaml");
    let documents: Vec<serde_json::Value> = serde_norway::Deserializer::from_str(&text)
        .map(|document| serde::Deserialize::deserialize(document).expect("a manifest"))
        .collect();
    let kinds: Vec<&str> = documents.iter().filter_map(|one| one["kind"].as_str()).collect();
    assert_eq!(kinds, ["ConfigMap", "Service", "Deployment"]);
    let shipped = documents[0]["data"]["corun.toml"]
        .as_str()
        .expect("a configuration");
    let loaded = Config::parse(shipped, "corun.toml").expect("a configuration that holds");
    assert_eq!(loaded.warnings, []);
    let config = loaded.config;
    assert_eq!(config.proxy.listen_addr, ["*"]);
    let pod = &documents[2]["spec"]["template"];
    assert_eq!(
        documents[2]["spec"]["selector"]["matchLabels"],
        pod["metadata"]["labels"]
    );
    assert_eq!(documents[1]["spec"]["selector"], pod["metadata"]["labels"]);
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["ports"][0]["containerPort"], config.proxy.listen_port);
    assert_eq!(documents[1]["spec"]["ports"][0]["port"], config.proxy.listen_port);
    // Where files are mounted is where the command and the configuration look for them.
    let mounts = container["volumeMounts"].as_array().expect("mounts");
    let is_mounted = |file: &str| {
        mounts
            .iter()
            .any(|mount| file.starts_with(mount["mountPath"].as_str().expect("a path")))
    };
    let command = container["command"].to_string();
    assert!(command.contains("--config=/etc/corun/corun.toml") && is_mounted("/etc/corun/corun.toml"));
    assert!(
        shipped.contains("/etc/corun-secret/userlist.txt") && is_mounted("/etc/corun-secret/userlist.txt")
    );
}

#[test]
fn a_unit_that_waits_to_be_told_is_told() {
    // As soon as the program has the subcommand, it must say when it listens, or systemd gives up on it.
    let program = root().join("crates/corun/src");
    let has = |needle: &str| {
        let mut folders = vec![program.clone(), root().join("crates/pooler/src")];
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
    assert!(!subcommand || has("notify::"), "nobody calls corun_net::notify");
}

/// Three programs that do nothing but write man pages and completions; packages are made of such.
fn programs(folder: &Path) {
    const PROGRAM: &str = "#!/bin/sh\nname=$(basename \"$0\")\n[ \"$1\" = documents ] || exit 0\nmkdir -p \"$2\"\n\
                           for file in $name.1 $name-command.1 $name.bash _$name $name.fish; do echo $file >\"$2/$file\"; done\n";
    let text = folder.join("text");
    fs::write(&text, PROGRAM).expect("written");
    for name in NAMES {
        // Another process writes the program: a file that this process had open for writing may still be open in a child which another
        // test is just starting, and such a file cannot be run.
        let made = Command::new("install")
            .args(["-m", "700"])
            .args([&text, &folder.join(name)])
            .status();
        assert!(made.expect("install runs").success());
    }
    fs::remove_file(&text).expect("removed");
}

/// Modes and files of each Debian package.
const FILES_OF_EACH: &str = "\
-rwxr-xr-x usr/bin/NAME
-rw-r--r-- usr/share/man/man1/NAME.1.gz
-rw-r--r-- usr/share/man/man1/NAME-command.1.gz
-rw-r--r-- usr/share/bash-completion/completions/NAME
-rw-r--r-- usr/share/zsh/vendor-completions/_NAME
-rw-r--r-- usr/share/fish/vendor_completions.d/NAME.fish
-rw-r--r-- usr/share/doc/NAME/copyright
-rw-r--r-- usr/share/doc/NAME/changelog.Debian.gz";

/// What only the SQL server's package has.
const FILES_OF_CORUN_SQL: &str = "\
-rw-r--r-- lib/systemd/system/corun-sql-serve.service
-rw-r--r-- usr/lib/sysusers.d/corun-sql.conf
-rw-r----- etc/corun-sql/serve.toml
-rw-r----- etc/corun-sql/users.toml
-rw-r--r-- usr/share/doc/corun-sql/server.md
-rw-r--r-- usr/share/doc/corun-sql/examples/serve.toml
drwxr-xr-x etc/corun-sql/";

/// What only the pooler's package has.
const FILES_OF_CORUN: &str = "\
-rw-r--r-- lib/systemd/system/corun-proxy.service
-rw-r--r-- usr/lib/sysusers.d/corun.conf
-rw-r----- etc/corun/corun.toml
-rw-r----- etc/corun/userlist.txt
-rw-r--r-- usr/share/doc/corun/reference.md
-rw-r--r-- usr/share/doc/corun/examples/corun.toml
drwxr-xr-x etc/corun/";

/// Modes and files of each tarball.
const PARTS: &str = "\
-rwxr-xr-x bin/NAME
-rw-r--r-- man/NAME.1
-rw-r--r-- completions/NAME.bash
-rw-r--r-- completions/_NAME
-rw-r--r-- completions/NAME.fish
-rw-r--r-- LICENSE-APACHE
-rw-r--r-- LICENSE-MIT";

const NAMES: [&str; 3] = ["corun", "corun-sql", "corun-lab"];

fn script(name: &str) -> String {
    let path = root().join("scripts").join(name);
    path.to_str().expect("a path").to_owned()
}

/// The packages that a script makes, by its own list.
fn made(script: &str, programs: &Path, folder: &Path) -> Vec<PathBuf> {
    let list = text(&run(script, &[programs, folder]));
    list.lines().map(PathBuf::from).collect()
}

/// The packages of a script, in `packed` of a folder, of the programs in `built`; a second run gives the same bytes.
fn made_twice(script: &str) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (built, packed) = (folder.path().join("built"), folder.path().join("packed"));
    fs::create_dir(&built).expect("made");
    programs(&built);
    let packages = made(script, &built, &packed);
    let read = || packages.iter().map(|package| fs::read(package).expect("made"));
    let before: Vec<Vec<u8>> = read().collect();
    assert_eq!(made(script, &built, &packed), packages);
    assert!(read().eq(before), "made twice, a package differs");
    (folder, packages)
}

/// A script without programs says what to do.
fn assert_refuses_nothing(script: &str) {
    let refused = run(script, &[Path::new("nothing")]);
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.starts_with("error: "), "{error}");
    assert_contains(&error, "\nhint: ");
    let refused = run(script, &[Path::new("packaging"), Path::new("nothing")]);
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_contains(&error, "detail: packaging has no corun corun-sql corun-lab\n");
    assert!(!root().join("nothing").exists());
}

fn maintainer() -> String {
    let manifest = read("Cargo.toml");
    let authors = manifest
        .lines()
        .find_map(|line| line.strip_prefix("authors = [\""))
        .expect("authors");
    authors.trim_end_matches("\"]").to_owned()
}

fn file_name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

#[test]
fn the_debian_packages_have_what_they_say() {
    let script = script("package-deb");
    let (folder, packages) = made_twice(&script);
    let built = folder.path().join("built");

    for (name, package) in NAMES.iter().zip(&packages) {
        assert!(file_name(package).starts_with(&format!("{name}_{}-1_", env!("CARGO_PKG_VERSION"))));
        let control = text(&run("dpkg-deb", &[Path::new("-f"), package]));
        for line in [
            format!("Package: {name}"),
            format!("Maintainer: {}", maintainer()),
            "Depends: libc6".to_owned(),
            "Section: database".to_owned(),
        ] {
            assert!(
                control.lines().any(|found| found.starts_with(&line)),
                "{line}: {control}"
            );
        }
        let files = FILES_OF_EACH.replace("NAME", name);
        let more = match *name {
            "corun" => FILES_OF_CORUN,
            "corun-sql" => FILES_OF_CORUN_SQL,
            _ => "",
        };
        let listing = text(&run("dpkg-deb", &[Path::new("-c"), package]));
        for line in files.lines().chain(more.lines()) {
            let (mode, file) = line.split_once(' ').expect("a mode");
            let found = listing.lines().find(|line| line.ends_with(&format!(" ./{file}")));
            assert!(
                found.is_some_and(|line| line.starts_with(&format!("{mode} root/root"))),
                "{mode} {file}:\n{listing}"
            );
        }
        let parts = folder.path().join(name);
        text(&run("dpkg-deb", &[Path::new("-R"), package, &parts]));
        let program = |folder: &Path| fs::read(folder.join(name)).expect("there");
        assert_eq!(program(&parts.join("usr/bin")), program(&built));
        let sums = fs::read_to_string(parts.join("DEBIAN/md5sums")).expect("there");
        assert_contains(&sums, &format!("  usr/bin/{name}\n"));
        assert!(!sums.contains("DEBIAN"), "{sums}");
        let copyright =
            fs::read_to_string(parts.join("usr/share/doc").join(name).join("copyright")).expect("there");
        assert_contains(&copyright, "License: Apache-2.0 or Expat");
        assert_contains(&copyright, "WITHOUT WARRANTY");
        assert_eq!(parts.join("DEBIAN/conffiles").exists(), !more.is_empty());
    }

    for (name, expected) in [
        ("corun", ["/etc/corun/corun.toml", "/etc/corun/userlist.txt"]),
        (
            "corun-sql",
            ["/etc/corun-sql/serve.toml", "/etc/corun-sql/users.toml"],
        ),
    ] {
        let parts = folder.path().join(name);
        let conffiles = fs::read_to_string(parts.join("DEBIAN/conffiles")).expect("there");
        assert_eq!(conffiles.lines().collect::<Vec<_>>(), expected);
        for script in ["postinst", "prerm", "postrm"] {
            let script = parts.join("DEBIAN").join(script);
            text(&run("sh", &[Path::new("-n"), &script]));
        }
    }
    let parts = folder.path().join("corun");
    // Installed, it loads: the file it names is beside it.
    let loaded = Config::load(&parts.join("etc/corun/corun.toml")).expect("loads");
    assert_eq!(loaded.warnings, []);
    assert_refuses_nothing(&script);
}

#[test]
fn the_tarballs_have_what_they_say_and_their_sums() {
    let script = script("package-tar");
    let (folder, packages) = made_twice(&script);
    assert_eq!(packages.len(), NAMES.len());

    let sums = fs::read_to_string(folder.path().join("packed/SHA256SUMS")).expect("there");
    assert_eq!(sums.lines().count(), NAMES.len());
    for (name, package) in NAMES.iter().zip(&packages) {
        let file = file_name(package);
        assert!(sums.contains(&format!("  {file}\n")), "{sums}");
        let stem = file.strip_suffix(".tar.gz").expect("the ending");
        let start = format!("{name}-{}-", env!("CARGO_PKG_VERSION"));
        assert!(stem.starts_with(&start), "{stem}");
        let listing = text(&run("tar", &[Path::new("-tvzf"), package]));
        for line in PARTS.replace("NAME", name).lines() {
            let (mode, part) = line.split_once(' ').expect("a mode");
            let found = listing
                .lines()
                .find(|line| line.ends_with(&format!(" {stem}/{part}")));
            assert!(
                found.is_some_and(|line| line.starts_with(&format!("{mode} 0/0"))),
                "{part}:\n{listing}"
            );
        }
        for (unit, of) in [("corun-proxy", "corun"), ("corun-sql-serve", "corun-sql")] {
            let unit = format!("packaging/{unit}.service");
            assert_eq!(listing.contains(&unit), *name == of, "{unit}");
        }
    }
    assert_refuses_nothing(&script);
}
