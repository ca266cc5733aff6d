//! [`load_profile`]: turns on the points of a profile that `corun-lab autosteps` wrote.

use corun_model::teams::{CtxProfile, CtxSite};

use super::point::{Point, points, set_points};

/// What a profile did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Points that are on now.
    pub on: usize,
    /// Points that are off now.
    pub off: usize,
    /// Function entries of the profile. They are for programs whose entries are patched; here they turn nothing on.
    pub entries: usize,
}

/// A profile that does not fit the program. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no such point in the program.
    #[error(
        "the program has no CTX point at {site}; the nearest is {nearest}: make the profile anew for this build"
    )]
    Nearest {
        /// What the profile says.
        site: CtxSite,
        /// The nearest point of that file.
        nearest: CtxSite,
    },
    /// There is no point in that file.
    #[error("the program has no CTX point in {}, which the profile turns on at {site}: make the profile anew for this build", site.file)]
    File {
        /// What the profile says.
        site: CtxSite,
    },
}

/// Whether a profile's file is a point's. A compiler run elsewhere gives a longer path to the same file.
fn same_file(site: &str, point: &str) -> bool {
    let ends = |long: &str, short: &str| {
        long.strip_suffix(short)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    !site.is_empty() && (ends(point, site) || ends(site, point))
}

/// The point of a site.
fn find(site: &CtxSite) -> Result<&'static Point, LoadError> {
    let mut of_file: Vec<&Point> = points()
        .filter(|point| same_file(&site.file, point.file()))
        .collect();
    of_file.sort_by_key(|point| {
        (
            point.line().abs_diff(site.line),
            point.column().abs_diff(site.column),
        )
    });
    match of_file.first() {
        None => Err(LoadError::File { site: site.clone() }),
        Some(point) if (point.line(), point.column()) == (site.line, site.column) => Ok(point),
        Some(point) => Err(LoadError::Nearest {
            site: site.clone(),
            nearest: CtxSite {
                file: point.file().to_owned(),
                line: point.line(),
                column: point.column(),
            },
        }),
    }
}

/// Turns exactly the points of a profile on. Call it when the program starts, before the first scheduler.
///
/// # Errors
/// [`LoadError`] if the program lacks a point of the profile; then nothing is changed.
pub fn load_profile(profile: &CtxProfile) -> Result<Loaded, LoadError> {
    let wanted = profile.sites.iter().map(find);
    let wanted: Vec<&'static Point> = wanted.collect::<Result<_, _>>()?;
    let mut loaded = Loaded {
        on: 0,
        off: 0,
        entries: profile.entries.len(),
    };
    set_points(|point| {
        let on = wanted.iter().any(|&wanted| std::ptr::eq(wanted, point));
        if on {
            loaded.on += 1;
        } else {
            loaded.off += 1;
        }
        on
    });
    Ok(loaded)
}
