//! `corun-sql user add`: users of `corun-sql serve`.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use corun_cli::failure::Usage;
use corun_cli::out;
use corun_server::users::add_user;

/// Longest password read.
const PASSWORD_BYTES_MAX: u64 = 1024;

/// Arguments of `corun-sql user`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  printf %s 'a long password' | corun-sql user add ann --users users.toml
  PGPASSWORD=... corun-sql user add admin --users users.toml --superuser")]
pub struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// Add a user to a file, with a SCRAM verifier of the password in PGPASSWORD or on standard input.
    #[command(after_help = "Examples:
  printf %s 'a long password' | corun-sql user add ann --users users.toml
  PGPASSWORD=... corun-sql user add admin --users users.toml --superuser

The file is made if it is not there, for its owner only. A user may read what its roles may:
  [role.analyst]
  read = [\"sales.*\", \"public.orders\"]
  [user.ann]
  secret = \"SCRAM-SHA-256$...\"
  roles = [\"analyst\"]")]
    Add {
        /// The user.
        #[arg(value_name = "NAME")]
        name: String,

        /// The file of users.
        #[arg(long, value_name = "FILE")]
        users: PathBuf,

        /// The user may read every table, and every file that statements may name.
        #[arg(long)]
        superuser: bool,
    },
}

/// Runs `corun-sql user`.
///
/// # Errors
/// No password, a file that is not right or cannot be written.
pub fn run(args: &UserArgs) -> Result<()> {
    let UserCommand::Add {
        name,
        users,
        superuser,
    } = &args.command;
    let password = password()?;
    let random = ring::rand::SystemRandom::new();
    add_user(users, name, password.as_bytes(), *superuser, &random)
        .map_err(|error| super::data_error(&error))?;
    out::line(&format!("user {name} is in {}", users.display()))?;
    Ok(())
}

fn password() -> Result<String> {
    if let Ok(password) = std::env::var("PGPASSWORD")
        && !password.is_empty()
    {
        return Ok(password);
    }
    if std::io::stdin().is_terminal() {
        bail!(Usage(
            "there is no password\nhint: give it in PGPASSWORD or on standard input, where it is not shown"
                .to_owned()
        ));
    }
    let mut text = String::new();
    let mut input = std::io::stdin().take(PASSWORD_BYTES_MAX);
    input
        .read_to_string(&mut text)
        .context("cannot read the password from stdin")?;
    let password = text.lines().next().unwrap_or_default();
    if password.is_empty() {
        bail!(Usage("the password is empty".to_owned()));
    }
    Ok(password.to_owned())
}
