//! Passwords of accounts on servers: from PGPASSWORD, or asked on the terminal, where they are not shown.

use std::io::{self, IsTerminal};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use corun_cli::out;

/// Exit code of a program that was interrupted, as shells have it.
const INTERRUPTED: i32 = 130;

/// PGPASSWORD, if it is set.
pub fn from_environment() -> Option<String> {
    let password = std::env::var("PGPASSWORD").ok();
    password.filter(|password| !password.is_empty())
}

/// The password of a user; `None` where PGPASSWORD is not set and there is no terminal, or nothing was typed.
pub fn of(user: &str) -> Option<String> {
    from_environment().or_else(|| ask(user).ok().flatten())
}

fn ask(user: &str) -> io::Result<Option<String>> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(None);
    }
    enable_raw_mode()?;
    out::prompt(&format!("Password of {user} on the servers (Enter: none): "));
    let typed = read();
    disable_raw_mode()?;
    out::note("");
    match typed? {
        Typed::Text(password) => Ok(Some(password).filter(|password| !password.is_empty())),
        Typed::Interrupt => std::process::exit(INTERRUPTED),
    }
}

enum Typed {
    Text(String),
    Interrupt,
}

/// Keys up to Enter.
fn read() -> io::Result<Typed> {
    let mut text = String::new();
    loop {
        let Event::Key(KeyEvent {
            code,
            modifiers,
            kind,
            ..
        }) = event::read()?
        else {
            continue;
        };
        if kind == KeyEventKind::Release {
            continue;
        }
        match (code, modifiers.contains(KeyModifiers::CONTROL)) {
            (KeyCode::Enter, _) | (KeyCode::Char('j'), true) => return Ok(Typed::Text(text)),
            (KeyCode::Char('c' | 'd'), true) => return Ok(Typed::Interrupt),
            (KeyCode::Char('u'), true) => text.clear(),
            (KeyCode::Char(letter), false) => text.push(letter),
            (KeyCode::Backspace, _) => drop(text.pop()),
            _ => {}
        }
    }
}
