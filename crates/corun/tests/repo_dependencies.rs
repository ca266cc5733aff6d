//! Dependencies point one way: the crates' manifests against the table of DESIGN ("arrows: may depend on"), which outside crates
//! each of ours may name, a reason beside every dependency, and one set of features for every selection of packages.

mod repo_common;

use std::collections::{BTreeMap, BTreeSet};

use repo_common::{cargo, read};
use serde_json::Value;

/// Who may depend on whom among our crates, in the design's words. A crate that is missing here may not exist.
const ALLOWED: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("cachesim", &["model"]),
    ("machine", &["model", "cachesim"]),
    ("exec", &["model"]),
    ("store", &["model", "exec"]),
    // Transactional workloads over any engine. Apart from `bench`, so that other engines' side of a comparison is built without SQL.
    ("oltp", &["model", "machine", "exec", "store"]),
    ("fusion", &["model", "exec", "store", "machine"]),
    ("proxy", &["model", "machine"]),
    (
        "bench",
        &[
            "model", "cachesim", "machine", "exec", "store", "oltp", "fusion", "proxy",
        ],
    ),
    (
        "corun",
        &[
            "model", "cachesim", "machine", "exec", "store", "oltp", "fusion", "proxy", "bench",
        ],
    ),
];

/// Outside crates that only some of ours may name, tests included: host engine, wire protocol, system calls.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("datafusion", &["fusion"]),
    ("pgwire", &["proxy"]),
    ("arrow", &["fusion", "bench", "corun"]),
    ("parquet", &["fusion", "bench", "corun"]),
    ("clap", &["corun"]),
    ("anyhow", &["corun"]),
];

/// All that the pure crate may use outside its tests.
const MODEL_MAY_USE: &[&str] = &["serde", "thiserror"];

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
        if from == "model" && kind != "dev" && !MODEL_MAY_USE.contains(&to.as_str()) {
            wrong.push(format!("model may not use {to} ({kind}); it is pure"));
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
        edge("exec", "machine", "normal"),
        edge("exec", "bench", "dev"),
        edge("machine", "exec", "normal"),
        edge("fusion", "bench", "dev"),
        edge("bench", "corun", "normal"),
        edge("bench", "datafusion", "dev"),
        edge("corun", "datafusion-common", "normal"),
        edge("exec", "arrow", "normal"),
        edge("model", "tokio", "normal"),
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
    assert!(violations(&[edge("fusion", "exec", "normal"), edge("model", "proptest", "dev")]).is_empty());
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
        names.contains("datafusion") && names.contains("model"),
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

/// DataFusion takes a quarter of an hour to compile. If `-p fusion`, `-p bench` and `-p corun`, with tests or without, turned on
/// different features of anything below it, each of those commands would compile it again. The workspace as a whole is no such
/// selection: the drivers in the proxy's tests want more of tokio, and the small crates are tested in another profile.
#[test]
fn every_selection_of_packages_shares_one_build_of_datafusion() {
    let reference = features_below_datafusion(&["-p", "fusion", "-p", "bench", "-p", "corun"]);
    let selections: &[&[&str]] = &[
        &["-p", "corun", "-e", "no-dev"],
        &["-p", "fusion", "-e", "no-dev"],
        &["-p", "fusion", "--features", "store"],
        &["-p", "bench", "-e", "no-dev"],
        &["-p", "corun"],
        &["-p", "fusion"],
        &["-p", "bench"],
    ];
    for selection in selections {
        let features = features_below_datafusion(selection);
        // What only the others have is compiled beside, for them.
        let differs: Vec<&String> = features.difference(&reference).collect();
        assert!(
            differs.is_empty(),
            "cargo {selection:?} would compile DataFusion again, because of {differs:#?}"
        );
    }
}

/// Programs that embed `fusion` get the store only when they ask for it.
#[test]
fn embedders_get_no_store_unless_they_ask() {
    let has_store = |features: &[&str]| {
        let tree = [
            "tree", "--prefix", "none", "--format", "{p}", "-e", "no-dev", "-p", "fusion",
        ];
        let packages = cargo(&[&tree[..], features].concat());
        assert!(packages.contains("datafusion "), "{packages}");
        packages.lines().any(|line| line.starts_with("store "))
    };
    assert!(!has_store(&[]));
    assert!(has_store(&["--features", "store"]));
}
