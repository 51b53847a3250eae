//! What a daemon tells of itself: to the registry, and to its human.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{
    Result, RunError,
    daemon::Daemon,
    registry::{self, Known, KnownView},
    serving::Serving,
};
use crate::{versions::Durability, view::View};

impl Daemon {
    /// Writes this daemon's views into the registry.
    ///
    /// # Errors
    /// The runtime directory.
    pub fn announce(&self) -> Result<()> {
        let view = |(name, serving): (&String, &Serving)| KnownView {
            name: name.clone(),
            mountpoint: serving.config.mountpoint.clone(),
            socket: serving.socket.clone(),
            sources: serving.config.sources.iter().map(|source| (source.path.clone(), source.name.clone())).collect(),
        };
        let views = self.state.lock().views.iter().map(view).collect();
        registry::announce(&Known {
            pid: std::process::id(),
            started: registry::started(std::process::id()).unwrap_or(0),
            namespace: registry::namespace(),
            admin_socket: self.admin_socket.clone(),
            store: self.store.clone(),
            views,
        })
    }

    /// What runs, for `status`.
    ///
    /// # Errors
    /// The store's.
    pub fn status(&self) -> Result<Value> {
        let store = self.core.store();
        let stats = store.stats().map_err(|e| RunError(e.to_string()))?;
        let outside = self.core.outside_stats();
        let fullness = super::keeping::fullness(store).map_err(|e| RunError(e.to_string()))?;
        let views = self.state.lock().views.iter().map(|(name, serving)| told(name, serving)).collect::<Vec<_>>();
        // What is pending is looked up in the files, and nothing shall wait for that.
        let views: Vec<Value> = views.into_iter().map(|(told, view)| with_review(told, &view)).collect();
        Ok(json!({
            "pid": std::process::id(),
            "admin_socket": self.admin_socket,
            "store": {
                "path": self.store,
                "durability": match store.durability() { Durability::Strict => "strict", Durability::Relaxed => "relaxed" },
                "operations": stats.operations,
                "versions": stats.versions,
                "contents": stats.contents,
                "log_bytes": stats.log_bytes,
                "aside_bytes": stats.aside_bytes,
                "fullness": fullness,
                "stopped": store.poisoned(),
            },
            "outside": {"reports": outside.reports, "overflows": outside.overflows, "late": outside.late},
            "views": views,
        }))
    }
}

/// What is pending in a view, if it has a review.
fn with_review(mut told: Value, view: &View) -> Value {
    told["review"] = match view.has_review().and_then(|has| has.then(|| view.pending_count()).transpose()) {
        Ok(None) => Value::Null,
        Ok(Some(None)) => json!({"pending": null}),
        Ok(Some(Some((paths, sessions)))) => json!({"pending": paths, "sessions": sessions}),
        Err(error) => json!({"error": error.to_string()}),
    };
    told
}

fn told(name: &str, serving: &Serving) -> (Value, Arc<View>) {
    let source = |source: &crate::config::SourceConfig| json!({"path": source.path, "name": source.name, "read_only": source.read_only});
    let told = json!({
        "view": name,
        "mountpoint": serving.config.mountpoint,
        "socket": serving.socket,
        "sources": serving.config.sources.iter().map(source).collect::<Vec<_>>(),
        "read_only": serving.config.mount.read_only,
        "tools": serving.config.tools,
        "features": serving.config.policy.features,
        "passthrough": serving.mount.as_ref().map(|mount| mount.passthrough()),
        "policy_refused": serving.refused,
        "kernel_nodes": serving.view.held_nodes(),
        "freshness": serving.view.sources().iter().map(|source| source.freshness()).collect::<Vec<_>>(),
        "requests": serving.mount.as_ref().map(|mount| mount.requests().into_iter().collect::<BTreeMap<_, _>>()),
    });
    (told, Arc::clone(&serving.view))
}
