//! Who wants to be told of changes, and the one watcher of a socket that finds them, which runs while somebody does.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::broadcast::{Receiver, Sender, channel, error::RecvError},
    task::AbortHandle,
};

use super::connection::{Connection, Served};
use crate::{
    tools::{CallContext, Cancelled, ToolCall},
    types::{Actor, Channel},
};

/// Begins the URIs of what a view shows; the percent-encoded path follows.
pub(super) const SCHEME: &str = "wardfs:";
/// The tool that tells what changed.
pub(super) const CHANGES: &str = "changes";
/// How long the watcher waits for the next change before it looks whether anybody still listens, in milliseconds.
const WAIT: u64 = 200;
/// After an error.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);
/// News that a slow listener may have before him; then he is told that anything may have changed.
const NEWS_MAX: usize = 64;

/// What changed.
pub(super) struct News {
    /// More than is named.
    more: bool,
    paths: Vec<Vec<u8>>,
}

impl News {
    /// Nobody knows what.
    pub fn of_anything() -> Arc<News> {
        Arc::new(News { more: true, paths: Vec::new() })
    }

    /// Does it concern a path, what is below it, or what it lies in?
    pub fn concerns(&self, path: &[u8]) -> bool {
        self.more || self.paths.iter().any(|changed| is_within(changed, path) || is_within(path, changed))
    }
}

fn is_within(path: &[u8], dir: &[u8]) -> bool {
    dir.is_empty() || path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
}

