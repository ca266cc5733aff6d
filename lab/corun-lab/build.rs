//! Hands the commit to the program, so that reports and records can say what they measured.
//!
//! Runs again after a commit; without git (a source archive) the commit is "unknown".

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=CORUN_COMMIT={commit}");
    println!("cargo:rerun-if-changed=build.rs");
    // The log of HEAD grows with every commit and checkout; a repository without one only misses the rerun.
    if let Some(log) =
        git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| std::path::Path::new(log).exists())
    {
        println!("cargo:rerun-if-changed={log}");
    }
}
