//! Records as bytes: CBOR arrays and maps with numbered fields, so that later versions can add some. `FORMAT.md` lists them.

use minicbor::{Decode, Encode, bytes::ByteVec};

use super::{
    Change, ChangeKind, Checkpoint, Content, Loss, NodeKey, OpKind, OpenMark, Operation, Replay, Rule, State,
    StoreError, Trim,
};
use crate::types::{Actor, Channel, Hash, Kind, NodeId, OpId, SourceId, Timestamp, ViewPath};

type Result<T> = std::result::Result<T, StoreError>;

macro_rules! codes {
    ($to:ident, $from:ident, $type:ty, { $($variant:path = $code:literal),+ $(,)? }) => {
        fn $to(value: $type) -> u8 {
            match value { $($variant => $code),+ }
        }
        fn $from(code: u8) -> Result<$type> {
            match code {
                $($code => Ok($variant),)+
                other => Err(unknown(stringify!($type), other)),
            }
        }
    };
}

fn unknown(what: &str, code: u8) -> StoreError {
    StoreError::Damaged(format!("a record has an unknown {what}: {code}"))
}

codes!(kind_code, kind_of, Kind, {
    Kind::File = 0, Kind::Dir = 1, Kind::Symlink = 2, Kind::Fifo = 3, Kind::Socket = 4, Kind::CharDevice = 5,
    Kind::BlockDevice = 6,
});
codes!(channel_code, channel_of, Channel, {
    Channel::Fuse = 0, Channel::Tool = 1, Channel::External = 2, Channel::Revert = 3, Channel::Recovery = 4,
});
codes!(op_kind_code, op_kind_of, OpKind, {
    OpKind::Write = 0, OpKind::Create = 1, OpKind::Remove = 2, OpKind::Rename = 3, OpKind::Link = 4, OpKind::Meta = 5,
    OpKind::Edit = 6, OpKind::Revert = 7, OpKind::External = 8, OpKind::Recovered = 9,
});
codes!(change_code, change_of, ChangeKind, {
    ChangeKind::Create = 0, ChangeKind::Write = 1, ChangeKind::Meta = 2, ChangeKind::Remove = 3, ChangeKind::Rename = 4,
    ChangeKind::Exchange = 5, ChangeKind::Link = 6,
});
/// A loss and, if it was dropped, when and by which rule.
type WireTrim = Option<(i64, u32, u8)>;

fn loss_code(loss: Loss) -> (u8, WireTrim) {
    let code = match loss {
        Loss::Policy => 0,
        Loss::Size => 1,
        Loss::Mmap => 2,
        Loss::External => 3,
        Loss::Unstable => 4,
        Loss::Coalesced => 5,
        Loss::NoSpace => 6,
        Loss::Trimmed(Trim { time, rule }) => return (7, Some((time.secs, time.nanos, rule.code()))),
        Loss::Transient => 8,
    };
    (code, None)
}

fn loss_of(code: u8, trim: WireTrim) -> Result<Loss> {
    Ok(match code {
        0 => Loss::Policy,
        1 => Loss::Size,
        2 => Loss::Mmap,
        3 => Loss::External,
        4 => Loss::Unstable,
        5 => Loss::Coalesced,
        6 => Loss::NoSpace,
        7 => {
            let (secs, nanos, rule) = trim.unwrap_or_default();
            Loss::Trimmed(Trim { time: Timestamp { secs, nanos }, rule: Rule::of(rule)? })
        }
        8 => Loss::Transient,
        other => return Err(unknown("Loss", other)),
    })
}

/// A change's kind as the index keeps it.
pub(super) fn change_kind_code(kind: ChangeKind) -> u8 {
    change_code(kind)
}

/// A channel as the index keeps it.
pub(super) fn actor_channel_code(channel: Channel) -> u8 {
    channel_code(channel)
}

