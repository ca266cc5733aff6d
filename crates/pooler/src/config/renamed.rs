//! Names that were different before 0.1.0: keys of `corun.toml`, and tables of the console. An old name is an error that says the new one.

/// Old and new names of keys.
pub const RENAMED_KEYS: &[(&str, &str)] = &[
    ("lane", "heavy_queue"),
    ("lane_cache_bytes", "heavy_queue_cache_bytes"),
    ("lane_cores", "heavy_queue_cores"),
    ("lane_min", "heavy_queue_min"),
    ("lane_overtakes_max", "heavy_queue_overtakes_max"),
    ("lane_plans", "heavy_queue_plans"),
    ("lane_policy", "heavy_queue_policy"),
    ("lane_waiting_max", "heavy_queue_waiting_max"),
];

/// Old and new words behind `SHOW`.
pub const RENAMED_TABLES: &[(&str, &str)] = &[("LANE", "HEAVY_QUEUE")];

/// The name a key has now, if it had another one.
pub(super) fn renamed_key(old: &str) -> Option<&'static str> {
    new_name(RENAMED_KEYS, old)
}

/// The word a table has now, if it had another one; words in any case.
pub fn renamed_table(old: &str) -> Option<&'static str> {
    new_name(RENAMED_TABLES, old)
}

fn new_name(names: &'static [(&str, &str)], old: &str) -> Option<&'static str> {
    let found = names.iter().find(|(known, _)| known.eq_ignore_ascii_case(old));
    found.map(|(_, new)| *new)
}

#[cfg(test)]
mod tests {
    use super::{RENAMED_KEYS, renamed_table};
    use crate::config::{Config, ConfigError, keys};

    fn findings(text: &str) -> Vec<String> {
        match Config::parse(text, "corun.toml") {
            Err(ConfigError::Wrong { findings }) => findings.iter().map(ToString::to_string).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_old_key_is_an_error_that_names_the_new_one() {
        let text = "[databases.a]\nlane = \"on\"\n[users.u]\nlane = \"on\"\n\
                    [corun]\nlane_min = \"1ms\"\n[proxy]\nlane_cores = 2\nauth_type = \"any\"\n";
        let found = findings(text);
        for expected in [
            "corun.toml:2:1: error: lane is now called heavy_queue",
            "corun.toml:4:1: error: lane is now called heavy_queue",
            "corun.toml:6:1: error: lane_min is now called heavy_queue_min",
            "corun.toml:8:1: error: lane_cores is now called heavy_queue_cores\nhint: the key belongs below [corun]",
        ] {
            assert!(
                found.iter().any(|line| line == expected),
                "{expected:?} not in {found:#?}"
            );
        }
    }

    #[test]
    fn a_setting_changed_on_the_console_names_the_new_key_too() {
        let error = Config::default().set("lane_min", "1ms").expect_err("renamed");
        assert_eq!(error, "lane_min is now called heavy_queue_min");
    }

    #[test]
    fn new_names_exist_and_old_ones_do_not() {
        let keys = keys();
        for (old, new) in RENAMED_KEYS {
            assert!(keys.iter().any(|key| key.name == *new), "{new}");
            assert!(keys.iter().all(|key| key.name != *old), "{old}");
        }
        assert_eq!(renamed_table("lane"), Some("HEAVY_QUEUE"));
        assert_eq!(renamed_table("POOLS"), None);
    }
}
