//! Dependencies point one way: the crates' manifests against the table of DESIGN ("arrows: may depend on"), which outside crates
//! each of ours may name, a reason beside every dependency, and one set of features for every selection of packages.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{cargo, read};
use serde_json::Value;

/// Who may depend on whom among our crates, by their folders' names, in the design's order. A crate that is missing here may not exist.
const ALLOWED: &[(&str, &[&str])] = &[
    ("corun-model", &[]),
    ("corun-topology", &["corun-model"]),
    ("corun-cachesim", &["corun-model"]),
    ("corun-resctrl", &["corun-model", "corun-topology"]),
    ("corun-net", &["corun-model", "corun-topology"]),
    ("corun-wire", &["corun-net"]),
    (
        "corun-machine",
        &["corun-model", "corun-topology", "corun-cachesim"],
    ),
    ("corun-exec", &["corun-model"]),
    ("corun-store-derive", &[]),
    (
        "corun-store",
        &["corun-model", "corun-exec", "corun-store-derive"],
    ),
    (
        "corun-datafusion",
        &[
            "corun-model",
            "corun-topology",
            "corun-resctrl",
            "corun-exec",
            "corun-store",
        ],
    ),
    ("corun-distributed", &["corun-datafusion"]),
    (
        "corun-server",
        &[
            "corun-model",
            "corun-net",
            "corun-datafusion",
            "corun-store",
            "corun-topology",
            "corun-wire",
        ],
    ),
    ("corun-python", &["corun-datafusion", "corun-topology"]),
    (
        "corun-pooler",
        &[
            "corun-model",
            "corun-topology",
            "corun-resctrl",
            "corun-net",
            "corun-wire",
        ],
    ),
    ("corun-cli", &["corun-model", "corun-topology"]),
    (
        "corun",
        &[
            "corun-model",
            "corun-topology",
            "corun-resctrl",
            "corun-net",
            // Tests make verifiers.
            "corun-wire",
            "corun-pooler",
            "corun-cli",
        ],
    ),
    // Below the lab's core, which it does not need: `corun-sql` generates tables with it, and other engines' side of a comparison is built
    // from it without SQL.
    (
        "corun-workloads",
        &["corun-model", "corun-topology", "corun-exec", "corun-store"],
    ),
    (
        "corun-sql",
        &[
            "corun-model",
            "corun-topology",
            // The allocator.
            "corun-exec",
            "corun-store",
            // Telling systemd.
            "corun-net",
            "corun-datafusion",
            "corun-distributed",
            "corun-server",
            "corun-workloads",
            "corun-cli",
        ],
    ),
    (
        "lab-core",
        &["corun-model", "corun-topology", "corun-machine", "corun-cli"],
    ),
    ("lab-engine", LAB),
    ("lab-cpu", LAB),
    ("lab-postgres", LAB),
    ("corun-lab", LAB),
];

/// What the lab's subjects and its program may use.
const LAB: &[&str] = &[
    "corun-model",
    "corun-topology",
    "corun-cachesim",
    "corun-resctrl",
    "corun-net",
    "corun-wire",
    "corun-machine",
    "corun-exec",
    "corun-store",
    "corun-datafusion",
    "corun-distributed",
    "corun-server",
    "corun-pooler",
    "corun-cli",
    "corun-workloads",
    "lab-core",
    "lab-engine",
    "lab-cpu",
    "lab-postgres",
];

/// Outside crates that only some of ours may name, tests included: host engine, wire protocol, system calls.
const ONLY_IN: &[(&str, &[&str])] = &[
    (
        "datafusion",
        &[
            "corun-datafusion",
            "corun-distributed",
            "corun-python",
            "corun-server",
        ],
    ),
    ("datafusion-ffi", &["corun-python"]),
    ("pyo3", &["corun-python"]),
    ("datafusion-distributed", &["corun-distributed"]),
    ("pgwire", &["corun-wire"]),
    ("pg_query", &["corun-pooler"]),
    (
        "arrow",
        &[
            "corun-datafusion",
            "corun-python",
            "corun-server",
            "corun-sql",
            "corun-workloads",
            "lab-engine",
            "lab-postgres",
        ],
    ),
    (
        "parquet",
        &[
            "corun-datafusion",
            "corun-server",
            "corun-workloads",
            "lab-engine",
        ],
    ),
    (
        "clap",
        &[
            "corun-cli",
            "corun",
            "corun-sql",
            "corun-lab",
            // A suite's arguments are its own.
            "lab-core",
            "lab-cpu",
            "lab-engine",
            "lab-postgres",
        ],
    ),
    ("anyhow", &["corun-cli", "corun", "corun-sql", "corun-lab"]),
];

