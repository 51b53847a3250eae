//! `doctor`: what a mount needs, whether it is there, and how to get it.

use std::path::Path;

use clap::Args;
use serde_json::json;

use super::{Outcome, output};

#[derive(Args)]
pub(super) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

struct Check {
    name: &'static str,
    good: bool,
    finding: String,
    mend: Option<&'static str>,
}

pub(super) fn doctor(args: &DoctorArgs) -> Outcome {
    let checks = [device(), fusermount(), namespaces(), passthrough(), handles(), runtime()];
    if args.json {
        let list: Vec<_> = checks
            .iter()
            .map(|check| json!({"check": check.name, "ok": check.good, "finding": check.finding, "mend": check.mend}))
            .collect();
        output::json(&json!({"checks": list}));
        return Ok(());
    }
    for check in &checks {
        output::line(&format!("{} {}: {}", if check.good { "ok  " } else { "MISS" }, check.name, check.finding));
        if let Some(mend) = check.mend.filter(|_| !check.good) {
            output::line(&format!("     {mend}"));
        }
    }
    output::line("Without a mount, `wardfs serve DIR` gives the socket, the tools, the policy and the history.");
    Ok(())
}

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

fn device() -> Check {
    let opened = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    Check {
        name: "/dev/fuse",
        good: opened.is_ok(),
        finding: opened.map_or_else(|error| error.to_string(), |_| "can be opened".into()),
        mend: Some("as root: modprobe fuse && chmod 0666 /dev/fuse (in a container: start it with --device /dev/fuse)"),
    }
}

fn fusermount() -> Check {
    let found = std::env::var_os("PATH")
        .and_then(|path| std::env::split_paths(&path).map(|dir| dir.join("fusermount3")).find(|file| file.is_file()));
    Check {
        name: "fusermount3",
        good: found.is_some() || root(),
        finding: match (&found, root()) {
            (Some(path), _) => path.display().to_string(),
            (None, true) => "not found, and root does not need it".into(),
            (None, false) => "not found".into(),
        },
        mend: Some("as root: apt-get install fuse3"),
    }
}

fn namespaces() -> Check {
    let limit =
        std::fs::read_to_string("/proc/sys/user/max_user_namespaces").ok().and_then(|n| n.trim().parse::<u64>().ok());
    let restricted = std::fs::read_to_string("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
        .is_ok_and(|n| n.trim() == "1");
    Check {
        name: "user namespaces",
        good: limit.is_some_and(|limit| limit > 0) && !restricted,
        finding: match limit {
            Some(limit) if restricted => format!("{limit}, restricted by AppArmor"),
            Some(limit) => format!("{limit} allowed"),
            None => "this kernel has none".into(),
        },
        mend: Some("as root: sysctl user.max_user_namespaces=10000 kernel.apparmor_restrict_unprivileged_userns=0"),
    }
}

fn passthrough() -> Check {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).filter_map(|part| part.trim().parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let good = version >= (6, 9) && root();
    Check {
        name: "kernel passthrough",
        good,
        finding: format!("Linux {}{}", release.trim(), if root() { "" } else { ", and this user may not use it" }),
        mend: Some("Linux 6.9 or later, and a daemon started by root; without it all data comes through the daemon"),
    }
}

fn handles() -> Check {
    Check {
        name: "file handles",
        good: root(),
        finding: if root() { "may be opened".into() } else { "need root; each known file costs a descriptor".into() },
        mend: Some("start the daemon as root for trees of more than 10,000 files"),
    }
}

fn runtime() -> Check {
    let dir = crate::run::runtime_dir();
    Check {
        name: "runtime directory",
        good: dir.is_ok(),
        finding: dir.as_deref().map_or_else(ToString::to_string, |dir: &Path| dir.display().to_string()),
        mend: Some("set XDG_RUNTIME_DIR to a private directory of yours"),
    }
}
