//! What the daemon does for its human, by the admin socket.

use std::{path::PathBuf, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::daemon::Daemon;
use crate::{
    config::ViewConfig,
    control::{Admin, AdminError},
    tools::{ReviewCommand, review},
};

/// The admin socket's other end.
pub(super) struct Human(pub Arc<Daemon>);

fn field<T: DeserializeOwned>(params: &Value, name: &str) -> Result<T, AdminError> {
    let value = params.get(name).cloned().ok_or_else(|| AdminError(format!("{name} is missing")))?;
    serde_json::from_value(value).map_err(|error| AdminError(format!("{name}: {error}")))
}

fn answer(value: impl serde::Serialize) -> Result<Value, AdminError> {
    serde_json::to_value(value).map_err(|error| AdminError(error.to_string()))
}

impl Admin for Human {
    fn handle(&self, method: &str, params: &Value) -> Result<Value, AdminError> {
        let failed = |error: super::RunError| AdminError(error.to_string());
        match method {
            "status" => self.0.status().map_err(failed),
            "add_view" => {
                let view: ViewConfig = field(params, "view")?;
                let relaxed: bool = field(params, "relaxed")?;
                answer(self.0.join(view, relaxed).map_err(failed)?)
            }
            "remove_view" => {
                let name: String = field(params, "view")?;
                let last = self.0.remove(&name).map_err(failed)?;
                Ok(json!({"last": last}))
            }
            "wait_view" => {
                let name: String = field(params, "view")?;
                self.0.wait_gone(&name);
                Ok(json!({}))
            }
            "config" => {
                let socket: PathBuf = field(params, "socket")?;
                answer(self.0.config(&socket).map_err(failed)?)
            }
            "review" => {
                let socket: PathBuf = field(params, "socket")?;
                let view = self.0.view(&socket).map_err(failed)?;
                let command: ReviewCommand = field(params, "review")?;
                let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
                // What it refuses has a code, as what a tool refuses.
                review(&view, &command, owner).or_else(|error| answer(json!({"error": error})))
            }
            "reload" => self.0.reload().map(|()| json!({})).map_err(failed),
            "export" => {
                // A pipe of the command's: the daemon opens no file by name but this.
                let pipe: PathBuf = field(params, "pipe")?;
                let opened = std::fs::OpenOptions::new().write(true).open(&pipe);
                let file = opened.map_err(|error| AdminError(format!("{}: {error}", pipe.display())))?;
                let mut out = std::io::BufWriter::with_capacity(1 << 16, file);
                super::keeping::export_store(self.0.core.store(), &mut out).map_err(failed)
            }
            other => match super::keeping::store_command(self.0.core.store(), other, params) {
                Some(done) => done.map_err(failed),
                None => Err(AdminError(format!("no command {other:?}"))),
            },
        }
    }
}
