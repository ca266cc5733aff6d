//! `corun top`: a running server in a terminal: a pooler's rates, pools, event loops, cohorts, hosts; a SQL server's sessions, queue, classes.
//!
//! ```text
//!  pooler: console ─────► Frame  ─┐
//!                                 ├─► View ─► text, or Screen (pure) ─► draw ◄── keys
//!  server: status.json ─► Moment ─┘
//! ```
//!
//! A thread asks ([`watcher`]) while the terminal is drawn; with `--once` two looks are printed.

mod draw;
mod grid;
mod pooler;
mod screen;
mod server;
mod text;
mod units;
mod view;
mod watcher;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use corun_pooler::ConfigFiles;
use corun_pooler::watch::Address;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGHUP, SIGTERM};

use crate::proxy::default_config;
use corun_cli::failure::Usage;
use pooler::Pooler;
use screen::{Next, Screen};
use server::Server;
use watcher::{News, Source};

/// Longest time for the login and for each answer of the console.
const LIMIT: Duration = Duration::from_secs(5);
/// Longest time a key or a sample waits until it is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Time that a signal gives the screen to end.
const END: Duration = Duration::from_secs(1);

/// Watch a running pooler, or a running `corun-sql serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  corun top                                      the pooler that corun.toml of this folder configures
  corun top --config /etc/corun/corun.toml
  corun top --dsn postgres://postgres@127.0.0.1:6432/corun --interval 5
  corun top --dsn 'postgres://postgres@/corun?host=/run/corun'
  corun top --url http://127.0.0.1:9100          corun-sql serve --metrics 127.0.0.1:9100: sessions, queue, classes, caches
  corun top --once                               one look as text, for scripts
  corun top --once --json | jq 'select(.table == \"total\").transactions_per_s'

The pooler's user must be in admin_users or stats_users; PGPASSWORD has its password where the configuration has not. Rates are those of
the last interval. Keys: tab chooses a table, left and right the column it is sorted by, r the other way round, up and down
scroll, p pauses the display, q quits.")]
pub struct TopArgs {
    /// Where the console is: postgres://USER[:PASSWORD]@HOST:PORT/corun, or ?host=/FOLDER for a Unix socket.
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    dsn: Option<String>,

    /// Where `corun-sql serve` shows its metrics: http://HOST:PORT.
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "dsn"])]
    url: Option<String>,

    /// The pooler's configuration, for its address and the first of its admin_users [default: corun.toml].
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Seconds between two looks, from 0.1 to 3600.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,

    /// Print one look as text and end; it takes one interval.
    #[arg(long)]
    once: bool,

    /// One JSON object per line.
    #[arg(long, requires = "once")]
    json: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = corun_cli::arguments::positive_number(text)?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("must be from 0.1 to 3600".to_owned())
    }
}

/// Runs it.
///
/// # Errors
/// No console there, no terminal here.
pub fn run(args: TopArgs) -> anyhow::Result<()> {
    let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if !args.once && !terminal {
        return Err(Usage(
            "`corun top` draws on a terminal, and this is none\nhint: `corun top --once` prints one look as text, with --json for programs"
                .to_owned(),
        )
        .into());
    }
    if let Some(url) = &args.url {
        let mut server = Server::at(url).map_err(|error| Usage(error.to_string()))?;
        let first = server.moment()?;
        if !args.once {
            return watch(&args, server, first.view());
        }
        std::thread::sleep(args.interval);
        let moment = server.moment()?;
        return match args.json {
            true => server::json::print(&server.place(), &moment),
            false => text::print(&server.place(), &moment.view()),
        };
    }
    let mut pooler = Pooler::connect(address(&args)?)?;
    let first = pooler.frame()?;
    if !args.once {
        return watch(&args, pooler, first.view());
    }
    std::thread::sleep(args.interval);
    let frame = pooler.frame()?;
    match args.json {
        true => pooler::json::print(&frame),
        false => text::print(&pooler.place(), &frame.view()),
    }
}

fn address(args: &TopArgs) -> anyhow::Result<Address> {
    let variable = |name| {
        std::env::var(name)
            .ok()
            .filter(|value: &String| !value.is_empty())
    };
    let mut address = match &args.dsn {
        Some(dsn) => {
            let user = variable("PGUSER").or_else(|| variable("USER"));
            Address::parse(dsn, user.as_deref().unwrap_or("postgres"))
                .map_err(|error| Usage(error.to_string()))?
        }
        None => {
            let file = args.config.clone().unwrap_or_else(default_config);
            let (files, _) = ConfigFiles::load(&file)?;
            Address::of(&files)?
        }
    };
    if address.credentials.password.is_none() {
        address.set_password(variable("PGPASSWORD").as_deref());
    }
    Ok(address)
}

fn watch(args: &TopArgs, source: impl Source, first: view::View) -> anyhow::Result<()> {
    let mut screen = Screen::new(&source.place(), args.interval);
    screen.news(News::View(Box::new(first)));
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended)).context("cannot wait for signals")?;
    }
    end_without_terminal(&ended)?;
    let news = watcher::start(source, args.interval)?;
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let result = turn(&mut terminal, &mut screen, &news, &ended);
    ratatui::restore();
    result
}

/// Ends the program if a signal does not: reading keys from a terminal that is gone never returns.
fn end_without_terminal(ended: &Arc<AtomicBool>) -> anyhow::Result<()> {
    let ended = Arc::clone(ended);
    let wait = move || {
        while !ended.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
        std::thread::sleep(END);
        ratatui::restore();
        std::process::exit(1);
    };
    let thread = std::thread::Builder::new().name("corun-top-end".to_owned());
    thread.spawn(wait).context("cannot start a thread")?;
    Ok(())
}

/// Draws, and looks for keys and news, until a key or a signal ends it.
fn turn(
    terminal: &mut ratatui::DefaultTerminal,
    screen: &mut Screen,
    news: &std::sync::mpsc::Receiver<News>,
    ended: &AtomicBool,
) -> anyhow::Result<()> {
    terminal.draw(|frame| draw::draw(frame, screen))?;
    while !ended.load(Ordering::Relaxed) {
        let mut changed = false;
        if event::poll(LOOK)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match screen.key(key) {
                    Next::Quit => return Ok(()),
                    Next::Draw => changed = true,
                    Next::Nothing => {}
                },
                Event::Resize(..) => changed = true,
                _ => {}
            }
        }
        while let Ok(news) = news.try_recv() {
            screen.news(news);
            changed = true;
        }
        if changed {
            terminal.draw(|frame| draw::draw(frame, screen))?;
        }
    }
    Ok(())
}