/// All that the pure crate may use outside its tests.
const MODEL_MAY_USE: &[&str] = &["serde", "thiserror"];

/// Crates that `cargo publish` takes: each of their dependencies of ours is one, too.
const PUBLISHED: &[&str] = &[
    "corun-model",
    "corun-topology",
    "corun-resctrl",
    "corun-net",
    "corun-wire",
    "corun-exec",
    "corun-store-derive",
    "corun-store",
    "corun-datafusion",
    "corun-distributed",
    "corun-server",
    "corun-pooler",
    "corun-cli",
    "corun-workloads",
    "corun",
    "corun-sql",
];

/// The selections of packages that the Makefile and the scripts compile in the release profile, with DataFusion in each.
const SELECTIONS: [&[&str]; 3] = [
    // make demo
    &[
        "-p",
        "corun-lab",
        "--no-default-features",
        "--features",
        "engine",
        "-e",
        "no-dev",
    ],
    // make build
    &[
        "-p",
        "corun",
        "-p",
        "corun-sql",
        "-p",
        "corun-lab",
        "-e",
        "no-dev",
    ],
    // make test; the largest
    &[
        "-p",
        "corun-datafusion",
        "-p",
        "corun-distributed",
        "-p",
        "corun-server",
        "-p",
        "corun-workloads",
        "-p",
        "corun-sql",
        "-p",
        "lab-engine",
        "-p",
        "lab-cpu",
        "-p",
        "lab-postgres",
        "-p",
        "corun-lab",
        "-p",
        "corun",
        "-p",
        "corun-python",
    ],
];

/// One `[dependencies]`-like entry of a member.
struct Edge {
    from: String,
    to: String,
    kind: String,
}

fn edges() -> Vec<Edge> {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"]))
        .expect("cargo metadata prints JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut edges = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            // `kind` is null for `[dependencies]`.
            let kind = dependency["kind"].as_str().unwrap_or("normal").to_owned();
            edges.push(Edge {
                from: text(&package["name"]),
                to: text(&dependency["name"]),
                kind,
            });
        }
    }
    assert!(
        edges.len() > 20,
        "cargo metadata listed {} dependencies; the test would not see anything",
        edges.len()
    );
    edges
}

/// What is wrong with these edges, one line each.
fn violations(edges: &[Edge]) -> Vec<String> {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut wrong = Vec::new();
    for Edge { from, to, kind } in edges {
        let Some(may) = allowed.get(from.as_str()) else {
            wrong.push(format!("{from} is not a crate of the design"));
            continue;
        };
        if allowed.contains_key(to.as_str()) && !may.contains(&to.as_str()) {
            wrong.push(format!("{from} may not depend on {to} ({kind})"));
        }
        for (outside, only_in) in ONLY_IN {
            // `datafusion` stands for `datafusion-common` and the like too.
            let named = to == outside || to.starts_with(&format!("{outside}-"));
            if named && !only_in.contains(&from.as_str()) {
                wrong.push(format!("{from} may not name {to} ({kind}); only {only_in:?} may"));
            }
        }
        if from == "corun-model" && kind != "dev" && !MODEL_MAY_USE.contains(&to.as_str()) {
            wrong.push(format!("corun-model may not use {to} ({kind}); it is pure"));
        }
    }
    wrong
}

#[test]
fn crates_depend_in_the_design_s_direction() {
    let wrong = violations(&edges());
    assert!(wrong.is_empty(), "against DESIGN.md:\n{}", wrong.join("\n"));
}

