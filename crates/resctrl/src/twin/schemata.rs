//! Resources of a twin: what they take, and who uses which way. Follows `ctrlmondata.c` and the mask code of `rdtgroup.c`.

use std::collections::BTreeMap;

use corun_model::cache::partition::BandwidthUnit;
use libc::{EINVAL, ENOSPC};

use super::Spec;
use super::kernel::{Kernel, Mode, ROOT_CLASS};

/// `MBA_MAX_MBPS`.
const MEGABYTES_MAX: u32 = u32::MAX;
/// The top of AMD's bandwidth scale: 2048 eighths of a gigabyte a second.
const EIGHTHS_MAX: u32 = 2048;

/// One line of schemata.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Classes it has, halved by code and data prioritisation.
    pub(super) classes: u32,
    /// The values of each class in each domain.
    pub(super) domains: BTreeMap<u32, Vec<u32>>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Cache {
        bits: u32,
        bits_min: u32,
        sparse: bool,
        shareable: u32,
        /// The other half of a cache with code and data prioritisation.
        peer: Option<String>,
    },
    Bandwidth {
        unit: BandwidthUnit,
        minimum: u32,
        step: u32,
    },
}

/// `BIT_MASK(cbm_len) - 1`
fn all(bits: u32) -> u32 {
    ((1u64 << bits) - 1) as u32
}

impl Schema {
    /// `schemata_list_create`: each is put in front of those before.
    pub(super) fn list(spec: &Spec) -> Vec<Self> {
        let mut list = Vec::new();
        for cache in &spec.caches {
            assert!((1..=32).contains(&cache.ways), "a cache of {} ways", cache.ways);
            let halves: &[(&str, Option<&str>)] = if cache.code_and_data {
                &[("CODE", Some("DATA")), ("DATA", Some("CODE"))]
            } else {
                &[("", None)]
            };
            for (suffix, peer) in halves {
                let classes = cache.classes / halves.len() as u32;
                list.push(Self {
                    name: format!("L{}{suffix}", cache.level),
                    kind: Kind::Cache {
                        bits: cache.ways,
                        bits_min: cache.ways_min,
                        sparse: cache.sparse,
                        shareable: cache.hardware,
                        peer: peer.map(|suffix| format!("L{}{suffix}", cache.level)),
                    },
                    classes,
                    domains: cache
                        .domains
                        .iter()
                        .map(|&id| (id, vec![0; classes as usize]))
                        .collect(),
                });
            }
        }
        if let Some(bandwidth) = &spec.bandwidth {
            let values = vec![0; bandwidth.classes as usize];
            list.push(Self {
                name: "MB".to_owned(),
                kind: Kind::Bandwidth {
                    unit: bandwidth.unit,
                    minimum: bandwidth.minimum,
                    step: bandwidth.step,
                },
                classes: bandwidth.classes,
                domains: bandwidth.domains.iter().map(|&id| (id, values.clone())).collect(),
            });
        }
        list.reverse();
        list
    }

    /// `resctrl_arch_reset_all_ctrls`
    pub(super) fn reset(&mut self) {
        let default = self.default_value();
        for values in self.domains.values_mut() {
            values.fill(default);
        }
    }

    /// `resctrl_get_default_ctrl`
    fn default_value(&self) -> u32 {
        match self.kind {
            Kind::Cache { bits, .. } => all(bits),
            Kind::Bandwidth { unit, .. } => match unit {
                BandwidthUnit::Percent => 100,
                BandwidthUnit::Megabytes => MEGABYTES_MAX,
                BandwidthUnit::NonLinear => EIGHTHS_MAX,
            },
        }
    }

