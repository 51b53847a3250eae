//! A served socket, tools that do what a test wants, and a client that speaks raw lines.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use tempfile::TempDir;
use wardfs::{
    control::{Limits, Server, serve},
    tools::{AccessGroup, Block, CallContext, Hints, ToolCall, ToolOutcome, ToolSpec, Toolbox, UnknownTool},
};

/// Nothing that a test waits for takes this long.
pub const LONG: Duration = Duration::from_secs(30);

/// Tools without files.
pub struct Fake {
    specs: Vec<ToolSpec>,
    pub seen: Mutex<Seen>,
    changed: Condvar,
}

/// What the tools saw.
#[derive(Default, Debug)]
pub struct Seen {
    /// Calls of `wait` and `hold` that run now.
    pub inside: usize,
    /// The most that ever ran at once.
    pub most: usize,
    /// Calls of `wait` that ended because they were given up.
    pub given_up: usize,
    /// Calls of `hold` that came to their end.
    pub held: usize,
    /// Calls of any tool.
    pub calls: usize,
    /// Calls of `wait` and `hold` may end.
    pub open: bool,
}

impl Fake {
    fn new() -> Fake {
        let spec = |name, hints| ToolSpec {
            name,
            title: name,
            description: "A tool of the tests.",
            input_schema: Arc::new(json!({"type": "object"})),
            output_schema: Arc::new(json!({"type": "object"})),
            hints,
            access: AccessGroup::Read,
        };
        let specs = vec![
            spec("echo", Hints::ReadOnly),
            spec("wait", Hints::ReadOnly),
            spec("hold", Hints::Destructive { idempotent: false }),
            spec("big", Hints::ReadOnly),
            spec("fails", Hints::ReadOnly),
            spec("breaks", Hints::Additive { idempotent: true }),
            spec("shows", Hints::ReadOnly),
        ];
        Fake { specs, seen: Mutex::default(), changed: Condvar::new() }
    }

    /// Lets all calls that wait, now or later, end.
    pub fn open(&self) {
        self.seen.lock().open = true;
        self.changed.notify_all();
    }

    /// Waits until the tools have seen something.
    #[track_caller]
    pub fn until(&self, what: impl Fn(&Seen) -> bool) {
        let deadline = Instant::now() + LONG;
        let mut seen = self.seen.lock();
        while !what(&seen) {
            assert!(!self.changed.wait_until(&mut seen, deadline).timed_out(), "{seen:?}");
        }
    }

    /// Waits inside a tool until it may end, or `cancelled` says so: then true.
    fn stay(&self, cancelled: impl Fn() -> bool) -> bool {
        let mut seen = self.seen.lock();
        seen.inside += 1;
        seen.most = seen.most.max(seen.inside);
        self.changed.notify_all();
        while !seen.open && !cancelled() {
            // A flag wakes nobody.
            self.changed.wait_for(&mut seen, Duration::from_millis(20));
        }
        seen.inside -= 1;
        self.changed.notify_all();
        !seen.open
    }
}

impl Toolbox for Fake {
    fn list(&self) -> &[ToolSpec] {
        &self.specs
    }

    fn call(&self, call: &ToolCall, context: &CallContext) -> Result<ToolOutcome, UnknownTool> {
        self.seen.lock().calls += 1;
        self.changed.notify_all();
        let text = |text: &str| vec![Block::Text(text.to_owned())];
        let outcome = |structured: Value| ToolOutcome { content: text("done"), structured, is_error: false };
        let error = |code: &str| ToolOutcome {
            content: text(code),
            structured: json!({"code": code, "message": "so", "retryable": false, "applied": false}),
            is_error: true,
        };
        Ok(match call.name.as_str() {
            "echo" => outcome(json!({
                "arguments": call.arguments,
                "operation_id": call.operation_id,
                "session": context.actor.session,
                "view": context.actor.view,
                "uid": context.actor.uid,
                "pid": context.actor.pid,
                "owner": [context.owner.0, context.owner.1],
            })),
            "wait" => {
                if self.stay(|| context.cancelled.is_set()) {
                    self.seen.lock().given_up += 1;
                    self.changed.notify_all();
                    error("cancelled")
                } else {
                    outcome(json!({}))
                }
            }
            "hold" => {
                self.stay(|| false);
                self.seen.lock().held += 1;
                self.changed.notify_all();
                outcome(json!({}))
            }
            "big" => {
                let size = call.arguments["size"].as_u64().expect("a size");
                outcome(json!({"text": "x".repeat(usize::try_from(size).expect("a size"))}))
            }
            "fails" => error("invalid_argument"),
            "breaks" => std::panic::resume_unwind(Box::new("as the test wants it")),
            "shows" => ToolOutcome {
                content: vec![
                    Block::Text("a picture".into()),
                    Block::Image { data: "AA==".into(), media_type: "image/png".into() },
                    Block::Resource {
                        uri: "wardfs:/a.pdf".into(),
                        data: "AA==".into(),
                        media_type: "application/pdf".into(),
                    },
                ],
                structured: json!({}),
                is_error: false,
            },
            _ => return Err(UnknownTool(call.name.clone())),
        })
    }
}

