//! `stat`: is something there, what is it, and what may be done with it.

use control_api::{
    ToolError,
    tools::{AccessInfo, OwnerInfo, StatArgs, StatResult},
};

use super::{Answer, errors, given, native::Call};
use crate::{
    policy::{Class, List},
    types::{Kind, ViewPath},
    view::{Follow, Found, View, ViewError},
};

/// Answers the call.
pub(super) fn run(call: &Call<'_>, args: &StatArgs) -> Result<Answer, ToolError> {
    let view = call.view;
    let path = given::path(view, &args.path)?;
    let result = match view.find(&path, Follow::No) {
        Ok(found) => there(view, &found, args.hash)?,
        Err(ViewError::NotFound(_) | ViewError::NotADirectory(_)) => {
            StatResult { path: errors::wire(&path), access: access_to_new(view, &path), ..StatResult::default() }
        }
        Err(error) => return Err(errors::of(error)),
    };
    Ok(Answer::new(rendered(&result), &result))
}

fn there(view: &View, found: &Found, hash: bool) -> Result<StatResult, ToolError> {
    let attr = &found.attr;
    let target = match attr.kind {
        Kind::Symlink => Some(view.target_of(found).map_err(errors::of)?),
        Kind::File | Kind::Dir | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => None,
    };
    let mut result = StatResult {
        path: errors::wire(&found.path),
        exists: true,
        kind: Some(given::file_type(attr.kind)),
        size: Some(attr.size),
        mode: Some(given::octal(attr.mode)),
        owner: Some(OwnerInfo { uid: attr.uid, gid: attr.gid }),
        mtime: Some(attr.mtime.rfc3339()),
        target: target.map(|target| control_api::WirePath::of(&target)),
        links: Some(attr.nlink.into()),
        access: access(view, &found.path, found.class, attr.kind == Kind::Dir),
        hash: None,
        version: None,
    };
    if hash {
        if attr.kind == Kind::File {
            let reading = view.open_path(&found.path).map_err(errors::of)?;
            result.hash = Some(view.hash(&reading).map_err(errors::of)?.to_string());
        }
        result.version = view.version(found).map_err(errors::of)?.map(|op| op.0);
    }
    Ok(result)
}

fn access(view: &View, path: &ViewPath, class: Class, is_dir: bool) -> AccessInfo {
    let why = if class.read_only {
        read_only_because(view, path, is_dir)
    } else if class.unversioned {
        "policy lets it be changed, and keeps no old contents of it: changes cannot be taken back".into()
    } else {
        "policy lets it be read and changed".into()
    };
    AccessInfo { read: true, write: !class.read_only, versioned: !class.unversioned, why }
}

/// The same for a name that is hidden and for one that merely is not there.
fn access_to_new(view: &View, path: &ViewPath) -> AccessInfo {
    match view.class(path, false) {
        Some(class) if !class.read_only => AccessInfo {
            read: false,
            write: true,
            versioned: !class.unversioned,
            why: "nothing is there; policy lets it be made".into(),
        },
        Some(class) => AccessInfo {
            read: false,
            write: false,
            versioned: !class.unversioned,
            why: format!("nothing is there; {}", read_only_because(view, path, false)),
        },
        None => AccessInfo {
            read: false,
            write: false,
            versioned: false,
            why: "nothing is there; policy does not let this name be made".into(),
        },
    }
}

fn read_only_because(view: &View, path: &ViewPath, is_dir: bool) -> String {
    let source_is = view.locate(path).is_none_or(|(source, _)| source.read_only);
    if source_is {
        return "its source is served for reading only".into();
    }
    let explanation = view.policy().explain(path, is_dir);
    let decided = explanation.matches.iter().find(|(list, _, selects)| *list == List::ReadOnly && *selects);
    match decided {
        Some((_, pattern, _)) => format!("policy makes it read-only (`{}`)", pattern.text),
        None if explanation.leads_to_allowed => "it only leads to what policy allows below it".into(),
        None => "this view is read-only".into(),
    }
}

fn rendered(result: &StatResult) -> String {
    if !result.exists {
        return format!("{}: {}", result.path, result.access.why);
    }
    let mut text = result.path.to_string();
    let kind = result.kind.map(|kind| format!("{kind:?}").to_lowercase()).unwrap_or_default();
    text += &format!(": {kind}, {} bytes", result.size.unwrap_or(0));
    text += &format!(", mode {}", result.mode.as_deref().unwrap_or("?"));
    text += &format!(", changed {}", result.mtime.as_deref().unwrap_or("?"));
    if let Some(target) = &result.target {
        text += &format!(", leads to {target}");
    }
    if let Some(hash) = &result.hash {
        text += &format!(", {hash}");
    }
    if let Some(version) = result.version {
        text += &format!(", version {version}");
    }
    text + &format!("; {}", result.access.why)
}
