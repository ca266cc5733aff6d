//! Configurations as texts.

use corun_pooler::ConfigFiles;
use corun_pooler::config::Config;

/// The files of a configuration that must be right.
pub fn files(text: &str) -> ConfigFiles {
    let loaded = Config::parse(text, "corun.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    ConfigFiles::of(loaded.config).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
