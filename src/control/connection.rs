//! One connection: who is at its other end, what it waits for, and how it ends.

use std::{sync::Arc, time::Duration};

use tokio::{
    net::UnixStream,
    sync::{Semaphore, watch},
};

use super::{
    Limits,
    calls::{Calls, IdTaken},
    hangup::hung_up,
    listing::Listing,
    mcp,
    outgoing::Outgoing,
    plain,
    reader::Reader,
    server::stopped,
    watching::{Subscribed, Watching},
};
use crate::{
    tools::Toolbox,
    types::{Actor, Channel},
};

/// How long a peer that ended its own writing still gets answers to what it asked.
const GRACE: Duration = Duration::from_secs(5);

/// The tools of a view, and what all connections of its socket share.
pub(super) struct Served {
    pub toolbox: Arc<dyn Toolbox>,
    pub listing: Listing,
    pub view: Box<str>,
    pub limits: Limits,
    /// Threads for calls beyond the first of a connection.
    pub surplus: Arc<Semaphore>,
    /// Finds changes for those who want to be told of them.
    pub watching: Watching,
}

/// Who is at the other end.
pub(super) struct Peer {
    pub actor: Actor,
    pub owner: (u32, u32),
}

/// One connection.
pub(super) struct Connection {
    pub served: Arc<Served>,
    pub peer: Peer,
    pub calls: Calls,
    pub outgoing: Outgoing,
    pub subscribed: Subscribed,
}

/// Serves a connection until one side ends it.
pub(super) async fn serve(stream: UnixStream, served: Arc<Served>, stop: watch::Receiver<bool>) {
    let peer = peer_of(&stream, &served.view);
    let (input, output) = stream.into_split();
    let limits = served.limits;
    let calls = Calls::new(limits, Arc::clone(&served.surplus));
    let connection = Arc::new(Connection {
        served,
        peer,
        calls,
        outgoing: Outgoing::new(output),
        subscribed: Subscribed::default(),
    });
    let mut reader = Reader::new(input, limits.line, stop.clone());
    let talk = async {
        if let Some(first) = plain::serve(&mut reader, &connection).await {
            // It ends when nothing more will be asked; what it still answers, it answers meanwhile.
            let _answering = mcp::serve(first, reader, &connection).await;
            finish(&connection, stop).await;
        } else {
            finish(&connection, stop).await;
        }
    };
    tokio::select! {
        () = talk => {}
        // A write found that the peer is gone.
        () = connection.outgoing.run() => {}
    }
    connection.calls.cancel_all();
    connection.subscribed.end();
    // Calls that have not noticed yet keep the connection's memory, not the connection.
    connection.outgoing.close();
}

/// The peer is gone, so that nothing more is taken from it.
pub(super) struct Gone;

impl Connection {
    /// Takes a request in, once there is room for it.
    pub async fn admit(&self, key: &str, bytes: usize, read_only: bool) -> Result<Result<(), IdTaken>, Gone> {
        tokio::select! {
            biased;
            admitted = self.calls.admit(key, bytes, read_only) => Ok(admitted),
            // Nothing is read meanwhile, so that its end would not be seen.
            () = hung_up(self.outgoing.socket()) => Err(Gone),
        }
    }
}

/// Nothing more will be asked: answers what was.
async fn finish(connection: &Connection, mut stop: watch::Receiver<bool>) {
    let answered = async {
        connection.calls.all_closed().await;
        connection.outgoing.flushed().await;
    };
    let patience = async {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => {
                // The server ends, and sees to it that this does not take for ever.
                connection.calls.hurry();
                std::future::pending::<()>().await;
            }
            () = tokio::time::sleep(GRACE) => {}
        }
    };
    tokio::select! {
        biased;
        () = answered => {}
        () = patience => {}
        () = hung_up(connection.outgoing.socket()) => {}
    }
}

fn peer_of(stream: &UnixStream, view: &str) -> Peer {
    let credentials = stream.peer_cred().ok();
    let pid = credentials.and_then(|c| c.pid()).and_then(|pid| u32::try_from(pid).ok());
    let actor = Actor {
        uid: credentials.map(|c| c.uid()),
        pid,
        command: pid.and_then(crate::view::command_of),
        view: Some(view.to_owned()),
        ..Actor::of(Channel::Tool)
    };
    Peer { actor, owner: credentials.map_or((0, 0), |c| (c.uid(), c.gid())) }
}
