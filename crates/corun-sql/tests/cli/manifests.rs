//! The files for containers: they are read strictly, and the commands in them run as processes of this machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use crate::authority::Authority;
use crate::program::{corun, corun_in};
use crate::workers::Worker;

/// What a compose file may have here; a key that is not in this list is a mistake.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compose {
    services: BTreeMap<String, Service>,
    secrets: BTreeMap<String, Value>,
    volumes: BTreeMap<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Service {
    image: String,
    command: Vec<String>,
    entrypoint: Vec<String>,
    environment: BTreeMap<String, String>,
    ports: Vec<String>,
    volumes: Vec<String>,
    secrets: Vec<String>,
    depends_on: Vec<String>,
    profiles: Vec<String>,
    restart: Option<String>,
    stop_signal: Option<String>,
    stop_grace_period: Option<String>,
}

fn packaged(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging")
        .join(file);
    fs::read_to_string(path).expect(file)
}

/// What containers would have mounted: `data` with a table, `certificates` under these names, all for this machine.
fn mounted(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["data", "certificates"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    let copy = "copy (select * from orders) to 'data/orders.parquet'";
    let run = corun_in(folder.path(), &["sql", "--tpch", "0.01", "-c", copy], "");
    assert_eq!(run.code, 0, "{run:?}");

    let authority = tempfile::tempdir().expect("a folder");
    let files = Authority::new(authority.path(), "ours").files("localhost");
    let put = |from: &Path, name: &str| {
        fs::copy(from, folder.path().join("certificates").join(name)).expect("copied");
    };
    for name in names {
        put(&files.certificate, &format!("{name}.pem"));
        put(&files.certificate, &format!("{name}.crt"));
        put(&files.key, &format!("{name}.key"));
    }
    put(&files.authority, "ca.pem");
    put(&files.authority, "ca.crt");
    folder
}

/// An argument with what is mounted where this machine has it, and a port that is free.
fn here(argument: &str, folder: &Path) -> String {
    let folder = folder.to_str().expect("UTF-8");
    let argument = argument.replace("0.0.0.0:7600", "127.0.0.1:0");
    let at = |mounted: &str| format!("{folder}{mounted}");
    match argument.split_once('=') {
        Some((name, path)) if path.starts_with("/certificates/") => format!("{name}={}", at(path)),
        _ if argument.starts_with("/data") => at(&argument),
        _ => argument,
    }
}

/// Starts a worker with the command of a container.
fn start(command: &[String], folder: &Path) -> Worker {
    assert_eq!(command[..2], ["corun-sql", "worker"]);
    let (data, arguments) = command[2..].split_last().expect("a folder");
    let arguments: Vec<String> = arguments.iter().map(|argument| here(argument, folder)).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Worker::start_by(
        Command::new(crate::PROGRAM),
        &arguments,
        Path::new(&here(data, folder)),
    )
}

const COUNT: &str = "select count(*) as n from orders where o_orderkey > 0";

#[test]
fn the_compose_file_runs() {
    let compose: Compose = serde_norway::from_str(&packaged("compose.yaml")).expect("a compose file");
    for (name, service) in &compose.services {
        assert!(!service.image.is_empty(), "{name}");
        let known = |other: &String| compose.services.contains_key(other);
        assert!(service.depends_on.iter().all(known), "{name}");
        assert!(
            service
                .secrets
                .iter()
                .all(|secret| compose.secrets.contains_key(secret)),
            "{name}"
        );
        for volume in &service.volumes {
            let (source, _) = volume.split_once(':').expect("SOURCE:TARGET");
            assert!(
                source.starts_with("./") || compose.volumes.contains_key(source),
                "{name}: {volume}"
            );
        }
        // Beyond this machine only on purpose.
        assert!(
            service.ports.iter().all(|port| port.starts_with("127.0.0.1:")),
            "{name}"
        );
        // What a reader sees is used: a service runs for ever, or is started by hand.
        assert_eq!(service.restart.is_some(), service.profiles.is_empty(), "{name}");
    }
    assert_eq!(compose.services["pooler"].stop_signal.as_deref(), Some("SIGINT"));
    assert!(packaged("Containerfile").contains("STOPSIGNAL SIGINT"));
    assert!(compose.services["postgres"].environment["POSTGRES_PASSWORD_FILE"].ends_with("/password"));

    let folder = mounted(&["worker1", "worker2", "shell"]);
    let names = ["worker1", "worker2"];
    let workers = names.map(|name| {
        assert!(compose.services[name].stop_grace_period.is_some());
        start(&compose.services[name].command, folder.path())
    });
    let shell = &compose.services["shell"].entrypoint;
    assert_eq!(shell[..2], ["corun-sql", "sql"]);
    let mut arguments: Vec<String> = shell[1..]
        .iter()
        .map(|argument| here(argument, folder.path()))
        .collect();
    for (name, worker) in names.iter().zip(&workers) {
        let address = worker.address.replace("127.0.0.1", "localhost");
        for argument in &mut arguments {
            *argument = argument.replace(&format!("{name}:7600"), &address);
        }
    }
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let explain = format!("explain {COUNT}");
    let small = "distributed.file_scan_config_bytes_per_partition=1";
    arguments.extend(["--set", small, "--format", "csv", "-c", COUNT, "-c", &explain]);
    let run = corun(&arguments);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.out.contains("15000") && run.out.contains("ClusterExec: workers=2"),
        "{run:?}"
    );
}

#[test]
fn the_manifest_of_workers_runs() {
    let text = packaged("kubernetes/workers.yaml");
    let documents: Vec<Value> = serde_norway::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).expect("a manifest"))
        .collect();
    let [service, set] = documents.as_slice() else {
        panic!("{} documents", documents.len());
    };
    assert_eq!(service["kind"], "Service");
    assert_eq!(set["kind"], "StatefulSet");
    assert_eq!(set["spec"]["serviceName"], service["metadata"]["name"]);
    let pod = &set["spec"]["template"];
    assert_eq!(set["spec"]["selector"]["matchLabels"], pod["metadata"]["labels"]);
    assert_eq!(service["spec"]["selector"], pod["metadata"]["labels"]);
    let container = &pod["spec"]["containers"][0];
    let names = |list: &Value| -> Vec<String> {
        let list = list.as_array().expect("a list");
        list.iter()
            .map(|one| one["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(names(&container["volumeMounts"]), names(&pod["spec"]["volumes"]));
    assert_eq!(
        service["spec"]["ports"][0]["port"],
        container["ports"][0]["containerPort"]
    );

    let folder = mounted(&["tls"]);
    let command = Vec::<String>::deserialize(&container["command"]).expect("a command");
    let workers = [start(&command, folder.path()), start(&command, folder.path())];
    let addresses = workers.map(|worker| (worker.address.replace("127.0.0.1", "localhost"), worker));
    let at = |file: &str| {
        folder
            .path()
            .join("certificates")
            .join(file)
            .display()
            .to_string()
    };
    let workers = format!("{},{}", addresses[0].0, addresses[1].0);
    let (certificate, key, authority) = (at("tls.crt"), at("tls.key"), at("ca.crt"));
    let data = folder.path().join("data/orders.parquet").display().to_string();
    let run = corun(&[
        "sql",
        "--workers",
        &workers,
        "--tls-certificate",
        &certificate,
        "--tls-key",
        &key,
        "--tls-authority",
        &authority,
        &data,
        "--set",
        "distributed.file_scan_config_bytes_per_partition=1",
        "--format",
        "csv",
        "-c",
        COUNT,
    ]);
    assert_eq!((run.code, run.out.contains("15000")), (0, true), "{run:?}");
}
