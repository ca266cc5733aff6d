//! The kernel's text form of a set of CPUs: `0-3,8,10-11`.
//!
//! Pure text on both sides. Reading the files that hold such lists is the machine crate's job.

use thiserror::Error;

use crate::units::CpuId;

/// More CPUs than any kernel supports; a list above it is damaged, and expanding it would exhaust memory.
const CPU_ID_MAX: u32 = 1 << 16;

/// Why a CPU list could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{list}` is not a CPU list: {reason} (expected something like `0-3,8`)")]
pub struct CpuListError {
    /// The text as found.
    pub list: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// Parses a list such as `0-3,8`, ascending and without duplicates. Empty text is the empty set.
///
/// # Errors
/// When a part is not a number or a rising range, or a number is 65536 or more.
pub fn parse(list: &str) -> Result<Vec<CpuId>, CpuListError> {
    let fail = |reason| CpuListError {
        list: list.trim().to_owned(),
        reason,
    };
    let number = |text: &str| match text.trim().parse::<u32>() {
        Ok(n) if n < CPU_ID_MAX => Ok(n),
        Ok(_) => Err(fail("a CPU number of 65536 or more")),
        Err(_) => Err(fail("a part is not a number")),
    };
    let mut cpus = Vec::new();
    for part in list
        .trim()
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if last < first {
            return Err(fail("a range runs backwards"));
        }
        cpus.extend((first..=last).map(CpuId));
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// The shortest list that [`parse`] reads back as `cpus`; the order given does not matter.
pub fn format(cpus: &[CpuId]) -> String {
    let mut sorted: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
        .chunk_by(|a, b| *b == a.saturating_add(1))
        .map(|run| match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => unreachable!("chunk_by yields no empty chunk"),
        })
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_kernels_write() {
        assert_eq!(parse("0-1\n"), Ok(vec![CpuId(0), CpuId(1)]));
        assert_eq!(parse("0,2,8-9"), Ok([0, 2, 8, 9].map(CpuId).to_vec()));
        assert_eq!(parse("\n"), Ok(vec![]));
    }

    #[test]
    fn refuses_what_they_do_not() {
        for bad in ["a", "3-1", "1-", "-", "0-4294967295", "99999999999", "1;2"] {
            assert!(parse(bad).is_err(), "{bad} was accepted");
        }
    }

    proptest! {
        #[test]
        fn format_and_parse_are_inverse(numbers in proptest::collection::btree_set(0u32..300, 0..40)) {
            let cpus: Vec<CpuId> = numbers.into_iter().map(CpuId).collect();
            prop_assert_eq!(parse(&format(&cpus)), Ok(cpus));
        }

        #[test]
        fn parse_never_panics(text in "[0-9,\\- \n]{0,24}") {
            let _ = parse(&text);
        }
    }
}
