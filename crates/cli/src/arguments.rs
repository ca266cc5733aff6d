//! Arguments: help, errors in the program's own error format, and the value parsers that several commands share.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::failure::{self, EXIT_USAGE, Report};
use crate::{out, siblings};

/// What each program does first: a panic is told as an error, a command of another program runs there, and the command line is parsed.
///
/// # Errors
/// The exit code where the program has nothing more to do: another one ran, help was asked for, or the arguments are wrong, which were told.
pub fn begin<A: Parser>(program: &str) -> Result<A, ExitCode> {
    failure::install_panic_hook();
    let given: Vec<OsString> = std::env::args_os().collect();
    if let Some(result) = siblings::run_instead(program, &given) {
        return Err(result.unwrap_or_else(|error| failure::finish(Err(error))));
    }
    A::try_parse_from(given).map_err(|error| stop(&error))
}

/// Prints help to stdout, or the argument error to stderr, and says which exit code follows.
fn stop(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that closed the pipe early has seen what it wanted.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(EXIT_USAGE)
        }
        _ => {
            out::error(&usage_report(&error.render().to_string()));
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// Turns clap's paragraphs into one primary line, a detail (the usage) and a hint (the tip, or where help is).
pub fn usage_report(text: &str) -> Report {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let primary = lines
        .next()
        .unwrap_or("wrong arguments")
        .trim_start_matches("error: ")
        .to_owned();
    let mut missing = Vec::new();
    let mut detail = None;
    let mut hint = None;
    for line in lines {
        if let Some(usage) = line.strip_prefix("Usage: ") {
            detail = Some(format!("usage: {usage}"));
        } else if let Some(tip) = line.strip_prefix("tip: ") {
            hint.get_or_insert(tip.to_owned());
        } else if let Some(values) = line.strip_prefix("[possible values: ") {
            hint.get_or_insert(format!("possible values: {}", values.trim_end_matches(']')));
        } else if line.starts_with("For more information") {
            hint.get_or_insert("`--help` lists every option, with examples".to_owned());
        } else {
            missing.push(line.to_owned());
        }
    }
    let primary = match missing.is_empty() {
        true => primary,
        false => format!("{} {}", primary, missing.join(", ")),
    };
    Report {
        primary,
        detail,
        hint,
    }
}

/// Parses a count of at least one.
pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse::<i128>() {
        Ok(number) if number < 1 => Err("must be 1 or more".to_owned()),
        Ok(number) => usize::try_from(number).map_err(|_| "is too large".to_owned()),
        Err(_) => Err("is not a whole number".to_owned()),
    }
}

/// Parses a positive, finite number such as a scale factor or seconds.
pub fn positive_number(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        Ok(_) => Err("must be above 0".to_owned()),
        Err(_) => Err("is not a number".to_owned()),
    }
}

/// Parses an amount of memory: `2GiB`, `512M`, `1.5g`, `1000000`. Decimal and binary prefixes both mean powers of 1024.
pub fn byte_size(text: &str) -> Result<usize, String> {
    const USAGE: &str = "is not an amount of memory such as 2GiB or 512MiB";
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.trim().parse().map_err(|_| USAGE.to_owned())?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(USAGE.to_owned()),
    };
    let bytes = number * (1u64 << shift) as f64;
    if !bytes.is_finite() || bytes < 1.0 {
        return Err("must be above 0".to_owned());
    }
    if bytes >= usize::MAX as f64 {
        return Err("is too large".to_owned());
    }
    Ok(bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_memory() {
        assert_eq!(byte_size("2GiB"), Ok(2 << 30));
        assert_eq!(byte_size("512m"), Ok(512 << 20));
        assert_eq!(byte_size("1.5 kib"), Ok(1536));
        assert_eq!(byte_size("1000"), Ok(1000));
        for wrong in ["", "GiB", "2 gallons", "0", "-1GiB", "nan", "1e40"] {
            assert!(byte_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_and_numbers() {
        assert_eq!(positive("3"), Ok(3));
        assert!(positive("0").is_err() && positive("-2").is_err() && positive("x").is_err());
        assert_eq!(positive_number("0.5"), Ok(0.5));
        assert!(positive_number("0").is_err() && positive_number("inf").is_err());
    }
}