/// The inverse of [`actor_channel_code`].
pub(super) fn actor_channel_of(code: u8) -> Result<Channel> {
    channel_of(code)
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireActor {
    #[n(6)]
    number: u32,
    #[n(0)]
    channel: u8,
    #[n(1)]
    uid: Option<u32>,
    #[n(2)]
    pid: Option<u32>,
    #[n(3)]
    command: Option<String>,
    #[n(4)]
    session: Option<String>,
    #[n(5)]
    view: Option<String>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireContent {
    /// 0 none, 1 target, 2 blob, 3 aside, 4 live, 5 lost.
    #[n(0)]
    at: u8,
    /// Target's bytes, the hash, or the aside name.
    #[n(1)]
    bytes: Option<ByteVec>,
    #[n(2)]
    loss: Option<u8>,
    #[n(3)]
    trim: WireTrim,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireState {
    #[n(0)]
    kind: u8,
    #[n(1)]
    mode: u32,
    #[n(2)]
    uid: u32,
    #[n(3)]
    gid: u32,
    #[n(4)]
    rdev: u64,
    #[n(5)]
    size: u64,
    #[n(6)]
    nlink: u32,
    #[n(7)]
    mtime: (i64, u32),
    #[n(8)]
    ctime: (i64, u32),
    #[n(9)]
    xattrs: Option<Vec<(ByteVec, ByteVec)>>,
    #[n(10)]
    content: WireContent,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireChange {
    #[n(0)]
    source: u32,
    #[n(1)]
    path: ByteVec,
    #[n(2)]
    kind: u8,
    #[n(3)]
    from: Option<ByteVec>,
    #[n(4)]
    node: u64,
    #[n(5)]
    key: Option<ByteVec>,
    #[n(6)]
    before: Option<WireState>,
    #[n(7)]
    after: Option<WireState>,
    #[n(8)]
    staged: Option<String>,
    #[n(9)]
    coalesced: bool,
    #[n(10)]
    unversioned: Option<u8>,
    #[n(11)]
    trim: WireTrim,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireOperation {
    #[n(0)]
    op: u64,
    #[n(1)]
    time: (i64, u32),
    #[n(2)]
    actor: u32,
    #[n(3)]
    kind: u8,
    #[n(4)]
    changes: Vec<WireChange>,
    #[n(5)]
    operation_id: Option<String>,
    #[n(6)]
    request: Option<ByteVec>,
    #[n(7)]
    note: Option<String>,
    #[n(8)]
    undoes: Option<u64>,
    #[n(9)]
    intent: bool,
    #[n(10)]
    undoes_also: Option<Vec<u64>>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireOpen {
    #[n(0)]
    op: u64,
    #[n(1)]
    actor: u32,
    #[n(2)]
    time: (i64, u32),
    #[n(3)]
    source: u32,
    #[n(4)]
    path: ByteVec,
    #[n(5)]
    node: u64,
    #[n(6)]
    key: ByteVec,
    #[n(7)]
    before: WireState,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireCheckpoint {
    #[n(0)]
    name: String,
    #[n(1)]
    note: Option<String>,
    #[n(2)]
    op: u64,
    #[n(3)]
    time: (i64, u32),
    #[n(4)]
    actor: u32,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireAnswer {
    #[n(0)]
    view: String,
    #[n(1)]
    id: String,
    #[n(2)]
    op: Option<u64>,
    #[n(3)]
    request: ByteVec,
    #[n(4)]
    response: Option<String>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireSettled {
    #[n(0)]
    op: u64,
    #[n(1)]
    node: u64,
    #[n(2)]
    content: WireContent,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireSource {
    #[n(0)]
    id: u32,
    #[n(1)]
    key: ByteVec,
    #[n(2)]
    path: ByteVec,
}

fn bytes(bytes: impl Into<Vec<u8>>) -> ByteVec {
    ByteVec::from(bytes.into())
}

fn stamp(time: Timestamp) -> (i64, u32) {
    (time.secs, time.nanos)
}

fn time((secs, nanos): (i64, u32)) -> Timestamp {
    Timestamp { secs, nanos }
}

fn path_of(bytes: &[u8]) -> Result<ViewPath> {
    ViewPath::parse(bytes).map_err(|error| StoreError::Damaged(format!("a record has a bad path: {error}")))
}

fn hash_of(bytes: &[u8]) -> Result<Hash> {
    bytes.try_into().map(Hash).map_err(|_| StoreError::Damaged("a record has a hash that is not 32 bytes".into()))
}

fn text(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| StoreError::Damaged("a record has a bad name".into()))
}

impl WireActor {
    fn of(number: u32, actor: &Actor) -> Self {
        WireActor {
            number,
            channel: channel_code(actor.channel),
            uid: actor.uid,
            pid: actor.pid,
            command: actor.command.clone(),
            session: actor.session.clone(),
            view: actor.view.clone(),
        }
    }

    fn actor(self) -> Result<Actor> {
        Ok(Actor {
            channel: channel_of(self.channel)?,
            uid: self.uid,
            pid: self.pid,
            command: self.command,
            session: self.session,
            view: self.view,
        })
    }
}

impl WireContent {
    fn of(content: &Content) -> Self {
        let (at, data) = match content {
            Content::None => (0, None),
            Content::Target(target) => (1, Some(bytes(target.clone()))),
            Content::Blob(hash) => (2, Some(bytes(hash.0))),
            Content::Aside(name) => (3, Some(bytes(name.as_bytes()))),
            Content::Live(hash) => (4, hash.map(|hash| bytes(hash.0))),
            Content::Lost(loss) => {
                let (code, trim) = loss_code(*loss);
                return WireContent { at: 5, bytes: None, loss: Some(code), trim };
            }
        };
        WireContent { at, bytes: data, loss: None, trim: None }
    }

    fn content(self) -> Result<Content> {
        let data = self.bytes.as_ref().map(|data| data.as_slice());
        Ok(match (self.at, data, self.loss) {
            (0, _, _) => Content::None,
            (1, Some(target), _) => Content::Target(target.to_vec()),
            (2, Some(hash), _) => Content::Blob(hash_of(hash)?),
            (3, Some(name), _) => Content::Aside(text(name)?),
            (4, hash, _) => Content::Live(hash.map(hash_of).transpose()?),
            (5, _, Some(loss)) => Content::Lost(loss_of(loss, self.trim)?),
            (at, _, _) => return Err(unknown("content", at)),
        })
    }
}

impl WireState {
    fn of(state: &State) -> Self {
        let xattrs =
            state.xattrs.iter().map(|(name, value)| (bytes(name.clone()), bytes(value.clone()))).collect::<Vec<_>>();
        WireState {
            kind: kind_code(state.kind),
            mode: state.mode,
            uid: state.uid,
            gid: state.gid,
            rdev: state.rdev,
            size: state.size,
            nlink: state.nlink,
            mtime: stamp(state.mtime),
            ctime: stamp(state.ctime),
            xattrs: (!xattrs.is_empty()).then_some(xattrs),
            content: WireContent::of(&state.content),
        }
    }

    fn state(self) -> Result<State> {
        Ok(State {
            kind: kind_of(self.kind)?,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            size: self.size,
            nlink: self.nlink,
            mtime: time(self.mtime),
            ctime: time(self.ctime),
            xattrs: self.xattrs.unwrap_or_default().into_iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect(),
            content: self.content.content()?,
        })
    }
}

impl WireChange {
    fn of(change: &Change) -> Self {
        WireChange {
            source: change.source.0,
            path: bytes(change.path.as_bytes()),
            kind: change_code(change.kind),
            from: change.from.as_ref().map(|from| bytes(from.as_bytes())),
            node: change.node.0,
            key: change.key.as_ref().map(|key| bytes(key.0.to_vec())),
            before: change.before.as_ref().map(WireState::of),
            after: change.after.as_ref().map(WireState::of),
            staged: change.staged.clone(),
            coalesced: change.coalesced,
            unversioned: change.unversioned.map(|loss| loss_code(loss).0),
            trim: change.unversioned.and_then(|loss| loss_code(loss).1),
        }
    }

    fn change(self) -> Result<Change> {
        Ok(Change {
            source: SourceId(self.source),
            path: path_of(&self.path)?,
            kind: change_of(self.kind)?,
            from: self.from.map(|from| path_of(&from)).transpose()?,
            node: NodeId(self.node),
            key: self.key.map(|key| NodeKey(key.to_vec().into())),
            before: self.before.map(WireState::state).transpose()?,
            after: self.after.map(WireState::state).transpose()?,
            staged: self.staged,
            coalesced: self.coalesced,
            unversioned: self.unversioned.map(|code| loss_of(code, self.trim)).transpose()?,
        })
    }
}

fn encode(value: impl Encode<()>) -> Vec<u8> {
    minicbor::to_vec(value).expect("encoding into memory cannot fail")
}

fn decode<'b, T: Decode<'b, ()>>(payload: &'b [u8]) -> Result<T> {
    minicbor::decode(payload).map_err(|error| StoreError::Damaged(format!("a record cannot be read: {error}")))
}

/// OP. Its actor is in an earlier ACTOR record of this number.
pub(super) fn operation(operation: &Operation, actor: u32) -> Vec<u8> {
    encode(WireOperation {
        op: operation.op.0,
        time: stamp(operation.time),
        actor,
        kind: op_kind_code(operation.kind),
        changes: operation.changes.iter().map(WireChange::of).collect(),
        operation_id: operation.operation_id.clone(),
        request: operation.request.map(|hash| bytes(hash.0)),
        note: operation.note.clone(),
        undoes: operation.undoes.first().map(|op| op.0),
        intent: operation.intent,
        undoes_also: (operation.undoes.len() > 1).then(|| operation.undoes[1..].iter().map(|op| op.0).collect()),
    })
}

/// `actor` finds an actor by its number.
pub(super) fn operation_of(payload: &[u8], actor: impl FnOnce(u32) -> Result<Actor>) -> Result<Operation> {
    let wire: WireOperation = decode(payload)?;
    Ok(Operation {
        op: OpId(wire.op),
        time: time(wire.time),
        actor: actor(wire.actor)?,
        kind: op_kind_of(wire.kind)?,
        changes: wire.changes.into_iter().map(WireChange::change).collect::<Result<_>>()?,
        operation_id: wire.operation_id,
        request: wire.request.map(|hash| hash_of(&hash)).transpose()?,
        note: wire.note,
        undoes: wire.undoes.into_iter().chain(wire.undoes_also.into_iter().flatten()).map(OpId).collect(),
        intent: wire.intent,
    })
}

/// ACTOR.
pub(super) fn actor(number: u32, actor: &Actor) -> Vec<u8> {
    encode(WireActor::of(number, actor))
}

pub(super) fn actor_of(payload: &[u8]) -> Result<(u32, Actor)> {
    let wire: WireActor = decode(payload)?;
    Ok((wire.number, wire.actor()?))
}

/// OPEN.
pub(super) fn open_mark(mark: &OpenMark, actor: u32) -> Vec<u8> {
    encode(WireOpen {
        op: mark.op.0,
        actor,
        time: stamp(mark.time),
        source: mark.source.0,
        path: bytes(mark.path.as_bytes()),
        node: mark.node.0,
        key: bytes(mark.key.0.to_vec()),
        before: WireState::of(&mark.before),
    })
}

pub(super) fn open_mark_of(payload: &[u8], actor: impl FnOnce(u32) -> Result<Actor>) -> Result<OpenMark> {
    let wire: WireOpen = decode(payload)?;
    Ok(OpenMark {
        op: OpId(wire.op),
        actor: actor(wire.actor)?,
        time: time(wire.time),
        source: SourceId(wire.source),
        path: path_of(&wire.path)?,
        node: NodeId(wire.node),
        key: NodeKey(wire.key.to_vec().into()),
        before: wire.before.state()?,
    })
}

/// CHECKPOINT.
pub(super) fn checkpoint(checkpoint: &Checkpoint, actor: u32) -> Vec<u8> {
    encode(WireCheckpoint {
        name: checkpoint.name.clone(),
        note: checkpoint.note.clone(),
        op: checkpoint.op.0,
        time: stamp(checkpoint.time),
        actor,
    })
}

pub(super) fn checkpoint_of(payload: &[u8], actor: impl FnOnce(u32) -> Result<Actor>) -> Result<Checkpoint> {
    let wire: WireCheckpoint = decode(payload)?;
    Ok(Checkpoint {
        name: wire.name,
        note: wire.note,
        op: OpId(wire.op),
        time: time(wire.time),
        actor: actor(wire.actor)?,
    })
}

/// ANSWER.
pub(super) fn answer(view: &str, id: &str, replay: &Replay) -> Vec<u8> {
    encode(WireAnswer {
        view: view.to_owned(),
        id: id.to_owned(),
        op: replay.op.map(|op| op.0),
        request: bytes(replay.request.0),
        response: replay.response.clone(),
    })
}

pub(super) fn answer_of(payload: &[u8]) -> Result<(String, String, Replay)> {
    let wire: WireAnswer = decode(payload)?;
    let replay = Replay { op: wire.op.map(OpId), request: hash_of(&wire.request)?, response: wire.response };
    Ok((wire.view, wire.id, replay))
}

/// SETTLE.
pub(super) fn settled(op: OpId, node: NodeId, content: &Content) -> Vec<u8> {
    encode(WireSettled { op: op.0, node: node.0, content: WireContent::of(content) })
}

pub(super) fn settled_of(payload: &[u8]) -> Result<(OpId, NodeId, Content)> {
    let wire: WireSettled = decode(payload)?;
    Ok((OpId(wire.op), NodeId(wire.node), wire.content.content()?))
}

/// A content alone, as the index keeps it.
pub(super) fn content(content: &Content) -> Vec<u8> {
    encode(WireContent::of(content))
}

pub(super) fn content_of(payload: &[u8]) -> Result<Content> {
    decode::<WireContent>(payload)?.content()
}

/// SOURCE.
pub(super) fn source(id: SourceId, key: &NodeKey, path: &[u8]) -> Vec<u8> {
    encode(WireSource { id: id.0, key: bytes(key.0.to_vec()), path: bytes(path) })
}

pub(super) fn source_of(payload: &[u8]) -> Result<(SourceId, NodeKey, Vec<u8>)> {
    let wire: WireSource = decode(payload)?;
    Ok((SourceId(wire.id), NodeKey(wire.key.to_vec().into()), wire.path.to_vec()))
}

/// DONE, ABORT and CLOSE: an operation's number.
pub(super) fn number(op: OpId) -> Vec<u8> {
    encode(op.0)
}

pub(super) fn number_of(payload: &[u8]) -> Result<OpId> {
    decode::<u64>(payload).map(OpId)
}
