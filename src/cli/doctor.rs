//! `doctor`: what a mount and a history need, whether it is there, and how to get it.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::{Failure, Outcome, output};
use crate::{host::Fs, run};

#[derive(Args)]
pub(super) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The directory that is to be served
    #[arg(default_value = ".")]
    dir: PathBuf,
}

/// What hangs on a check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Without it there is no mount.
    Mount,
    /// Without it nothing is served.
    All,
    /// Without it something is slower, or missing.
    Better,
}

struct Check {
    name: &'static str,
    need: Need,
    good: bool,
    finding: String,
    mend: String,
}

pub(super) fn doctor(args: &DoctorArgs) -> Outcome {
    let checks = [
        device(),
        fusermount(),
        namespaces(),
        passthrough(),
        fanotify(),
        handles(&args.dir),
        store(&args.dir),
        runtime(),
    ];
    let lacks = |need: Need| checks.iter().any(|check| check.need == need && !check.good);
    let verdict = match (lacks(Need::All), lacks(Need::Mount)) {
        (true, _) => "this directory cannot be served",
        (false, true) => {
            "no mount is possible; `wardfs serve DIR` gives the socket, the tools, the policy and the history"
        }
        (false, false) => "a mount is possible",
    };
    if args.json {
        let told = |check: &Check| {
            let mend = (!check.good).then_some(&check.mend);
            json!({"check": check.name, "ok": check.good, "finding": check.finding, "mend": mend})
        };
        let (mount, all) = (!lacks(Need::Mount) && !lacks(Need::All), checks.iter().map(told).collect::<Vec<_>>());
        output::json(&json!({"mount": mount, "serve": !lacks(Need::All), "verdict": verdict, "checks": all}));
    } else {
        for check in &checks {
            let word = match (check.good, check.need) {
                (true, _) => "ok  ",
                (false, Need::Better) => "note",
                (false, Need::Mount | Need::All) => "MISS",
            };
            output::line(&format!("{word} {}: {}", check.name, check.finding));
            if !check.good {
                output::line(&format!("     {}", check.mend));
            }
        }
        output::line(verdict);
    }
    if lacks(Need::Mount) || lacks(Need::All) { Err(Failure { message: String::new(), status: 1 }) } else { Ok(()) }
}

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

fn device() -> Check {
    let opened = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let mend = match &opened {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "as root: modprobe fuse (in a container: start it with --device /dev/fuse --cap-add SYS_ADMIN)"
        }
        Ok(_) | Err(_) => "as root: chmod 0666 /dev/fuse (in a container: start it with --device /dev/fuse)",
    };
    Check {
        name: "/dev/fuse",
        need: Need::Mount,
        good: opened.is_ok(),
        finding: opened.map_or_else(|error| error.to_string(), |_| "can be opened".into()),
        mend: mend.into(),
    }
}

fn fusermount() -> Check {
    let found = std::env::var_os("PATH")
        .and_then(|path| std::env::split_paths(&path).map(|dir| dir.join("fusermount3")).find(|file| file.is_file()));
    Check {
        name: "fusermount3",
        need: Need::Mount,
        good: found.is_some() || root(),
        finding: match (&found, root()) {
            (Some(path), _) => path.display().to_string(),
            (None, true) => "not found, and root does not need it".into(),
            (None, false) => "not found".into(),
        },
        mend: "as root: apt-get install fuse3 (or dnf install fuse3, apk add fuse3)".into(),
    }
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn namespaces() -> Check {
    let limit = read("/proc/sys/user/max_user_namespaces").and_then(|n| n.parse::<u64>().ok());
    let restricted = read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").is_some_and(|n| n == "1");
    let mend = if restricted {
        "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    } else {
        "as root: sysctl user.max_user_namespaces=10000"
    };
    Check {
        name: "user namespaces",
        need: Need::Better,
        good: limit.is_some_and(|limit| limit > 0) && !restricted,
        finding: match limit {
            Some(limit) if restricted => format!("{limit} allowed, restricted by AppArmor"),
            Some(limit) => format!("{limit} allowed"),
            None => "this kernel has none".into(),
        },
        mend: format!("{mend} (for private mounts without root)"),
    }
}

fn kernel() -> (String, (u32, u32)) {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (release, version)
}

fn passthrough() -> Check {
    let (release, version) = kernel();
    Check {
        name: "kernel passthrough",
        need: Need::Better,
        good: version >= (6, 9) && root(),
        finding: format!("Linux {release}{}", if root() { "" } else { ", and this user may not use it" }),
        mend: "run the daemon as root on Linux 6.9 or later; without it all data goes through the daemon".into(),
    }
}

fn fanotify() -> Check {
    let there = Path::new("/proc/sys/fs/fanotify").is_dir();
    Check {
        name: "fanotify",
        need: Need::Better,
        good: there && root(),
        finding: match (there, root()) {
            (true, true) => "may watch whole file systems".into(),
            (true, false) => "this user may not watch whole file systems".into(),
            (false, _) => "this kernel does not have it, or is older than 5.13".into(),
        },
        mend: "run the daemon as root; without it, changes beside the mount are noticed when a file is next used"
            .into(),
    }
}

fn handles(dir: &Path) -> Check {
    let opened = Fs::open_root(dir, &[]);
    let (good, finding) = match &opened {
        Ok((fs, _)) if fs.caps().handles => (true, format!("files of {} are found again by handle", fs.caps().fs_type)),
        Ok((fs, _)) => {
            (false, format!("not for this user on {}: files are found again by their names", fs.caps().fs_type))
        }
        Err(error) => (false, format!("{}: {error}", dir.display())),
    };
    Check {
        name: "file handles",
        need: if opened.is_ok() { Need::Better } else { Need::All },
        good,
        finding,
        mend: "run the daemon as root, and not on overlayfs, for trees of more than 10,000 files".into(),
    }
}

fn store(dir: &Path) -> Check {
    let asked = std::env::var_os("WARDFS_STORE").map(PathBuf::from);
    let source = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let placed = run::place_of(&source, asked.as_deref(), &[]);
    let (need, good, finding) = match &placed {
        Ok(place) => {
            let state = if place.exists { "is at" } else { "would be at" };
            let how = if place.linked { "on the same file system" } else { "on another file system or mount" };
            (Need::Better, place.linked, format!("the history {state} {}, {how}", place.path.display()))
        }
        Err(error) => (Need::All, false, error.to_string()),
    };
    let mend = "name a place on the directory's own file system with --store DIR; else removed files are copied, and those \
                over 64 MiB not kept";
    Check { name: "store", need, good, finding, mend: mend.into() }
}

fn runtime() -> Check {
    let dir = run::runtime_dir();
    Check {
        name: "runtime directory",
        need: Need::All,
        good: dir.is_ok(),
        finding: dir.as_deref().map_or_else(ToString::to_string, |dir: &Path| dir.display().to_string()),
        mend: "set XDG_RUNTIME_DIR to a private directory of yours".into(),
    }
}
