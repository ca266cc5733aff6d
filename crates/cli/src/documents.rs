//! Man pages and shell completions, made from a program's command line.
//!
//! Each program has the hidden command `documents FOLDER`, whose arguments are [`DocumentsArgs`]; packages are built with it. [`write`] makes
//! one page for each visible command (`corun.1`, `corun-proxy.1`, `corun-proxy-import.1`) and one completion file for each shell. Text that
//! no argument has, such as signals and files, comes in as [`Section`]s.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Shells that get a completion file.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// The title in front of the examples in a command's help.
const EXAMPLES: &str = "Examples:";

/// A section of one man page beside those that the command line fills.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The page, such as `corun-proxy`.
    pub page: &'static str,
    /// The heading, in capitals.
    pub title: &'static str,
    /// Terms and what they mean; an item without a term is a paragraph.
    pub items: &'static [(&'static str, &'static str)],
}

/// Write man pages and shell completions into a folder.
#[derive(Debug, clap::Args)]
pub struct DocumentsArgs {
    /// The folder; it is made if it is missing.
    folder: PathBuf,
}

/// Runs the command `documents` of the program that has this command line.
///
/// # Errors
/// When the folder cannot be made or written to.
pub fn run(args: &DocumentsArgs, command: Command, sections: &[Section]) -> anyhow::Result<()> {
    let context = || format!("cannot write documents into {}", args.folder.display());
    anyhow::Context::with_context(write(command, sections, &args.folder), context)
}

/// Writes the man page of each visible command, and the program's completions, into a folder. The same command line gives the same bytes.
///
/// # Errors
/// When the folder cannot be made or written to.
///
/// # Panics
/// If a section names a page that no command has.
pub fn write(command: Command, sections: &[Section], folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut visible = visible(&command);
    let name = visible.get_name().to_owned();
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut visible, &name, folder)?;
    }

    let mut command = command.disable_help_subcommand(true);
    command.build();
    let source = format!("{name} {}", command.get_version().unwrap_or_default());
    let mut pages = Vec::new();
    write_pages(&command, None, &source, sections, folder, &mut pages)?;
    for section in sections {
        assert!(
            pages.iter().any(|page| page == section.page),
            "no command has the page {}",
            section.page
        );
    }
    Ok(())
}

/// The visible commands whose help has no examples: each program's test wants none.
pub fn without_examples(program: &Command) -> Vec<&str> {
    let has_examples = |command: &&Command| {
        let help = command.get_after_help().map(ToString::to_string);
        help.is_some_and(|help| help.contains(EXAMPLES))
    };
    let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
    visible
        .filter(|command| !has_examples(command))
        .map(Command::get_name)
        .collect()
}

/// A copy without hidden commands, which completions would otherwise offer.
fn visible(command: &Command) -> Command {
    let subcommands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let mut copy = Command::new(kept(command.get_name()))
        .disable_help_subcommand(true)
        .args(command.get_arguments().cloned())
        .groups(command.get_groups().cloned())
        .subcommands(subcommands.map(visible));
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        copy = copy.version(kept(version));
    }
    copy
}

/// clap takes names that live as long as the program, which ends soon after this.
fn kept(text: &str) -> &'static str {
    text.to_owned().leak()
}

/// The page of a command and those of its subcommands; `pages` collects their names.
fn write_pages(
    command: &Command,
    parent: Option<&str>,
    source: &str,
    sections: &[Section],
    folder: &Path,
    pages: &mut Vec<String>,
) -> io::Result<()> {
    let page = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut text = Vec::new();
    render(command, page, parent, source, sections, &mut text)?;
    fs::write(folder.join(format!("{page}.1")), text)?;
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_pages(subcommand, Some(page), source, sections, folder, pages)?;
    }
    pages.push(page.to_owned());
    Ok(())
}

fn render(
    command: &Command,
    page: &str,
    parent: Option<&str>,
    source: &str,
    sections: &[Section],
    text: &mut Vec<u8>,
) -> io::Result<()> {
    let mut roff = Roff::new();
    // No date: an empty argument must be quoted, or the next one takes its place.
    roff.control("TH", [page.to_uppercase().as_str(), "1", "\"\"", source, "corun"]);
    roff.to_writer(text)?;
    let man = Man::new(command.clone());
    man.render_name_section(text)?;
    man.render_synopsis_section(text)?;
    man.render_description_section(text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(text)?;
    }
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        man.render_subcommands_section(text)?;
    }

    let mut roff = Roff::new();
    for section in sections.iter().filter(|section| section.page == page) {
        add_section(&mut roff, section);
    }
    if let Some(help) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        add_help(&mut roff, &help.to_string());
    }
    if let Some(parent) = parent {
        roff.control("SH", ["SEE ALSO"]);
        roff.text([bold(parent), roman("(1)")]);
    }
    roff.to_writer(text)
}

fn add_section(roff: &mut Roff, section: &Section) {
    roff.control("SH", [section.title]);
    for (term, meaning) in section.items {
        if term.is_empty() {
            roff.control("PP", []);
        } else {
            roff.control("TP", []);
            roff.text([bold(*term)]);
        }
        roff.text([roman(*meaning)]);
    }
}

