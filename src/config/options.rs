//! `-o` options, in mount(8)'s habits: comma-separated, the last one wins, an unknown one is refused by name.

use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, PatternConfig, PolicyConfig, ViewConfig, feature};

/// How a view is mounted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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
    /// `fsname`: what `mount` and `df` show as the device; the first source, if not given.
    #[serde(default)]
    pub fsname: Option<String>,
}

/// What mount(8) and fstab say to themselves, and what changes nothing here.
const PASSED_OVER: &[&str] = &[
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "comment",
    "async",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "strictatime",
    "lazytime",
    "nolazytime",
    "diratime",
    "nodiratime",
    "default_permissions",
    "subtype",
];

const KNOWN: &str = "ro, rw, allow_other, suid, dev, noexec, fsname=, allow=, deny=, read_only=, unversioned=, \
                     require_hash, review, features=, durability=, on_full=, retain_bytes=";

/// Splits option lists at their commas. `\,` is a comma that does not split.
pub fn split_options(lists: &[String]) -> Vec<String> {
    lists.iter().flat_map(|list| split(list, ',')).filter(|option| !option.is_empty()).collect()
}

/// Splits at `separator`, where no backslash stands before it. Any other backslash stays, since patterns have their own.
fn split(text: &str, separator: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let last = parts.last_mut().expect("there is always one part");
        if c == '\\' && chars.next_if_eq(&separator).is_some() {
            last.push(separator);
        } else if c == separator {
            parts.push(String::new());
        } else {
            last.push(c);
        }
    }
    parts
}

/// Applies `-o` options to a config and all its views, which keep them for a reload.
///
/// # Errors
/// An unknown option, or a bad value.
pub fn apply_options(config: &mut Config, options: &[String]) -> Result<(), ConfigError> {
    for view in &mut config.views {
        view.options.extend_from_slice(options);
    }
    for option in split_options(options) {
        let option = Given::of(&option);
        let known = match option.key {
            "durability" => {
                config.store.relaxed = match option.value {
                    Some("strict") => false,
                    Some("relaxed") => true,
                    Some(_) | None => return Err(option.error("expected durability=strict or durability=relaxed")),
                };
                true
            }
            "on_full" => {
                let word = option.value.unwrap_or_default();
                config.store.keep.refuse = Some(super::keep::on_full(word).map_err(|why| option.error(why))?);
                true
            }
            "retain_bytes" => {
                let word = option.value.unwrap_or_default();
                config.store.keep.bytes = Some(super::keep::size(word).map_err(|why| option.error(why))?);
                true
            }
            _ => {
                let mut known = PASSED_OVER.contains(&option.key) || option.key.to_ascii_lowercase().starts_with("x-");
                for view in &mut config.views {
                    known |= option.of_policy(&mut view.policy)? || option.of_mount(view)?;
                }
                known
            }
        };
        if !known {
            return Err(option.error(format!("unknown option {:?}; there are {KNOWN}", option.key)));
        }
    }
    Ok(())
}

/// Says again what a view's options say of its policy, over one that was read again.
///
/// # Errors
/// As `apply_options`.
pub fn reapply_options(policy: &mut PolicyConfig, options: &[String]) -> Result<(), ConfigError> {
    for option in split_options(options) {
        // Those that are not about the policy stay as they were.
        Given::of(&option).of_policy(policy)?;
    }
    Ok(())
}

/// One option.
struct Given<'a> {
    whole: &'a str,
    key: &'a str,
    value: Option<&'a str>,
}

impl<'a> Given<'a> {
    fn of(option: &'a str) -> Self {
        let (key, value) = option.split_once('=').map_or((option, None), |(key, value)| (key, Some(value)));
        Given { whole: option, key, value }
    }

    fn error(&self, problem: impl Into<String>) -> ConfigError {
        ConfigError { place: format!("-o {}", self.whole), problem: problem.into() }
    }

    /// What stands behind the `=`, in parts.
    fn list(&self, of: &str) -> Result<Vec<String>, ConfigError> {
        let parts = split(self.value.unwrap_or_default(), ':');
        if parts.iter().any(String::is_empty) {
            return Err(self.error(format!("expected {}={of}, or several with : between", self.key)));
        }
        Ok(parts)
    }

    fn patterns(&self) -> Result<Vec<PatternConfig>, ConfigError> {
        let origin = format!("-o {}", self.whole);
        let pattern = |text| PatternConfig { text, origin: origin.clone() };
        Ok(self.list("PATTERN")?.into_iter().map(pattern).collect())
    }

    fn plain(&self) -> Result<(), ConfigError> {
        match self.value {
            None => Ok(()),
            Some(_) => Err(self.error(format!("{} takes no value", self.key))),
        }
    }

