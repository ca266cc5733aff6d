//! [`CountedBackend`]: PostgreSQL's stand-alone backend run over a list of statements, natively or under one of valgrind's tools.
//!
//! Statements come from a file and answers go to one, so that nobody has to talk to it. It reads them with `-j`: a statement ends with a
//! semicolon and an empty line, and may itself have lines and comments.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{PEER, PROMPT, stand_alone};
use crate::fixture::account::{Account, passable};
use crate::fixture::cluster::Programs;
use crate::fixture::guarded::last_line;
use crate::fixture::{self, write};
use lab_core::error::BenchError;

/// Longest native run, and longest run under valgrind unless another time is given.
const WITHIN: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Largest output of valgrind that is read.
const OUTPUT_MAX: u64 = 1 << 30;
/// Settings besides [`super::QUIET`]: buffers that hold the simulated tables; errors are written.
const SETTINGS: &[&str] = &[
    "shared_buffers=128MB",
    "max_connections=20",
    "logging_collector=off",
    "log_destination=stderr",
    "log_min_messages=error",
];

/// What runs, and where its files go.
pub struct CountedBackend {
    programs: Programs,
    data: PathBuf,
    account: Option<Account>,
    /// Removed when dropped.
    folder: TempDir,
    within: Duration,
}

impl CountedBackend {
    /// One on a data folder that no server runs on; its own files go below `scratch` and are removed with it.
    ///
    /// # Errors
    /// When a server runs there, there is no such folder, or files cannot be made.
    pub fn new(
        programs: &Programs,
        data: &Path,
        account: Option<Account>,
        scratch: &Path,
    ) -> Result<CountedBackend, BenchError> {
        let folder = tempfile::Builder::new()
            .prefix("simulated")
            .tempdir_in(scratch)
            .map_err(|source| {
                BenchError::io(
                    format!("could not make a folder in {}", scratch.display()),
                    source,
                )
            })?;
        if let Some(account) = account {
            passable(scratch)?;
            account.own(folder.path())?;
        }
        let backend = CountedBackend {
            programs: programs.clone(),
            data: data.to_path_buf(),
            account,
            folder,
            within: WITHIN,
        };
        backend.at_rest()?;
        Ok(backend)
    }

    /// The same with another longest time of a run.
    #[must_use]
    pub fn within(self, within: Duration) -> CountedBackend {
        CountedBackend { within, ..self }
    }

    /// Runs statements as they are: their answers.
    ///
    /// # Errors
    /// When the backend cannot be started, ends badly, takes too long, or a statement fails: the server's words.
    pub fn native(&self, statements: &[String]) -> Result<Vec<String>, BenchError> {
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        self.run(&[], statements, WITHIN)
    }

    /// Runs statements under a tool of valgrind: the tool's output file and the answers.
    ///
    /// # Errors
    /// As [`CountedBackend::native`], and when the tool writes nothing.
    pub fn under(
        &self,
        tool: &str,
        arguments: &[String],
        statements: &[String],
    ) -> Result<(String, Vec<String>), BenchError> {
        let output = self.folder.path().join("output");
        let file =
            |option: &str, name: &str| format!("--{option}={}", self.folder.path().join(name).display());
        let mut tool_arguments = vec![
            format!("--tool={tool}"),
            // Nobody debugs it; without this it makes files where others may not write.
            "--vgdb=no".to_owned(),
            file("log-file", "valgrind"),
            file(&format!("{tool}-out-file"), "output"),
        ];
        tool_arguments.extend_from_slice(arguments);
        let answers = self.run(&tool_arguments, statements, self.within)?;
        let io = |source| BenchError::io(format!("could not read what {tool} counted"), source);
        let bytes = std::fs::metadata(&output).map_err(io)?.len();
        if bytes > OUTPUT_MAX {
            return Err(failed(format!(
                "{tool} wrote {bytes} bytes, more than {OUTPUT_MAX}"
            )));
        }
        let text = std::fs::read(&output).map_err(io)?;
        std::fs::remove_file(&output).map_err(io)?;
        // Names of functions may be anything.
        Ok((String::from_utf8_lossy(&text).into_owned(), answers))
    }

