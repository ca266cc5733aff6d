//! Configurations as texts.

use corun_pooler::ConfigFiles;
use corun_pooler::config::{Config, Io};

/// The files of a configuration that must be right. With `CORUN_TEST_IO=epoll` in the environment, sockets that might be driven either
/// way are driven by epoll.
pub fn files(text: &str) -> ConfigFiles {
    let loaded = Config::parse(text, "corun.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut config = loaded.config;
    if config.corun.io == Io::Auto && std::env::var_os("CORUN_TEST_IO").is_some_and(|io| io == "epoll") {
        config.corun.io = Io::Epoll;
    }
    ConfigFiles::of(config).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
