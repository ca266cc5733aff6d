//! A session's settings on their way to the workers: those that are not the defaults, one header each.

use corun_datafusion::CorunOptions;
use datafusion::common::exec_err;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::prelude::SessionConfig;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::collections::BTreeMap;

const PREFIX: &str = "x-corun-set-";

/// Settings of catalogs mean nothing to a stage.
fn travels(key: &str) -> bool {
    !key.starts_with("datafusion.catalog.") && (key.starts_with("datafusion.") || key.starts_with("corun."))
}

fn values(options: &ConfigOptions) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    for entry in options.entries() {
        // Extensions list their keys without the prefix that they are set by.
        let is_full = entry.key.starts_with("datafusion.");
        if let Some(value) = entry.value.filter(|_| is_full) {
            values.insert(entry.key, value);
        }
    }
    let corun = CorunOptions::of(options);
    for entry in datafusion::common::config::ExtensionOptions::entries(&corun) {
        if let Some(value) = entry.value {
            values.insert(format!("corun.{}", entry.key), value);
        }
    }
    values
}

/// The headers that carry a session's settings.
///
/// # Errors
/// A setting that no header can hold.
pub(crate) fn to_headers(config: &SessionConfig) -> Result<HeaderMap> {
    let defaults = values(&ConfigOptions::new());
    let mut headers = HeaderMap::new();
    for (key, value) in values(config.options()) {
        if !travels(&key) || defaults.get(&key) == Some(&value) {
            continue;
        }
        let name = HeaderName::try_from(format!("{PREFIX}{key}"));
        let (Ok(name), Ok(header)) = (name, HeaderValue::try_from(&value)) else {
            return exec_err!("the setting {key} = {value:?} cannot be sent to workers");
        };
        headers.insert(name, header);
    }
    Ok(headers)
}

/// Takes the settings over.
///
/// # Errors
/// A setting that is not known here or does not take its value.
pub(crate) fn from_headers(headers: &HeaderMap, config: &mut SessionConfig) -> Result<()> {
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(PREFIX) else {
            continue;
        };
        let Some(value) = value.to_str().ok().filter(|_| travels(key)) else {
            return exec_err!("the setting {key} is not one that workers take");
        };
        config.options_mut().set(key, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_arrive_as_they_were_set() {
        let mut sent = SessionConfig::new().with_option_extension(CorunOptions::default());
        for (key, value) in [
            ("datafusion.execution.batch_size", "77"),
            ("datafusion.execution.time_zone", "+02:00"),
            ("datafusion.catalog.default_schema", "other"),
            ("corun.join", "off"),
        ] {
            sent.options_mut().set(key, value).expect(key);
        }
        let headers = to_headers(&sent).expect("headers");
        assert!(headers.len() >= 3 && headers.len() < 8, "{headers:?}");

        let mut arrived = SessionConfig::new().with_option_extension(CorunOptions::default());
        from_headers(&headers, &mut arrived).expect("known");
        assert_eq!(arrived.batch_size(), 77);
        assert_eq!(arrived.options().execution.time_zone.as_deref(), Some("+02:00"));
        assert_ne!(arrived.options().catalog.default_schema, "other");
        assert_eq!(CorunOptions::of(arrived.options()).join.to_string(), "off");
    }

    #[test]
    fn settings_of_others_are_refused() {
        let mut config = SessionConfig::new().with_option_extension(CorunOptions::default());
        for (key, value) in [
            ("x-corun-set-other.thing", "1"),
            ("x-corun-set-corun.no_such", "1"),
            ("x-corun-set-corun.join", "perhaps"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(
                HeaderName::try_from(key).expect(key),
                HeaderValue::from_static(value),
            );
            assert!(from_headers(&headers, &mut config).is_err(), "{key}");
        }
    }
}
