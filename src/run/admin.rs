//! What the daemon does for its human, by the admin socket.

use std::{path::PathBuf, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::daemon::Daemon;
use crate::{
    config::ViewConfig,
    control::{Admin, AdminError},
};

/// The admin socket's other end.
pub(super) struct Human(pub Arc<Daemon>);

fn field<T: DeserializeOwned>(params: &Value, name: &str) -> Result<T, AdminError> {
    let value = params.get(name).cloned().ok_or_else(|| AdminError(format!("{name} is missing")))?;
    serde_json::from_value(value).map_err(|error| AdminError(format!("{name}: {error}")))
}

impl Admin for Human {
    fn handle(&self, method: &str, params: &Value) -> Result<Value, AdminError> {
        let failed = |error: super::RunError| AdminError(error.to_string());
        match method {
            "status" => self.0.status().map_err(failed),
            "add_view" => {
                let view: ViewConfig = field(params, "view")?;
                let started = self.0.add(view).map_err(failed)?;
                serde_json::to_value(started).map_err(|error| AdminError(error.to_string()))
            }
            "unmount" => {
                let mountpoint: PathBuf = field(params, "mountpoint")?;
                self.0.unmount(&mountpoint).map_err(failed)?;
                Ok(json!({}))
            }
            "remove_view" => {
                let name: String = field(params, "view")?;
                self.0.remove(&name).map_err(failed)?;
                Ok(json!({}))
            }
            "config" => {
                let socket: PathBuf = field(params, "socket")?;
                let config = self.0.config(&socket).map_err(failed)?;
                serde_json::to_value(config).map_err(|error| AdminError(error.to_string()))
            }
            "reload" => self.0.reload().map(|()| json!({})).map_err(failed),
            other => Err(AdminError(format!("no command {other:?}"))),
        }
    }
}
