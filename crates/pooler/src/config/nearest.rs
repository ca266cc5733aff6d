//! The word somebody probably meant.

/// The nearest of `words`, if one is near enough: a third of its letters may differ, two of them in short words.
pub fn nearest<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Distances cost length times length; nobody means a key by a text this long.
    if word.len() > 64 {
        return None;
    }
    words
        .into_iter()
        .map(|known| (distance(word, known), known))
        .filter(|(distance, known)| *distance <= (known.chars().count() / 3).max(2))
        .min()
        .map(|(_, known)| known)
}

/// How many letters must be put in, left out, changed or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (
        from.to_lowercase().chars().collect(),
        to.to_lowercase().chars().collect(),
    );
    let mut before_last = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for i in 1..=from.len() {
        let mut row = vec![i; to.len() + 1];
        for j in 1..=to.len() {
            let changed = last[j - 1] + usize::from(from[i - 1] != to[j - 1]);
            row[j] = changed.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood_and_strangers_are_not() {
        let words = ["pool_mode", "pool_size", "min_pool_size"];
        assert_eq!(nearest("pool_mod", words), Some("pool_mode"));
        assert_eq!(nearest("pool_sieze", words), Some("pool_size"));
        assert_eq!(nearest("opol_size", words), Some("pool_size"));
        assert_eq!(nearest("MIN_POOL_SIZE", words), Some("min_pool_size"));
        assert_eq!(nearest("logfile", words), None);
        assert_eq!(nearest(&"p".repeat(1000), words), None);
        assert_eq!(distance("abcd", "acbd"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