#[test]
fn the_check_sees_wrong_directions() {
    let edge = |from: &str, to: &str, kind: &str| Edge {
        from: from.into(),
        to: to.into(),
        kind: kind.into(),
    };
    let wrong = [
        edge("corun-exec", "corun-machine", "normal"),
        edge("corun-exec", "lab-core", "dev"),
        edge("corun-topology", "corun-machine", "normal"),
        edge("corun-datafusion", "lab-engine", "dev"),
        edge("corun-pooler", "corun-store", "normal"),
        edge("lab-engine", "datafusion", "dev"),
        edge("corun-sql", "datafusion-common", "normal"),
        edge("corun-exec", "arrow", "normal"),
        edge("corun-model", "tokio", "normal"),
        edge("helpers", "serde", "normal"),
    ];
    for edge in wrong {
        let found = violations(std::slice::from_ref(&edge));
        assert_eq!(
            found.len(),
            1,
            "{} -> {} ({}): {found:?}",
            edge.from,
            edge.to,
            edge.kind
        );
    }
    let fine = [
        edge("corun-datafusion", "corun-exec", "normal"),
        edge("corun-model", "proptest", "dev"),
    ];
    assert!(violations(&fine).is_empty());
}

#[test]
fn every_workspace_dependency_has_a_reason_and_a_user() {
    let manifest = read("Cargo.toml");
    let start = manifest
        .find("[workspace.dependencies]\n")
        .expect("the table exists");
    let mut reason = false;
    let mut names = BTreeSet::new();
    let mut wrong = Vec::new();
    // Depth of the brackets of an entry that spans lines.
    let mut depth = 0isize;
    for line in manifest[start..].lines().skip(1) {
        if depth == 0 {
            if line.starts_with('[') {
                break;
            }
            match line.trim() {
                "" => reason = false,
                comment if comment.starts_with('#') => reason = true,
                entry => {
                    let name = entry.split('=').next().unwrap_or_default().trim().to_owned();
                    if !reason {
                        wrong.push(format!("{name}: no comment above says why it is there"));
                    }
                    names.insert(name);
                }
            }
        }
        depth += line
            .chars()
            .map(|c| isize::from("[{".contains(c)) - isize::from("]}".contains(c)))
            .sum::<isize>();
    }
    assert!(
        names.contains("datafusion") && names.contains("corun-model"),
        "the table was not read: {names:?}"
    );
    let used: BTreeSet<String> = edges().into_iter().map(|edge| edge.to).collect();
    wrong.extend(
        names
            .difference(&used)
            .map(|name| format!("{name}: no crate uses it")),
    );
    assert!(wrong.is_empty(), "workspace dependencies:\n{}", wrong.join("\n"));
}

/// Features of each package that DataFusion is built from, for one selection of packages.
fn features_below_datafusion(selection: &[&str]) -> BTreeSet<String> {
    let tree = |arguments: &[&str]| {
        let mut all = vec!["tree", "--prefix", "none", "--format", "{p}|{f}"];
        all.extend(arguments);
        cargo(&all)
            .lines()
            .map(|line| line.trim_end_matches(" (*)").to_owned())
            .collect::<BTreeSet<String>>()
    };
    let name = |line: &str| line.split('|').next().unwrap_or_default().to_owned();
    let below: BTreeSet<String> = tree(&["-p", "datafusion", "-e", "no-dev"])
        .iter()
        .map(|line| name(line))
        .collect();
    assert!(
        below.len() > 100,
        "cargo tree listed {} packages below datafusion",
        below.len()
    );
    tree(selection)
        .into_iter()
        .filter(|line| below.contains(&name(line)))
        .collect()
}

/// DataFusion takes most of the build's time. If `make demo`, `make build` and `make test` turned on different features of anything
/// below it, each of them would compile it again. Other selections may: a published crate names no feature for our own build's sake.
#[test]
fn the_fixed_selections_share_one_build_of_datafusion() {
    let [demo, build, test] = SELECTIONS.map(features_below_datafusion);
    for (name, smaller, larger) in [("demo", &demo, &build), ("build", &build, &test)] {
        // What only the larger one has is compiled beside, for other packages.
        let differs: Vec<&String> = smaller.difference(larger).collect();
        assert!(
            differs.is_empty(),
            "after `make {name}` DataFusion would be compiled again, because of {differs:#?}"
        );
    }
}

#[test]
fn the_makefile_uses_the_fixed_selections() {
    let makefile = read("Makefile");
    let script = read("scripts/test");
    for (selection, text) in SELECTIONS.iter().zip([&makefile, &makefile, &script]) {
        let packages: Vec<&str> = selection
            .iter()
            .copied()
            .take_while(|word| *word != "-e")
            .collect();
        let line = packages.join(" ");
        assert!(text.contains(&line), "no line has `{line}`");
    }
}

