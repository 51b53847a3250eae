//! Another policy for a living view: every node that somebody knows is judged anew, and the kernel forgets what changed.

use std::sync::Arc;

use super::View;
use crate::{policy::Policy, types::Kind};

impl View {
    /// Puts another policy in force. Files that are open stay readable where the kernel reads them past us; everything else
    /// follows the new policy when this returns.
    pub fn set_policy(&self, policy: Policy) {
        let events = {
            let _tree = self.core.tree.write();
            *self.policy.write() = Arc::new(policy);
            for node in self.nodes.all() {
                let Some(path) = node.path() else { continue };
                node.judge(self.class(&path, node.file.kind == Kind::Dir));
            }
            // What a directory lists may have changed, and which names in it are known to be missing.
            self.everything()
        };
        if let Some(notify) = self.notify.get() {
            notify.tell(events);
        }
    }
}