    /// Its files below `info`.
    pub(super) fn info_files(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Cache { .. } => &[
                "num_closids",
                "cbm_mask",
                "min_cbm_bits",
                "shareable_bits",
                "bit_usage",
                "sparse_masks",
            ],
            Kind::Bandwidth { .. } => &["num_closids", "min_bandwidth", "bandwidth_gran", "delay_linear"],
        }
    }

    /// The text of one of them.
    pub(super) fn info(&self, file: &str, kernel: &Kernel) -> Option<String> {
        let text = match (&self.kind, file) {
            (_, "num_closids") => self.classes.to_string(),
            (Kind::Cache { bits, .. }, "cbm_mask") => format!("{:x}", all(*bits)),
            (Kind::Cache { bits_min, .. }, "min_cbm_bits") => bits_min.to_string(),
            (Kind::Cache { shareable, .. }, "shareable_bits") => format!("{shareable:x}"),
            (Kind::Cache { sparse, .. }, "sparse_masks") => u32::from(*sparse).to_string(),
            (Kind::Cache { bits, shareable, .. }, "bit_usage") => {
                let usage = |values: &Vec<u32>| self.bit_usage(values, *bits, *shareable, kernel);
                let domains = self
                    .domains
                    .iter()
                    .map(|(id, values)| format!("{id}={}", usage(values)));
                domains.collect::<Vec<_>>().join(";")
            }
            (Kind::Bandwidth { minimum, .. }, "min_bandwidth") => minimum.to_string(),
            (Kind::Bandwidth { step, .. }, "bandwidth_gran") => step.to_string(),
            (Kind::Bandwidth { unit, .. }, "delay_linear") => {
                u32::from(*unit != BandwidthUnit::NonLinear).to_string()
            }
            _ => return None,
        };
        Some(text + "\n")
    }

    /// `rdt_bit_usage_show`: one letter a way, highest first.
    fn bit_usage(&self, values: &[u32], bits: u32, hardware: u32, kernel: &Kernel) -> String {
        let used_in = |mode| {
            let classes = kernel
                .classes()
                .filter(|class| kernel.mode_of(*class) == Some(mode));
            classes.fold(0, |mask, class| mask | values[class as usize])
        };
        let (shared, exclusive) = (used_in(Mode::Shareable), used_in(Mode::Exclusive));
        let has = |mask: u32, bit: u32| mask >> bit & 1 == 1;
        let letter = |bit| match (has(hardware, bit), has(shared, bit)) {
            (true, true) => 'X',
            (true, false) => 'H',
            (false, true) => 'S',
            (false, false) if has(exclusive, bit) => 'E',
            (false, false) => '0',
        };
        (0..bits).rev().map(letter).collect()
    }
}

/// `kstrtoul` and its kin: digits of a base, a plus sign and a newline at the end allowed; base 16 may start with `0x`.
fn number(text: &str, base: u32) -> Option<u64> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_prefix('+').unwrap_or(text);
    let digits = match base {
        16 => text
            .strip_prefix("0x")
            .or(text.strip_prefix("0X"))
            .unwrap_or(text),
        _ => text,
    };
    (digits.chars().all(|c| c.is_digit(base))).then(|| u64::from_str_radix(digits, base).ok())?
}

impl Kernel {
    /// `rdtgroup_schemata_show`, `show_doms`
    pub(super) fn show_schemata(&self, class: u32) -> String {
        // `schemata_list_add` leaves room for the suffixes of code and data prioritisation.
        let width = |schema: &Schema| match &schema.kind {
            Kind::Cache { peer: None, .. } => schema.name.len() + 4,
            _ => schema.name.len(),
        };
        let width = self.schemas.iter().map(width).max().unwrap_or(0);
        let mut text = String::new();
        for schema in &self.schemas {
            let value = |value: u32| match schema.kind {
                Kind::Cache { .. } => format!("{value:x}"),
                Kind::Bandwidth { .. } => value.to_string(),
            };
            let domains = schema.domains.iter();
            let domains: Vec<String> = domains
                .map(|(id, values)| format!("{id}={}", value(values[class as usize])))
                .collect();
            text += &format!("{:>width$}:{}\n", schema.name, domains.join(";"));
        }
        text
    }

    /// `rdtgroup_schemata_write`
    pub(super) fn write_schemata(&mut self, text: &str, class: u32) -> Result<(), i32> {
        let text = text.strip_suffix('\n').ok_or(EINVAL)?;
        self.status.clear();
        let mut staged = BTreeMap::new();
        for line in text.split('\n') {
            let (name, values) = match line.split_once(':') {
                Some((name, values)) => (name.trim(), values),
                None => return self.say(EINVAL, "Missing ':'\n"),
            };
            if values.is_empty() {
                return self.say(EINVAL, &format!("Missing '{name}' value\n"));
            }
            // `rdtgroup_parse_resource`
            let Some(at) = self.schemas.iter().position(|schema| schema.name == name) else {
                return self.say(
                    EINVAL,
                    &format!("Unknown or unsupported resource name '{name}'\n"),
                );
            };
            self.parse_line(at, values, class, &mut staged)?;
        }
        // `resctrl_arch_update_domains`
        for ((at, domain), value) in staged {
            if let Some(values) = self.schemas[at].domains.get_mut(&domain) {
                values[class as usize] = value;
            }
        }
        Ok(())
    }

