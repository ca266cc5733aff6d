//! Tells the program the versions of libraries that do not tell them themselves: Turso's, redb's and fjall's from the lock file, RocksDB's from its header.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    println!("cargo::rerun-if-env-changed=ROCKSDB_INCLUDE_DIR");
    let lock = std::fs::read_to_string("Cargo.lock").unwrap_or_default();
    let version = |name: &str| {
        lock.split("[[package]]")
            .find(|package| package.contains(&format!("name = \"{name}\"\n")))
            .and_then(|package| package.split("version = \"").nth(1)?.split('"').next())
            .unwrap_or("unknown")
    };
    println!("cargo::rustc-env=OLTP_PEERS_TURSO={}", version("turso_core"));
    println!("cargo::rustc-env=OLTP_PEERS_REDB={}", version("redb"));
    println!("cargo::rustc-env=OLTP_PEERS_FJALL={}", version("fjall"));

    let include = std::env::var("ROCKSDB_INCLUDE_DIR").unwrap_or_default();
    let header = std::fs::read_to_string(Path::new(&include).join("rocksdb/version.h")).unwrap_or_default();
    let number = |name: &str| {
        let line = header
            .lines()
            .find(|line| line.starts_with(&format!("#define ROCKSDB_{name} ")))?;
        line.split_whitespace().nth(2).map(str::to_string)
    };
    let version: Option<Vec<_>> = ["MAJOR", "MINOR", "PATCH"].map(number).into_iter().collect();
    println!(
        "cargo::rustc-env=OLTP_PEERS_ROCKSDB={}",
        version.map_or("unknown".to_string(), |v| v.join("."))
    );
}
