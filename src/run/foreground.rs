//! Staying in the foreground beside a daemon that serves already.

use control_api::Client;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::{Result, RunError, launch::Started};

/// Waits until views that another daemon serves are gone; takes them away if this process is told to end.
///
/// # Errors
/// The daemon, or one of the views could not be taken away.
pub(super) fn attend(started: &[Started]) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| RunError::on("signals", e))?;
    let views = started.to_vec();
    let told = runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        super::service::ready();
        let gone = tokio::task::spawn_blocking(move || views.iter().for_each(wait_gone));
        Ok::<bool, std::io::Error>(tokio::select! {
            _ = gone => false,
            _ = terminate.recv() => true,
            _ = interrupt.recv() => true,
        })
    });
    // The thread that waits for the daemon ends with it, or with us.
    runtime.shutdown_background();
    if told.map_err(|e| RunError::on("signals", e))? {
        super::service::stopping();
        for view in started {
            let mut client = Client::connect(&view.admin_socket).map_err(|e| RunError(e.to_string()))?;
            client.request("remove_view", &json!({"view": view.view})).map_err(|e| RunError(e.to_string()))?;
        }
    }
    Ok(())
}

/// A daemon that does not answer serves no view.
fn wait_gone(view: &Started) {
    if let Ok(mut client) = Client::connect(&view.admin_socket) {
        let _ = client.request("wait_view", &json!({"view": view.view}));
    }
}