    /// `parse_line`
    fn parse_line(
        &mut self,
        at: usize,
        values: &str,
        class: u32,
        staged: &mut BTreeMap<(usize, u32), u32>,
    ) -> Result<(), i32> {
        let mut rest = Some(values);
        while let Some(values) = rest.filter(|values| !values.is_empty()) {
            let (value, after) = match values.split_once(';') {
                Some((value, after)) => (value, Some(after)),
                None => (values, None),
            };
            rest = after;
            let parsed = value
                .split_once('=')
                .and_then(|(id, value)| Some((number(id, 10)?, value.trim())));
            let Some((domain, value)) = parsed else {
                return self.say(EINVAL, "Missing '=' or non-numeric domain\n");
            };
            let known = u32::try_from(domain)
                .ok()
                .filter(|id| self.schemas[at].domains.contains_key(id));
            let domain = known.ok_or(EINVAL)?;
            // `parse_cbm`, `parse_bw`
            if staged.contains_key(&(at, domain)) {
                return self.say(EINVAL, &format!("Duplicate domain {domain}\n"));
            }
            match self.schemas[at].kind.clone() {
                Kind::Cache {
                    bits,
                    bits_min,
                    sparse,
                    ..
                } => {
                    let mask = self.validate_mask(value, bits, bits_min, sparse)?;
                    if self.overlaps(at, domain, mask, class, true) {
                        return self.say(EINVAL, "Overlaps with exclusive group\n");
                    }
                    if self.mode_of(class) == Some(Mode::Exclusive)
                        && self.overlaps(at, domain, mask, class, false)
                    {
                        return self.say(EINVAL, "Overlaps with other group\n");
                    }
                    staged.insert((at, domain), mask);
                }
                Kind::Bandwidth { unit, minimum, step } => {
                    let value = self.validate_bandwidth(value, unit, minimum, step)?;
                    if unit == BandwidthUnit::Megabytes {
                        // The software controller's values are not staged.
                        if let Some(values) = self.schemas[at].domains.get_mut(&domain) {
                            values[class as usize] = value;
                        }
                    } else {
                        staged.insert((at, domain), value);
                    }
                }
            }
        }
        Ok(())
    }

    /// `cbm_validate`
    fn validate_mask(&mut self, text: &str, bits: u32, bits_min: u32, sparse: bool) -> Result<u32, i32> {
        let Some(mask) = number(text, 16) else {
            return self.say(EINVAL, &format!("Non-hex character in the mask {text}\n"));
        };
        if (bits_min > 0 && mask == 0) || mask > u64::from(all(bits)) {
            return self.say(EINVAL, "Mask out of range\n");
        }
        let first = if mask == 0 { bits } else { mask.trailing_zeros() };
        let run = (mask >> first).trailing_ones();
        if !sparse && mask >> first >> run != 0 {
            return self.say(EINVAL, &format!("The mask {mask:x} has non-consecutive 1-bits\n"));
        }
        if run < bits_min {
            return self.say(EINVAL, &format!("Need at least {bits_min} bits in the mask\n"));
        }
        Ok(mask as u32)
    }

    /// `bw_validate`
    fn validate_bandwidth(
        &mut self,
        text: &str,
        unit: BandwidthUnit,
        minimum: u32,
        step: u32,
    ) -> Result<u32, i32> {
        let Some(value) = number(text, 10).and_then(|value| u32::try_from(value).ok()) else {
            return self.say(EINVAL, &format!("Invalid MB value {text}\n"));
        };
        let maximum = match unit {
            BandwidthUnit::Megabytes => return Ok(value),
            BandwidthUnit::Percent => 100,
            BandwidthUnit::NonLinear => EIGHTHS_MAX,
        };
        if value < minimum || value > maximum {
            return self.say(
                EINVAL,
                &format!("MB value {value} out of range [{minimum},{maximum}]\n"),
            );
        }
        Ok(value.next_multiple_of(step))
    }

