//! Reading what a mounted resctrl offers.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use corun_model::cache::partition::{
    BandwidthResource, BandwidthUnit, CacheDomain, CachePart, CacheResource, Capabilities, Group, GroupMode,
    Schemata, WayMask,
};
use corun_model::units::Ways;

use super::{Client, Files, ResctrlError};

/// Folders of the root that are no groups.
pub(super) const NOT_GROUPS: [&str; 3] = ["info", "mon_groups", "mon_data"];

impl<F: Files> Client<F> {
    /// What this machine can partition, and who does so already.
    ///
    /// # Errors
    /// When resctrl is unavailable, not mounted or not readable.
    pub fn capabilities(&self) -> Result<Capabilities, ResctrlError> {
        self.mounted()?;
        let _lock = self.lock(false)?;
        let root = &self.settings.root;
        let info = root.join("info");
        let own = self.group("", root)?;
        let mut capabilities = Capabilities {
            classes: u32::MAX,
            root: own,
            ..Capabilities::default()
        };
        for name in self.folders(&info)?.unwrap_or_default() {
            let folder = info.join(&name);
            if let Some(classes) = self.number(&folder, "num_closids")? {
                capabilities.classes = capabilities.classes.min(classes);
            }
            if let Some(monitors) = self.number(&folder, "num_rmids")? {
                let fewest = capabilities
                    .monitors
                    .map_or(monitors, |other: u32| other.min(monitors));
                capabilities.monitors = Some(fewest);
            }
            if let Some(cache) = self.cache(&name, &folder, &capabilities.root)? {
                capabilities.caches.push(cache);
            } else if name == "MB" {
                capabilities.bandwidth = self.bandwidth(&folder, &capabilities.root)?;
            }
        }
        if capabilities.classes == u32::MAX {
            capabilities.classes = 0;
        }
        for name in self.folders(root)?.unwrap_or_default() {
            if NOT_GROUPS.contains(&name.as_str()) {
                continue;
            }
            capabilities.groups.push(self.group(&name, &root.join(&name))?);
        }
        Ok(capabilities)
    }

    /// Whether resctrl is there at all.
    pub(super) fn mounted(&self) -> Result<(), ResctrlError> {
        let root = &self.settings.root;
        let folders = self.folders(root)?;
        if folders.is_some_and(|names| names.iter().any(|name| name == "info")) {
            return Ok(());
        }
        // Absent and unreadable mean the same here: nothing more can be said.
        let proc_text = |name: &str| {
            self.files
                .read(&self.settings.proc.join(name))
                .unwrap_or_default()
        };
        let in_kernel = proc_text("filesystems")
            .lines()
            .any(|line| line.split_whitespace().last() == Some("resctrl"));
        if in_kernel {
            return Err(ResctrlError::NotMounted {
                root: root.clone(),
                mounted: self.mounts().into_iter().map(|(folder, _)| folder).next(),
            });
        }
        const FLAGS: [&str; 3] = ["cat_l3", "cat_l2", "mba"];
        let cpuinfo = proc_text("cpuinfo");
        let flags = cpuinfo
            .lines()
            .find(|line| line.starts_with("flags"))
            .unwrap_or_default();
        let found: Vec<&str> = FLAGS
            .into_iter()
            .filter(|flag| flags.split_whitespace().any(|f| f == *flag))
            .collect();
        let reason = if found.is_empty() {
            "the CPU shows no cache allocation (flags cat_l3, cat_l2); a hypervisor may hide it".to_owned()
        } else {
            format!(
                "the CPU has it ({}), but the kernel is built without CONFIG_X86_CPU_RESCTRL",
                found.join(", ")
            )
        };
        Err(ResctrlError::Unavailable { reason })
    }

