//! `-o` options, in mount(8)'s habits: comma-separated, the last one wins, an unknown one is refused by name.

use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, PatternConfig};

/// How a view is mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of mount(8), on or off")]
pub struct MountFlags {
    /// `ro`.
    pub read_only: bool,
    /// `allow_other`.
    pub allow_other: bool,
    /// `suid`.
    pub suid: bool,
    /// `dev`.
    pub dev: bool,
    /// `noexec`.
    pub noexec: bool,
}

/// Applies `-o` options to all views of a config.
///
/// # Errors
/// An unknown option, or a bad value.
pub fn apply_options(config: &mut Config, options: &[String]) -> Result<(), ConfigError> {
    for option in options.iter().flat_map(|list| list.split(',')).filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').map_or((option, None), |(key, value)| (key, Some(value)));
        let error = |problem: String| ConfigError { place: format!("-o {option}"), problem };
        let patterns = || -> Result<Vec<PatternConfig>, ConfigError> {
            let value = value
                .filter(|value| !value.is_empty())
                .ok_or_else(|| error(format!("expected {key}=PATTERN[:PATTERN…]")))?;
            let origin = format!("-o {key}");
            Ok(value.split(':').map(|text| PatternConfig { text: text.to_owned(), origin: origin.clone() }).collect())
        };
        match key {
            "durability" => match value {
                Some("strict") => config.store.relaxed = false,
                Some("relaxed") => config.store.relaxed = true,
                _ => return Err(error("expected durability=strict or durability=relaxed".into())),
            },
            "allow" => {
                let more = patterns()?;
                for view in &mut config.views {
                    view.policy.allow.get_or_insert_default().extend(more.clone());
                }
            }
            "deny" | "read_only" | "unversioned" => {
                let more = patterns()?;
                for view in &mut config.views {
                    let list = match key {
                        "deny" => &mut view.policy.deny,
                        "read_only" => &mut view.policy.read_only,
                        _ => &mut view.policy.unversioned,
                    };
                    list.extend(more.clone());
                }
            }
            "require_hash" => config.views.iter_mut().for_each(|view| view.policy.require_hash = true),
            "ro" | "rw" | "allow_other" | "noallow_other" | "suid" | "nosuid" | "dev" | "nodev" | "exec" | "noexec" => {
                for view in &mut config.views {
                    let flags = &mut view.mount;
                    match key {
                        "ro" => flags.read_only = true,
                        "rw" => flags.read_only = false,
                        "allow_other" => flags.allow_other = true,
                        "noallow_other" => flags.allow_other = false,
                        "suid" => flags.suid = true,
                        "nosuid" => flags.suid = false,
                        "dev" => flags.dev = true,
                        "nodev" => flags.dev = false,
                        "exec" => flags.noexec = false,
                        _ => flags.noexec = true,
                    }
                }
            }
            // What fstab and mount(8) say to themselves, and what changes nothing here.
            "defaults"
            | "auto"
            | "noauto"
            | "user"
            | "nouser"
            | "users"
            | "nofail"
            | "_netdev"
            | "async"
            | "atime"
            | "noatime"
            | "relatime"
            | "strictatime"
            | "default_permissions"
            | "fsname"
            | "subtype" => {}
            key if key.starts_with("x-") || key.starts_with("X-") => {}
            _ => {
                return Err(error(format!(
                    "unknown option {key:?}; there are ro, rw, allow_other, suid, dev, noexec, allow=, deny=, read_only=, unversioned=, require_hash, durability="
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ViewConfig;

    #[test]
    fn options_are_applied_in_order_and_unknown_ones_named() {
        let mut config = Config { views: vec![ViewConfig::default()], ..Config::default() };
        let options = ["ro,rw,noexec".to_owned(), "deny=.env:*.pem,durability=relaxed,x-systemd.automount".to_owned()];
        apply_options(&mut config, &options).expect("good options");
        let view = &config.views[0];
        assert!(!view.mount.read_only && view.mount.noexec && config.store.relaxed);
        assert_eq!(view.policy.deny.len(), 2);
        for bad in ["raedonly", "deny=", "durability=most"] {
            let error = apply_options(&mut config, &[bad.to_owned()]).expect_err(bad).to_string();
            assert!(error.starts_with(&format!("-o {bad}: ")), "{error}");
        }
    }
}
