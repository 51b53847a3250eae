//! `status`: daemons, views, stores.

use clap::Args;
use control_api::Client;
use serde_json::{Value, json};

use super::{Outcome, output};

#[derive(Args)]
pub(super) struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn status(args: &StatusArgs) -> Outcome {
    let mut daemons = Vec::new();
    for daemon in crate::run::known()? {
        let mut client = Client::connect(&daemon.admin_socket)?;
        daemons.push(client.request("status", &json!({}))?);
    }
    if args.json {
        output::json(&json!({"daemons": daemons}));
        return Ok(());
    }
    if daemons.is_empty() {
        output::line("no view is served");
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for daemon in &daemons {
        let store = &daemon["store"];
        output::line(&format!(
            "daemon {}, store {} ({})",
            daemon["pid"],
            text(&store["path"]),
            text(&store["durability"])
        ));
        output::line(&format!(
            "  {} operations, {} contents, {} bytes of log, {} bytes aside",
            store["operations"], store["contents"], store["log_bytes"], store["aside_bytes"]
        ));
        if let Some(reason) = store["stopped"].as_str() {
            output::line(&format!("  CHANGES ARE REFUSED: {reason}"));
        }
        for view in daemon["views"].as_array().into_iter().flatten() {
            let at = view["mountpoint"].as_str().unwrap_or("(socket only)");
            output::line(&format!("  view {} at {at}, socket {}", text(&view["view"]), text(&view["socket"])));
            for source in view["sources"].as_array().into_iter().flatten() {
                output::line(&format!("    {}", text(&source["path"])));
            }
        }
    }
    Ok(())
}
