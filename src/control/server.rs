//! A listening socket: takes connections, up to a limit, and ends them in time.

use std::{
    io,
    os::unix::net::UnixListener,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use tokio::{net::UnixStream, runtime::Runtime, sync::watch};

use super::wire;

/// A socket that is being served, on threads of its own.
pub struct Server {
    /// `None` only once it was shut down.
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
    alive: Arc<Alive>,
}

/// Waits until the server ends.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error says that the server is gone already.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Connections that there are.
#[derive(Default)]
struct Alive {
    count: Mutex<usize>,
    none: Condvar,
}

/// One of them, until it is dropped.
struct Living(Arc<Alive>);

impl Living {
    fn new(alive: &Arc<Alive>, limit: usize) -> Option<Living> {
        let mut count = alive.count.lock();
        if *count >= limit {
            return None;
        }
        *count += 1;
        Some(Living(Arc::clone(alive)))
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        let mut count = self.0.count.lock();
        *count -= 1;
        if *count == 0 {
            self.0.none.notify_all();
        }
    }
}

/// Accepts connections, at most `limit` at once, on a runtime of their own that runs up to `threads` calls.
pub(super) fn start<F>(
    listener: UnixListener,
    limit: usize,
    threads: usize,
    serve: impl Fn(UnixStream, watch::Receiver<bool>) -> F + Send + 'static,
) -> io::Result<Server>
where
    F: Future<Output = ()> + Send + 'static,
{
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(threads.max(1))
        .thread_name("socket")
        .enable_all()
        .build()?;
    let (stop, mut stopped) = watch::channel(false);
    let alive = Arc::<Alive>::default();
    let listener = {
        let _entered = runtime.enter();
        tokio::net::UnixListener::from_std(listener)?
    };
    let connections = Arc::clone(&alive);
    runtime.spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopped.changed() => return,
            };
            match accepted {
                Ok((stream, _)) => match Living::new(&connections, limit) {
                    Some(living) => {
                        let served = serve(stream, stopped.clone());
                        tokio::spawn(async move {
                            served.await;
                            drop(living);
                        });
                    }
                    None => refuse(&stream, limit),
                },
                Err(error) => {
                    // Out of descriptors, most likely: some connection will end.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    });
    Ok(Server { runtime: Some(runtime), stop, alive })
}

/// Says why, as far as that goes without waiting; the end of the connection says it, too.
fn refuse(stream: &UnixStream, limit: usize) {
    let text = format!("there are {limit} connections already; close some, or try again later");
    let line = wire::error(&serde_json::Value::Null, wire::BUSY, &text);
    if let Err(error) = stream.try_write(&line) {
        tracing::debug!(%error, "a refused connection was not told why");
    }
}

impl Server {
    /// Takes no more connections and reads no more requests. Calls that change something are finished and answered,
    /// others are cancelled. Returns when all connections have ended, or the time is over; a change that is under way
    /// then goes on without anybody to answer.
    pub fn shutdown(mut self, time: Duration) {
        let deadline = Instant::now() + time;
        self.stop.send_replace(true);
        {
            let mut count = self.alive.count.lock();
            while *count > 0 && !self.alive.none.wait_until(&mut count, deadline).timed_out() {}
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