    /// `rdtgroup_cbm_overlaps`, `__rdtgroup_cbm_overlaps`: does a mask for a class touch ways of another? With `exclusive`
    /// only exclusive groups count, otherwise all groups and devices.
    pub(super) fn overlaps(&self, at: usize, domain: u32, mask: u32, class: u32, exclusive: bool) -> bool {
        let Kind::Cache { shareable, peer, .. } = &self.schemas[at].kind else {
            return false;
        };
        if !exclusive && mask & shareable != 0 {
            return true;
        }
        let peer = self
            .schemas
            .iter()
            .find(|schema| Some(&schema.name) == peer.as_ref());
        [Some(&self.schemas[at]), peer]
            .into_iter()
            .flatten()
            .any(|schema| {
                self.classes().filter(|other| *other != class).any(|other| {
                    let theirs = schema
                        .domains
                        .get(&domain)
                        .map_or(0, |values| values[other as usize]);
                    mask & theirs != 0 && (!exclusive || self.mode_of(other) == Some(Mode::Exclusive))
                })
            })
    }

    /// `rdtgroup_init_alloc`: what a new group may use.
    pub(super) fn initial_schemata(&mut self, class: u32) -> Result<(), i32> {
        for at in 0..self.schemas.len() {
            let schema = self.schemas[at].clone();
            for &domain in schema.domains.keys() {
                let value = match &schema.kind {
                    Kind::Bandwidth { .. } => schema.default_value(),
                    Kind::Cache {
                        bits,
                        bits_min,
                        shareable,
                        peer,
                        ..
                    } => {
                        let mask = self.initial_mask(&schema, domain, *bits, *shareable, peer.as_deref());
                        if mask.count_ones() < *bits_min {
                            return self.say(ENOSPC, &format!("No space on {}:{domain}\n", schema.name));
                        }
                        mask
                    }
                };
                if let Some(values) = self.schemas[at].domains.get_mut(&domain) {
                    values[class as usize] = value;
                }
            }
        }
        Ok(())
    }

    /// `__init_one_rdt_domain`, `cbm_ensure_valid`. The new class belongs to no group yet.
    fn initial_mask(
        &self,
        schema: &Schema,
        domain: u32,
        bits: u32,
        shareable: u32,
        peer: Option<&str>,
    ) -> u32 {
        let peer = self
            .schemas
            .iter()
            .find(|other| Some(other.name.as_str()) == peer);
        let (mut mask, mut used) = (shareable, shareable);
        for class in self.classes() {
            let value = |schema: &Schema| {
                schema
                    .domains
                    .get(&domain)
                    .map_or(0, |values| values[class as usize])
            };
            let theirs = value(schema) | peer.map_or(0, value);
            used |= theirs;
            if self.mode_of(class) == Some(Mode::Shareable) {
                mask |= theirs;
            }
        }
        mask |= !used & all(bits);
        // The first run, whether or not the machine takes holes.
        let first = mask.trailing_zeros().min(31);
        let run = (mask >> first).trailing_ones();
        mask & (all(run) << first)
    }

    /// No mask of a group breaks the rules, and no exclusive way is used twice.
    pub(super) fn check_schemata(&self) {
        for (at, schema) in self.schemas.iter().enumerate() {
            let Kind::Cache {
                bits,
                bits_min,
                sparse,
                ..
            } = schema.kind
            else {
                continue;
            };
            for (&domain, values) in &schema.domains {
                for class in self.classes() {
                    let mask = values[class as usize];
                    assert!(
                        mask.count_ones() >= bits_min && mask <= all(bits),
                        "mask {mask:x}"
                    );
                    let one_run = mask == 0
                        || all((mask >> mask.trailing_zeros()).trailing_ones()).count_ones()
                            == mask.count_ones();
                    assert!(sparse || one_run, "mask {mask:x} has holes");
                    assert!(
                        !self.overlaps(at, domain, mask, class, true),
                        "exclusive ways of {mask:x} are shared"
                    );
                }
            }
        }
        assert!(self.groups[0].class == ROOT_CLASS && self.groups[0].name.is_empty());
    }
}