/// The text below a command's help: examples keep their lines, other paragraphs become notes.
fn add_help(roff: &mut Roff, help: &str) {
    let (examples, notes): (Vec<&str>, Vec<&str>) = help
        .split("\n\n")
        .partition(|paragraph| paragraph.trim_start().starts_with(EXAMPLES));
    if !notes.is_empty() {
        roff.control("SH", ["NOTES"]);
    }
    for note in notes {
        roff.control("PP", []);
        roff.text([roman(note.trim())]);
    }
    for example in examples {
        roff.control("SH", ["EXAMPLES"]);
        roff.control("nf", []);
        for line in example.trim_start().lines().skip(1) {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        roff.control("fi", []);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, CommandFactory, Parser};

    /// Serve tea.
    #[derive(Parser)]
    #[allow(dead_code, reason = "only its declaration is used")]
    #[command(
        name = "kettle",
        version = "1.2.3",
        after_help = "Examples:\n  kettle pour --cups 2   two cups\n  .leading dot\n\nExit codes: 0 ok."
    )]
    struct Kettle {
        #[command(subcommand)]
        command: KettleCommand,
    }

    #[derive(clap::Subcommand)]
    #[allow(dead_code, reason = "only its declaration is used")]
    enum KettleCommand {
        /// Pour tea into cups.
        Pour(PourArgs),
        /// Write documents.
        #[command(hide = true)]
        Documents(DocumentsArgs),
    }

    #[derive(clap::Args)]
    #[allow(dead_code, reason = "only its declaration is used")]
    struct PourArgs {
        /// How many cups.
        #[arg(long, conflicts_with = "pot")]
        cups: Option<u32>,
        /// The whole pot.
        #[arg(long)]
        pot: bool,
    }

    const SECTIONS: [Section; 1] = [Section {
        page: "kettle-pour",
        title: "SIGNALS",
        items: &[("SIGINT", "Ends when the cup is full."), ("", "No others.")],
    }];

    fn written(command: Command, sections: &[Section]) -> (tempfile::TempDir, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        write(command, sections, &folder.path().join("made")).expect("written");
        let mut names: Vec<String> = fs::read_dir(folder.path().join("made"))
            .expect("there")
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        (folder, names)
    }

    #[test]
    fn each_visible_command_has_a_page_and_each_shell_a_file() {
        let (folder, names) = written(Kettle::command(), &SECTIONS);
        assert_eq!(
            names,
            [
                "_kettle",
                "kettle-pour.1",
                "kettle.1",
                "kettle.bash",
                "kettle.fish"
            ]
        );
        let read = |name: &str| fs::read_to_string(folder.path().join("made").join(name)).expect(name);
        for shell in ["_kettle", "kettle.bash", "kettle.fish"] {
            assert!(
                read(shell).contains("pour") && read(shell).contains("cups"),
                "{shell}"
            );
            assert!(
                !read(shell).contains("documents"),
                "{shell} offers a hidden command"
            );
        }

        let page = read("kettle.1");
        assert!(
            page.contains(".TH KETTLE 1 \"\" \"kettle 1.2.3\" corun"),
            "{page}"
        );
        assert!(page.contains("kettle \\- Serve tea"), "{page}");
        assert!(page.contains("kettle\\-pour(1)"), "{page}");
        assert!(
            page.contains(
                ".SH NOTES\n.PP\nExit codes: 0 ok.\n.SH EXAMPLES\n.nf\nkettle pour \\-\\-cups 2   two cups\n"
            ),
            "{page}"
        );
        assert!(page.contains("\\&.leading dot"), "{page}");
        assert!(!page.contains("documents"), "{page}");

        let page = read("kettle-pour.1");
        assert!(page.contains("\\-\\-cups"), "{page}");
        assert!(
            page.contains(".SH SIGNALS\n.TP\n\\fBSIGINT\\fR\nEnds when the cup is full.\n.PP\nNo others.\n"),
            "{page}"
        );
        assert!(page.contains(".SH \"SEE ALSO\"\n\\fBkettle\\fR(1)"), "{page}");
    }

    #[test]
    fn the_same_command_line_gives_the_same_bytes() {
        let ((first, names), (second, _)) = (
            written(Kettle::command(), &SECTIONS),
            written(Kettle::command(), &SECTIONS),
        );
        for name in names {
            let read =
                |folder: &tempfile::TempDir| fs::read(folder.path().join("made").join(&name)).expect("there");
            assert_eq!(read(&first), read(&second), "{name}");
        }
    }

    #[test]
    #[should_panic(expected = "no command has the page kettle-pour")]
    fn a_section_needs_its_page() {
        let _ = written(Command::new("kettle").arg(Arg::new("water")), &SECTIONS);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let args = DocumentsArgs {
            folder: PathBuf::from("/proc/nothing"),
        };
        let error = run(&args, Kettle::command(), &[]).expect_err("no folder there");
        assert!(error.to_string().contains("/proc/nothing"));
    }
}