/// A served socket.
pub struct Room {
    _dir: TempDir,
    pub path: PathBuf,
    pub tools: Arc<Fake>,
    server: Option<Server>,
}

impl Room {
    pub fn new() -> Room {
        Room::of(Limits::default())
    }

    pub fn of(limits: Limits) -> Room {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let tools = Arc::new(Fake::new());
        let mut room = Room { _dir: dir, path, tools, server: None };
        room.start(limits);
        room
    }

    /// Serves at the same path, again.
    pub fn start(&mut self, limits: Limits) {
        if self.path.exists() {
            std::fs::remove_file(&self.path).expect("it goes");
        }
        let listener = UnixListener::bind(&self.path).expect("a socket");
        let tools: Arc<dyn Toolbox> = Arc::clone(&self.tools) as Arc<dyn Toolbox>;
        self.server = Some(serve(listener, tools, "test", limits).expect("a server"));
    }

    pub fn talk(&self) -> Talk {
        let stream = UnixStream::connect(&self.path).expect("a connection");
        stream.set_read_timeout(Some(LONG)).expect("a time-out");
        stream.set_write_timeout(Some(LONG)).expect("a time-out");
        Talk { stream: BufReader::new(stream) }
    }

    pub fn shutdown(&mut self, time: Duration) {
        self.server.take().expect("it runs").shutdown(time);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.tools.open();
        if let Some(server) = self.server.take() {
            server.shutdown(LONG);
        }
    }
}

/// A client.
pub struct Talk {
    pub stream: BufReader<UnixStream>,
}

impl Talk {
    /// Bytes as they are.
    #[track_caller]
    pub fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).expect("the socket takes it");
    }

    #[track_caller]
    pub fn send(&mut self, message: &Value) {
        self.raw(format!("{message}\n"));
    }

    /// A plain call; it is not waited for.
    #[track_caller]
    pub fn ask(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) {
        let params = json!({"name": tool, "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params}));
    }

    /// The next line.
    #[track_caller]
    pub fn next(&mut self) -> Value {
        let mut line = String::new();
        let count = self.stream.read_line(&mut line).expect("a line in time");
        assert!(count > 0 && line.ends_with('\n'), "the connection ended: {line:?}");
        let answer: Value = serde_json::from_str(&line).expect("a line is JSON");
        assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
        answer
    }

    /// The next line, which is a result.
    #[track_caller]
    pub fn result(&mut self, id: impl Into<Value>) -> Value {
        let mut answer = self.next();
        assert_eq!(answer["id"], id.into(), "{answer}");
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].take()
    }

    /// The next line, which is a protocol error.
    #[track_caller]
    pub fn error(&mut self, id: impl Into<Value>, code: i64) -> String {
        let answer = self.next();
        let answered = answer.get("id").cloned().unwrap_or_default();
        assert_eq!((answered, &answer["error"]["code"]), (id.into(), &json!(code)), "{answer}");
        assert!(answer.get("result").is_none(), "{answer}");
        answer["error"]["message"].as_str().expect("a message").to_owned()
    }

    /// Nothing else was sent: an echo comes next.
    #[track_caller]
    pub fn quiet(&mut self) {
        self.ask("quiet", "echo", json!({}));
        self.result("quiet");
    }

    /// The connection ends, without another line.
    #[track_caller]
    pub fn ended(&mut self) {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => assert_eq!(String::from_utf8_lossy(&rest), "", "nothing more comes"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
        }
    }

    /// No more requests; answers are still read.
    pub fn end_of_requests(&self) {
        self.stream.get_ref().shutdown(Shutdown::Write).expect("it ends");
    }
}