    fn run(
        &self,
        tool: &[String],
        statements: &[String],
        within: Duration,
    ) -> Result<Vec<String>, BenchError> {
        self.at_rest()?;
        let file = |name: &str| self.folder.path().join(name);
        let io = |source| BenchError::io("could not write the stand-alone backend's files", source);
        write(&file("statements"), script(statements))?;
        let mut child = stand_alone(&self.programs, &self.data, self.account, tool, &["-j"], SETTINGS)
            .current_dir(self.folder.path())
            .stdin(File::open(file("statements")).map_err(io)?)
            .stdout(Stdio::from(File::create(file("answers")).map_err(io)?))
            .stderr(Stdio::from(File::create(file("words")).map_err(io)?))
            .spawn()
            .map_err(|error| failed(format!("could not be started: {error}")))?;
        let end = Instant::now() + within;
        let status = loop {
            let status = child
                .try_wait()
                .map_err(|error| failed(format!("could not be waited for: {error}")))?;
            if let Some(status) = status {
                break status;
            }
            if Instant::now() > end {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!(
                    "took longer than {} s; simulate fewer executions or a smaller table",
                    within.as_secs()
                )));
            }
            std::thread::sleep(LOOK_EVERY);
        };
        let words = std::fs::read(file("words")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        let error = words.lines().find(|line| {
            ["ERROR:", "FATAL:", "PANIC:"]
                .iter()
                .any(|word| line.contains(word))
        });
        if let Some(line) = error {
            return Err(failed(line.trim()));
        }
        if !status.success() {
            let said = [last_line(&file("words")), last_line(&file("valgrind"))];
            let said: Vec<String> = said.into_iter().filter(|line| !line.is_empty()).collect();
            return Err(failed(format!("ended with {status}: {}", said.join("; "))));
        }
        let answers = std::fs::read(file("answers")).map_err(io)?;
        let answers = answers_of(&String::from_utf8_lossy(&answers));
        if answers.len() != statements.len() {
            return Err(failed(format!(
                "gave {} answers to {} statements",
                answers.len(),
                statements.len()
            )));
        }
        Ok(answers)
    }

    /// That no server runs on the data folder. The stand-alone backend would refuse too, after seconds under valgrind and in its own words.
    fn at_rest(&self) -> Result<(), BenchError> {
        let io = |source| BenchError::io(format!("could not look into {}", self.data.display()), source);
        // The folder is its account's own, so only that it is one is asked.
        if !std::fs::metadata(&self.data).map_err(io)?.is_dir() {
            return Err(failed(format!("{} is no data folder", self.data.display())));
        }
        let Ok(lock) = std::fs::read_to_string(self.data.join("postmaster.pid")) else {
            return Ok(());
        };
        let process = lock
            .lines()
            .next()
            .unwrap_or_default()
            .trim()
            .trim_start_matches('-');
        let runs = process
            .parse::<u32>()
            .is_ok_and(|process| Path::new(&format!("/proc/{process}")).exists());
        match runs {
            false => Ok(()),
            true => Err(failed(format!(
                "a server runs on {} (process {process}): stop it first",
                self.data.display()
            ))),
        }
    }
}

fn failed(reason: impl Into<String>) -> BenchError {
    fixture::failed(PEER, reason)
}

/// Statements as `-j` wants them: each followed by a semicolon and an empty line, and none within.
fn script(statements: &[String]) -> String {
    statements.iter().fold(String::new(), |mut script, statement| {
        let lines = statement.trim().trim_end_matches(';').lines();
        for line in lines.filter(|line| !line.trim().is_empty()) {
            script.push_str(line.trim_end());
            script.push('\n');
        }
        // On a line of its own: the last one may end with a comment.
        script.push_str(";\n\n");
        script
    })
}

/// The answers between prompts; before the first one it says its name, and the last one waits in vain.
fn answers_of(output: &str) -> Vec<String> {
    let mut answers: Vec<String> = output.split(PROMPT).skip(1).map(str::to_owned).collect();
    answers.pop();
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_with_an_empty_line_and_have_none() {
        let statements = [
            "select 1".to_owned(),
            "select 2 -- two\n\n  from t ;\n".to_owned(),
        ];
        assert_eq!(
            script(&statements),
            "select 1\n;\n\nselect 2 -- two\n  from t\n;\n\n"
        );
    }

    #[test]
    fn answers_stand_between_prompts() {
        let output =
            "\nPostgreSQL stand-alone backend 15.0\nbackend> \t 1: a = \"1\"\n\t----\nbackend> backend> ";
        assert_eq!(answers_of(output), ["\t 1: a = \"1\"\n\t----\n", ""]);
        assert!(answers_of("").is_empty());
    }

    #[test]
    fn a_data_folder_in_use_or_missing_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let programs = Programs::find().expect("PostgreSQL");
        let backend = |data: &Path| CountedBackend::new(&programs, data, None, folder.path()).map(drop);
        assert!(backend(&data).is_err());
        std::fs::create_dir(&data).expect("a folder");
        assert!(backend(&data).is_ok());
        std::fs::write(
            data.join("postmaster.pid"),
            format!("{}\n/data\n", std::process::id()),
        )
        .expect("a file");
        let error = backend(&data).expect_err("in use").to_string();
        assert!(error.contains("stop it first"), "{error}");
        // What a killed server leaves behind is no server.
        std::fs::write(data.join("postmaster.pid"), "999999999\n").expect("a file");
        assert!(backend(&data).is_ok());
    }
}
