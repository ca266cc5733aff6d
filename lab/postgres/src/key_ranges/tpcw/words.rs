//! Words of TPC-W: the subjects of items, and numbers spelt in syllables, which names and titles begin with.

/// Subjects of items (the specification's 24).
pub const SUBJECTS: [&str; 24] = [
    "ARTS",
    "BIOGRAPHIES",
    "BUSINESS",
    "CHILDREN",
    "COMPUTERS",
    "COOKING",
    "HEALTH",
    "HISTORY",
    "HOME",
    "HUMOR",
    "LITERATURE",
    "MYSTERY",
    "NON-FICTION",
    "PARENTING",
    "POLITICS",
    "REFERENCE",
    "RELIGION",
    "ROMANCE",
    "SELF-HELP",
    "SCIENCE-NATURE",
    "SCIENCE-FICTION",
    "SPORTS",
    "YOUTH",
    "TRAVEL",
];

/// How an item is bound.
pub const BACKINGS: [&str; 5] = ["HARDBACK", "PAPERBACK", "USED", "AUDIO", "LIMITED-EDITION"];

/// How orders are sent.
pub const SHIPPING: [&str; 6] = ["AIR", "UPS", "FEDEX", "SHIP", "COURIER", "MAIL"];

/// How far an order has come.
pub const STATES: [&str; 4] = ["PROCESSING", "SHIPPED", "PENDING", "DENIED"];

/// Kinds of credit cards.
pub const CARDS: [&str; 5] = ["VISA", "MASTERCARD", "DISCOVER", "AMEX", "DINERS"];

/// Digits of the numbers that names and titles begin with.
pub const DIGITS: usize = 7;

const SYLLABLES: [&str; 10] = ["BA", "OG", "AL", "RI", "RE", "SE", "AT", "UL", "IN", "NG"];

/// The lowest `digits` digits of a number, each as a syllable.
pub fn syllables(number: u64, digits: usize) -> String {
    let digit = |place: usize| number / 10u64.pow(place as u32) % 10;
    (0..digits)
        .rev()
        .map(|place| SYLLABLES[digit(place) as usize])
        .collect()
}

/// What people look for: beginnings of titles and last names. Spread over all beginnings, and the same in every run.
pub fn beginnings(digits: usize) -> Vec<String> {
    let of = |number: u64| format!("{}%", syllables(number * 7_919 + 13, digits));
    (0..SEARCHES as u64).map(of).collect()
}

/// How many beginnings are looked for.
const SEARCHES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spelt_digit_by_digit() {
        assert_eq!(syllables(120, 4), "BAOGALBA");
        assert_eq!(syllables(9_999_999, 2), "NGNG");
        let all = beginnings(2);
        assert_eq!(all.len(), SEARCHES);
        assert!(all.iter().all(|text| text.len() == 5 && text.ends_with('%')));
        let mut distinct = all.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), all.len());
    }
}