    /// Mounts of resctrl with their options.
    fn mounts(&self) -> Vec<(PathBuf, String)> {
        let text = self
            .files
            .read(&self.settings.proc.join("mounts"))
            .unwrap_or_default();
        let mounts = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (folder, kind, options) = (words.next()?, words.next()?, words.next()?);
            (kind == "resctrl").then(|| (folder.into(), options.to_owned()))
        });
        mounts.collect()
    }

    fn number<T: FromStr>(&self, folder: &Path, file: &str) -> Result<Option<T>, ResctrlError> {
        let path = folder.join(file);
        let Some(text) = self.read_if_there(&path)? else {
            return Ok(None);
        };
        match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(unexpected(&path, &text)),
        }
    }

    fn mask(&self, folder: &Path, file: &str) -> Result<Option<WayMask>, ResctrlError> {
        let path = folder.join(file);
        let Some(text) = self.read_if_there(&path)? else {
            return Ok(None);
        };
        WayMask::parse(&text)
            .map(Some)
            .ok_or_else(|| unexpected(&path, &text))
    }

    /// A resource of ways; `None` for all others.
    fn cache(&self, name: &str, folder: &Path, root: &Group) -> Result<Option<CacheResource>, ResctrlError> {
        let (Some(full), Some(level)) = (self.mask(folder, "cbm_mask")?, level_of(name)) else {
            return Ok(None);
        };
        let usage = self.read_if_there(&folder.join("bit_usage"))?.unwrap_or_default();
        let domains = root.schemata.domains(name).map(|id| CacheDomain {
            id,
            closed: closed_ways(&usage, id),
        });
        Ok(Some(CacheResource {
            name: name.to_owned(),
            level,
            part: match name.get(2..) {
                Some("CODE") => CachePart::Code,
                Some("DATA") => CachePart::Data,
                _ => CachePart::Unified,
            },
            full,
            ways_min: Ways(self.number(folder, "min_cbm_bits")?.unwrap_or(1)),
            // The file came after the first machines with holes; without it none are tried.
            sparse: self.number::<u32>(folder, "sparse_masks")? == Some(1),
            hardware: self.mask(folder, "shareable_bits")?.unwrap_or_default(),
            domains: domains.collect(),
        }))
    }

    fn bandwidth(&self, folder: &Path, root: &Group) -> Result<Option<BandwidthResource>, ResctrlError> {
        let (Some(minimum), Some(step)) = (
            self.number(folder, "min_bandwidth")?,
            self.number(folder, "bandwidth_gran")?,
        ) else {
            return Ok(None);
        };
        let here = self
            .mounts()
            .into_iter()
            .find(|(mounted, _)| *mounted == self.settings.root);
        let options = here.map(|(_, options)| options).unwrap_or_default();
        let unit = if options.split(',').any(|option| option == "mba_MBps") {
            BandwidthUnit::Megabytes
        } else if self.number::<u32>(folder, "delay_linear")? == Some(0) {
            BandwidthUnit::NonLinear
        } else {
            BandwidthUnit::Percent
        };
        Ok(Some(BandwidthResource {
            unit,
            minimum,
            step,
            domains: root.schemata.domains("MB").collect(),
        }))
    }

    /// A group; groups may vanish while they are read, and then look empty.
    fn group(&self, name: &str, folder: &Path) -> Result<Group, ResctrlError> {
        let mode = self.read_if_there(&folder.join("mode"))?.unwrap_or_default();
        let schemata = self.read_if_there(&folder.join("schemata"))?.unwrap_or_default();
        let monitors = self.folders(&folder.join("mon_groups"))?.unwrap_or_default();
        Ok(Group {
            name: name.to_owned(),
            // Kernels before 4.19 have no modes: all groups share.
            mode: match mode.trim() {
                "exclusive" => GroupMode::Exclusive,
                "pseudo-locksetup" => GroupMode::PseudoLockSetup,
                "pseudo-locked" => GroupMode::PseudoLocked,
                _ => GroupMode::Shareable,
            },
            monitor_groups: monitors.len() as u32,
            // A group that is being pseudo-locked says `uninitialized`.
            schemata: Schemata::parse(&schemata).unwrap_or_default(),
        })
    }
}

fn unexpected(path: &Path, text: &str) -> ResctrlError {
    ResctrlError::System {
        doing: "understand",
        path: path.to_owned(),
        reason: format!("`{}` is not what was expected", text.trim()),
    }
}

/// 3 of `L3CODE`.
fn level_of(name: &str) -> Option<u8> {
    let digit = name.strip_prefix('L')?.chars().next()?;
    digit.to_digit(10).map(|level| level as u8)
}

/// Ways that `bit_usage` (`0=XXSSEE00;1=...`, highest way first) shows as exclusive or pseudo-locked.
fn closed_ways(usage: &str, domain: u32) -> WayMask {
    let of_domain = usage.trim().split(';').find_map(|part| {
        let (id, letters) = part.split_once('=')?;
        (id.trim().parse() == Ok(domain)).then_some(letters)
    });
    let letters = of_domain.unwrap_or_default().chars().rev().enumerate().take(32);
    letters
        .filter(|(_, letter)| matches!(letter, 'E' | 'P'))
        .fold(WayMask::default(), |mask, (way, _)| mask | WayMask(1 << way))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_ways_are_exclusive_and_pseudo_locked_ones() {
        let usage = "0=XXSSSSEE00P;3=SSSSSSSSSSS\n";
        assert_eq!(closed_ways(usage, 0), WayMask(0b11001));
        assert_eq!(closed_ways(usage, 3), WayMask(0));
        assert_eq!(closed_ways(usage, 1), WayMask(0));
        assert_eq!(closed_ways("", 0), WayMask(0));
        assert_eq!(
            [level_of("L3DATA"), level_of("L2"), level_of("MB"), level_of("L")],
            [Some(3), Some(2), None, None]
        );
    }
}