/// Packages that a selection compiles.
fn packages(selection: &[&str]) -> BTreeSet<String> {
    let tree = ["tree", "--prefix", "none", "--format", "{p}", "-e", "no-dev"];
    let lines = cargo(&[&tree[..], selection].concat());
    let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    lines.lines().map(first).collect()
}

#[test]
fn the_pooler_s_program_compiles_no_sql_engine_and_no_lab() {
    let packages = packages(&["-p", "corun"]);
    assert!(
        packages.contains("pg_query") && packages.contains("corun-pooler"),
        "{packages:?}"
    );
    let foreign = |name: &&String| {
        [
            "datafusion",
            "arrow",
            "parquet",
            "lab-",
            "corun-datafusion",
            "corun-machine",
            "corun-store",
        ]
        .iter()
        .any(|start| name.starts_with(start))
    };
    let found: Vec<&String> = packages.iter().filter(foreign).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn the_demo_compiles_nothing_of_the_pooler() {
    let packages = packages(&["-p", "corun-lab", "--no-default-features", "--features", "engine"]);
    assert!(packages.contains("datafusion"), "{packages:?}");
    // The protocol, its sockets and TLS are in it, for the server and the workers' connections; the pooler is not.
    for name in ["pg_query", "corun-pooler", "lab-postgres"] {
        assert!(!packages.contains(name), "{name}");
    }
}

/// Programs that embed `corun-datafusion` get the store and the coordinator only when they ask for them, and tools of the lab never.
#[test]
fn embedders_get_only_what_they_ask_for() {
    let has = |features: &[&str], name: &str| {
        let packages = packages(&[&["-p", "corun-datafusion"][..], features].concat());
        assert!(packages.contains("datafusion"), "{packages:?}");
        assert!(!packages.contains("corun-machine") && !packages.contains("corun-net"));
        packages.contains(name)
    };
    assert!(!has(&[], "corun-store") && has(&["--features", "store"], "corun-store"));
    assert!(!has(&[], "corun-resctrl") && has(&["--features", "coordinator"], "corun-resctrl"));
}

#[test]
fn published_crates_depend_on_published_crates() {
    let edges = edges();
    assert!(
        PUBLISHED
            .iter()
            .all(|name| ALLOWED.iter().any(|(known, _)| known == name))
    );
    let wrong: Vec<String> = edges
        .iter()
        .filter(|edge| edge.kind != "dev" && PUBLISHED.contains(&edge.from.as_str()))
        .filter(|edge| {
            edge.to.starts_with("lab-")
                || (edge.to.starts_with("corun") && !PUBLISHED.contains(&edge.to.as_str()))
        })
        .map(|edge| format!("{} -> {}", edge.from, edge.to))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Names that a lock file has below `dependencies` of a package of a folder (one without a source), without versions.
fn locked(lock: &str, package: &str) -> Option<BTreeSet<String>> {
    let named = format!("name = \"{package}\"\n");
    let found = lock
        .split("[[package]]\n")
        .find(|found| found.starts_with(&named) && !found.contains("\nsource = "))?;
    let listed = found
        .split_once("dependencies = [\n")
        .map_or("", |(_, listed)| listed);
    let names = listed.lines().take_while(|line| *line != "]");
    let first_word = |line: &str| {
        line.trim_matches([' ', '"', ','])
            .split(' ')
            .next()
            .map(str::to_owned)
    };
    Some(names.filter_map(first_word).collect())
}

#[test]
fn lock_files_of_other_workspaces_know_what_our_crates_depend_on() {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"]))
        .expect("cargo metadata prints JSON");
    let mut seen = 0;
    for file in [
        "fuzz/Cargo.lock",
        "peers/oltp/Cargo.lock",
        "peers/steps-sqlite/Cargo.lock",
    ] {
        let lock = read(file);
        for package in metadata["packages"].as_array().expect("packages") {
            let name = package["name"].as_str().expect("a name");
            let Some(locked) = locked(&lock, name) else {
                continue;
            };
            for dependency in package["dependencies"].as_array().expect("dependencies") {
                let is_always = dependency["kind"] != "dev" && dependency["optional"] == false;
                let wanted = dependency["name"].as_str().expect("a name");
                assert!(
                    !is_always || locked.contains(wanted),
                    "{file}: {name} depends on {wanted} now; run `cargo metadata` in its folder"
                );
                seen += usize::from(is_always);
            }
        }
    }
    assert!(seen > 20, "{seen} dependencies only: the test saw nothing");
}
