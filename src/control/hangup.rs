//! The moment at which a peer is gone altogether: it neither writes nor reads any more.

use std::io;

use tokio::{io::Interest, net::UnixStream};

/// Waits until both directions of the socket are closed. A peer that only ended its own writing still waits for answers.
pub(super) async fn hung_up(socket: &UnixStream) {
    // A registration of its own: the one that reads and writes use must keep what it knows.
    let watched = match watch(socket) {
        Ok(watched) => watched,
        Err(error) => {
            // Out of descriptors: the end of the connection is noticed by the next write instead.
            tracing::debug!(%error, "a socket cannot be watched");
            return std::future::pending().await;
        }
    };
    loop {
        match watched.ready(Interest::WRITABLE).await {
            Ok(ready) if !ready.is_write_closed() => {
                // Forgets that there is room to write, so that only the next event wakes this again.
                let forgotten: io::Result<()> =
                    watched.try_io(Interest::WRITABLE, || Err(io::ErrorKind::WouldBlock.into()));
                if forgotten.is_ok() {
                    return;
                }
            }
            Ok(_) | Err(_) => return,
        }
    }
}

fn watch(socket: &UnixStream) -> io::Result<UnixStream> {
    let copy = rustix::io::fcntl_dupfd_cloexec(socket, 0)?;
    UnixStream::from_std(std::os::unix::net::UnixStream::from(copy))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[test]
    fn only_the_end_of_both_directions_counts() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let mut end = std::pin::pin!(hung_up(&ours));
            let moment = Duration::from_millis(20);
            assert!(timeout(moment, &mut end).await.is_err(), "the peer is there");
            rustix::net::shutdown(&theirs, rustix::net::Shutdown::Write).unwrap();
            assert!(timeout(moment, &mut end).await.is_err(), "the peer still reads");
            drop(theirs);
            timeout(Duration::from_secs(10), &mut end).await.expect("the peer is gone");
            let late = timeout(Duration::from_secs(10), hung_up(&ours)).await;
            assert!(late.is_ok(), "an end that came before is seen, too");
        });
    }
}
