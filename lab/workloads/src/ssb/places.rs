//! Regions, nations, cities and phone numbers, shared by `customer` and `supplier`.
//!
//! 5 regions of 5 nations each, 10 cities a nation: a city is the nation's name cut or padded to nine characters
//! plus a digit (`UNITED KI1`).

/// (nation, region), in the order of TPC-H's nation keys, which phone numbers start from.
pub(super) const NATIONS: [(&str, &str); 25] = [
    ("ALGERIA", "AFRICA"),
    ("ARGENTINA", "AMERICA"),
    ("BRAZIL", "AMERICA"),
    ("CANADA", "AMERICA"),
    ("EGYPT", "MIDDLE EAST"),
    ("ETHIOPIA", "AFRICA"),
    ("FRANCE", "EUROPE"),
    ("GERMANY", "EUROPE"),
    ("INDIA", "ASIA"),
    ("INDONESIA", "ASIA"),
    ("IRAN", "MIDDLE EAST"),
    ("IRAQ", "MIDDLE EAST"),
    ("JAPAN", "ASIA"),
    ("JORDAN", "MIDDLE EAST"),
    ("KENYA", "AFRICA"),
    ("MOROCCO", "AFRICA"),
    ("MOZAMBIQUE", "AFRICA"),
    ("PERU", "AMERICA"),
    ("CHINA", "ASIA"),
    ("ROMANIA", "EUROPE"),
    ("SAUDI ARABIA", "MIDDLE EAST"),
    ("VIETNAM", "ASIA"),
    ("RUSSIA", "EUROPE"),
    ("UNITED KINGDOM", "EUROPE"),
    ("UNITED STATES", "AMERICA"),
];

/// City number `digit` (0..10) of `nation`.
pub(super) fn city(nation: &str, digit: u32) -> String {
    format!("{nation:<9.9}{digit}")
}

/// Phone number: country code (10 + nation number), then three groups from `bits`.
pub(super) fn phone(nation: usize, bits: u64) -> String {
    let group = |shift: u32, least: u64, count: u64| least + ((bits >> shift) & 0xffff) * count / 0x1_0000;
    format!(
        "{}-{}-{}-{}",
        10 + nation,
        group(0, 100, 900),
        group(16, 100, 900),
        group(32, 1000, 9000)
    )
}

/// An address of 10 to 25 characters from `stream` of `row`.
pub(super) fn address(stream: super::random::Stream, row: u64) -> String {
    const ALPHABET: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyz ,ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    // Three draws a row give 30 characters of 6 bits; the length comes from the spare bits of the first.
    let draws = [
        stream.bits(row * 3),
        stream.bits(row * 3 + 1),
        stream.bits(row * 3 + 2),
    ];
    let length = 10 + (draws[0] >> 60) as usize;
    (0..length)
        .map(|i| ALPHABET[(draws[i / 10] >> (6 * (i % 10)) & 63) as usize] as char)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::random::Stream;
    use super::*;

    #[test]
    fn five_nations_a_region_and_250_distinct_cities() {
        let mut per_region: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, region) in NATIONS {
            *per_region.entry(region).or_default() += 1;
        }
        assert_eq!(per_region.len(), 5);
        assert!(per_region.values().all(|&count| count == 5));
        let cities: BTreeSet<String> = NATIONS
            .iter()
            .flat_map(|(nation, _)| (0..10).map(|digit| city(nation, digit)))
            .collect();
        assert_eq!(cities.len(), 250);
        assert!(cities.iter().all(|city| city.len() == 10));
        assert!(cities.contains("UNITED KI1") && cities.contains("PERU     3"));
    }

    #[test]
    fn phones_and_addresses_have_their_shape() {
        for bits in [0, u64::MAX, 0x1234_5678_9abc_def0] {
            let phone = phone(24, bits);
            assert_eq!(phone.len(), 15);
            assert!(phone.starts_with("34-"));
        }
        let stream = Stream::new(1, 1, 1);
        let lengths: BTreeSet<usize> = (0..1000).map(|row| address(stream, row).len()).collect();
        assert_eq!((lengths.first(), lengths.last()), (Some(&10), Some(&25)));
    }
}