    /// True if the option is one of the policy.
    fn of_policy(&self, policy: &mut PolicyConfig) -> Result<bool, ConfigError> {
        match self.key {
            "allow" => policy.allow.get_or_insert_default().extend(self.patterns()?),
            "deny" => policy.deny.extend(self.patterns()?),
            "read_only" => policy.read_only.extend(self.patterns()?),
            "unversioned" => policy.unversioned.extend(self.patterns()?),
            "require_hash" => {
                self.plain()?;
                policy.require_hash = true;
            }
            "review" => {
                self.plain()?;
                policy.review = true;
            }
            "features" => {
                let words = self.list("FEATURE")?;
                policy.features =
                    words.iter().map(|word| feature(word)).collect::<Result<_, _>>().map_err(|why| self.error(why))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// True if the option is one of the mount.
    fn of_mount(&self, view: &mut ViewConfig) -> Result<bool, ConfigError> {
        let flags = &mut view.mount;
        match self.key {
            "fsname" => {
                let name =
                    self.value.filter(|name| !name.is_empty()).ok_or_else(|| self.error("expected fsname=NAME"))?;
                flags.fsname = Some(name.to_owned());
                return Ok(true);
            }
            "ro" => flags.read_only = true,
            "rw" => flags.read_only = false,
            "allow_other" => flags.allow_other = true,
            "noallow_other" => flags.allow_other = false,
            "suid" => flags.suid = true,
            "nosuid" => flags.suid = false,
            "dev" => flags.dev = true,
            "nodev" => flags.dev = false,
            "exec" => flags.noexec = false,
            "noexec" => flags.noexec = true,
            _ => return Ok(false),
        }
        self.plain()?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Config {
        Config { views: vec![ViewConfig::default()], ..Config::default() }
    }

    fn applied(options: &[&str]) -> Result<ViewConfig, String> {
        let mut config = one();
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        apply_options(&mut config, &options).map_err(|error| error.to_string())?;
        Ok(config.views.remove(0))
    }

    fn texts(list: &[PatternConfig]) -> Vec<&str> {
        list.iter().map(|pattern| &*pattern.text).collect()
    }

    #[test]
    fn the_last_one_wins_and_lists_grow() {
        let view = applied(&[
            "ro,rw,noexec,suid,nosuid,dev,allow_other",
            "deny=.env:*.pem,read_only=/vendor/**",
            "deny=x,fsname=box",
        ])
        .expect("good options");
        let flags = MountFlags {
            allow_other: true,
            dev: true,
            noexec: true,
            fsname: Some("box".into()),
            ..MountFlags::default()
        };
        assert_eq!(view.mount, flags);
        assert_eq!(texts(&view.policy.deny), [".env", "*.pem", "x"]);
        assert_eq!(view.policy.deny[1].origin, "-o deny=.env:*.pem");
        assert_eq!(texts(&view.policy.read_only), ["/vendor/**"]);
        assert_eq!(view.policy.allow, None);
    }

    #[test]
    fn a_backslash_keeps_a_separator_and_all_else() {
        let view = applied(&["deny=a\\,b:c\\:d:\\!e,allow=src/**,features=read:search,require_hash,review"])
            .expect("good options");
        assert_eq!(texts(&view.policy.deny), ["a,b", "c:d", "\\!e"]);
        assert_eq!(texts(view.policy.allow.as_deref().unwrap_or_default()), ["src/**"]);
        assert_eq!(
            (view.policy.features.as_slice(), view.policy.require_hash, view.policy.review),
            (&["read".into(), "search".into()][..], true, true)
        );
    }

    #[test]
    fn what_fstab_says_to_others_changes_nothing() {
        let words = PASSED_OVER.join(",") + ",x-systemd.automount,X-mount.mkdir=0755,comment=mine";
        let view = applied(&[&words]).expect("good options");
        assert_eq!(view, ViewConfig { options: vec![words], ..ViewConfig::default() });
    }

    #[test]
    fn mistakes_are_named() {
        let check = |option: &str, expected: &str| {
            assert_eq!(applied(&[option]).expect_err(option), format!("-o {option}: {expected}"));
        };
        check("raedonly", &format!("unknown option \"raedonly\"; there are {KNOWN}"));
        check("uid=7", &format!("unknown option \"uid\"; there are {KNOWN}"));
        check("deny", "expected deny=PATTERN, or several with : between");
        check("deny=", "expected deny=PATTERN, or several with : between");
        check("deny=a::b", "expected deny=PATTERN, or several with : between");
        check("durability=most", "expected durability=strict or durability=relaxed");
        check("on_full=stop", "on_full is \"drop_oldest\" or \"refuse\", not \"stop\"");
        check(
            "retain_bytes=many",
            "expected a size, as \"64MiB\" or \"10GiB\" (B, KiB, MiB, GiB, TiB), and this is \"many\"",
        );
        check("features=fly", "\"fly\" is no feature; there are read, search, write");
        check("ro=1", "ro takes no value");
        check("fsname=", "expected fsname=NAME");
    }

    #[test]
    fn a_policy_that_is_read_again_is_told_them_again() {
        let mut config = one();
        apply_options(&mut config, &["ro,deny=.env".into(), "durability=relaxed,require_hash".into()])
            .expect("good options");
        let mut policy = PolicyConfig::default();
        reapply_options(&mut policy, &config.views[0].options).expect("the same options");
        assert_eq!(policy, config.views[0].policy);
        assert!(config.store.relaxed);
    }
}