/// The path that a URI names, if it is one of ours.
pub(super) fn path_of(uri: &str) -> Option<Vec<u8>> {
    let mut rest = uri.strip_prefix(SCHEME)?.trim_matches('/').bytes();
    let mut path = Vec::new();
    while let Some(byte) = rest.next() {
        path.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    Some(path)
}

/// The watcher of a socket.
pub(super) struct Watching {
    news: Sender<Arc<News>>,
    running: tokio::sync::Mutex<()>,
    is_running: Mutex<bool>,
}

impl Watching {
    pub fn new() -> Self {
        Watching { news: channel(NEWS_MAX).0, running: tokio::sync::Mutex::new(()), is_running: Mutex::new(false) }
    }

    /// What changes from now on. True if the watcher was not at work when this was called.
    pub async fn listen(&self, served: &Arc<Served>) -> (Receiver<Arc<News>>, bool) {
        let news = self.news.subscribe();
        let _starting = self.running.lock().await;
        if *self.is_running.lock() {
            return (news, false);
        }
        let first = Arc::clone(served);
        let since = tokio::task::spawn_blocking(move || changes(&first, &Value::Null, 0)).await;
        let since = since.ok().flatten().map(|answer| answer["next"].clone()).unwrap_or_default();
        *self.is_running.lock() = true;
        let served = Arc::clone(served);
        tokio::task::spawn_blocking(move || watch(&served, since));
        (news, true)
    }
}

/// Asks again and again, until nobody listens.
fn watch(served: &Served, mut since: Value) {
    loop {
        {
            let mut is_running = served.watching.is_running.lock();
            if served.watching.news.receiver_count() == 0 {
                *is_running = false;
                return;
            }
        }
        let Some(answer) = changes(served, &since, WAIT) else {
            std::thread::sleep(PAUSE);
            continue;
        };
        since = answer["next"].clone();
        let news = news_of(&answer);
        if news.more || !news.paths.is_empty() {
            // It fails if the last listener has just gone.
            let _ = served.watching.news.send(Arc::new(news));
        }
    }
}

fn news_of(answer: &Value) -> News {
    let mut news = News { more: false, paths: Vec::new() };
    for operation in answer["operations"].as_array().into_iter().flatten() {
        let changes = operation["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
        news.more |= operation["changes_total"].as_u64() != u64::try_from(changes.len()).ok();
        let named = changes.iter().flat_map(|change| [&change["path"], &change["from"]]);
        let paths = named.filter_map(|path| serde_json::from_value::<control_api::WirePath>(path.clone()).ok());
        news.paths.extend(paths.filter_map(|path| path.to_bytes()));
    }
    news
}

fn changes(served: &Served, since: &Value, wait: u64) -> Option<Value> {
    let arguments = if since.is_null() { json!({}) } else { json!({"since": since, "wait_ms": wait}) };
    let call = ToolCall { name: CHANGES.into(), arguments, operation_id: None };
    let actor = Actor { view: Some(served.view.to_string()), ..Actor::of(Channel::Tool) };
    let context = CallContext { actor, owner: (0, 0), cancelled: Cancelled::default() };
    let outcome = served.toolbox.call(&call, &context).ok()?;
    (!outcome.is_error).then_some(outcome.structured)
}

/// Tells of each of these URIs that it changed, until `tell` fails.
pub(super) async fn tell_each<F: Future<Output = bool>>(
    connection: &Connection,
    mut news: Receiver<Arc<News>>,
    mut first: Option<Arc<News>>,
    uris: impl Fn() -> Vec<(String, Vec<u8>)>,
    tell: impl Fn(String) -> F,
) {
    loop {
        let found = match first.take() {
            Some(found) => found,
            None => match news.recv().await {
                Ok(found) => found,
                Err(RecvError::Lagged(_)) => News::of_anything(),
                Err(RecvError::Closed) => return,
            },
        };
        for (uri, path) in uris() {
            // A peer that does not read is not told ever more.
            connection.outgoing.room().await;
            if found.concerns(&path) && !tell(uri).await {
                return;
            }
        }
    }
}

/// What one connection has subscribed to, as older versions do it.
#[derive(Default)]
pub(super) struct Subscribed(Mutex<State>);

#[derive(Default)]
struct State {
    uris: HashMap<String, Vec<u8>>,
    telling: Option<AbortHandle>,
}

impl Subscribed {
    /// Adds one. True if it is the first.
    pub fn add(&self, uri: String, path: Vec<u8>) -> bool {
        let mut state = self.0.lock();
        state.uris.insert(uri, path);
        state.telling.is_none()
    }

    /// Who tells of them.
    pub fn told_by(&self, telling: AbortHandle) {
        let before = self.0.lock().telling.replace(telling);
        if let Some(before) = before {
            before.abort();
        }
    }

    pub fn all(&self) -> Vec<(String, Vec<u8>)> {
        self.0.lock().uris.iter().map(|(uri, path)| (uri.clone(), path.clone())).collect()
    }

    /// Takes one away; with the last one nothing is told any more.
    pub fn remove(&self, uri: &str) {
        let mut state = self.0.lock();
        state.uris.remove(uri);
        if state.uris.is_empty()
            && let Some(telling) = state.telling.take()
        {
            telling.abort();
        }
    }

    /// The connection is at its end.
    pub fn end(&self) {
        let last = std::mem::take(&mut *self.0.lock());
        if let Some(telling) = last.telling {
            telling.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_name_paths() {
        for (uri, expected) in [
            ("wardfs:", Some(&b""[..])),
            ("wardfs:src/a%20b.rs", Some(b"src/a b.rs")),
            ("wardfs:/src/", Some(b"src")),
            ("wardfs:%FF", Some(b"\xff")),
            ("wardfs:%f", None),
            ("file:///x", None),
        ] {
            assert_eq!(path_of(uri).as_deref(), expected, "{uri}");
        }
    }

    #[test]
    fn news_concern_what_is_at_below_and_above_a_change() {
        let news = News { more: false, paths: vec![b"a/b".to_vec()] };
        for (path, expected) in
            [("", true), ("a", true), ("a/b", true), ("a/b/c", true), ("a/bc", false), ("b", false), ("a/", false)]
        {
            assert_eq!(news.concerns(path.as_bytes()), expected, "{path}");
        }
        assert!(News { more: true, paths: Vec::new() }.concerns(b"x"));
    }
}
