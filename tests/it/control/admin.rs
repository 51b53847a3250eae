//! The admin socket.

use std::{io::BufReader, os::unix::net::UnixListener, sync::Arc};

use rustix::process::Uid;
use serde_json::{Value, json};
use wardfs::control::{Admin, AdminError, serve_admin};

use super::room::{LONG, Talk};
use crate::harness::is_root;

struct Human;

impl Admin for Human {
    fn handle(&self, method: &str, params: &Value) -> Result<Value, AdminError> {
        match method {
            "echo" => Ok(params.clone()),
            "break" => std::panic::resume_unwind(Box::new("as the test wants it")),
            other => Err(AdminError(format!("no command {other:?}"))),
        }
    }
}

fn served(test: impl FnOnce(&std::path::Path)) {
    let dir = tempfile::tempdir().expect("it works");
    let path = dir.path().join("admin");
    let server = serve_admin(UnixListener::bind(&path).expect("it works"), Arc::new(Human)).expect("it works");
    test(&path);
    server.shutdown(LONG);
}

fn talk(path: &std::path::Path) -> Talk {
    let stream = std::os::unix::net::UnixStream::connect(path).expect("it works");
    stream.set_read_timeout(Some(LONG)).expect("it works");
    Talk { stream: BufReader::new(stream) }
}

#[test]
fn commands_are_carried_out_and_faults_are_said() {
    served(|path| {
        let mut talk = talk(path);
        talk.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"a": 1}}));
        assert_eq!(talk.result(1), json!({"a": 1}));
        talk.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "what"}));
        assert_eq!(talk.error(2, 2), "no command \"what\"");
        talk.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "break"}));
        talk.error(3, -32603);
        talk.send(&json!({"jsonrpc": "2.0", "id": 4}));
        talk.error(4, -32600);
        talk.raw("no JSON\n");
        talk.error(Value::Null, -32700);
        talk.raw("[".repeat(100_000) + "\n");
        talk.error(Value::Null, -32600);
        talk.raw("x".repeat((1 << 20) + 1) + "\n");
        talk.error(Value::Null, -32600);
        talk.send(&json!({"jsonrpc": "2.0", "id": 5, "method": "echo"}));
        assert_eq!(talk.result(5), Value::Null);
    });
}

/// Another user is told no, whatever the mode of the socket's file.
#[test]
fn nobody_else_may_command() {
    if !is_root() {
        // Only root can be somebody else.
        return;
    }
    served(|path| {
        let everyone = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, everyone(0o777)).unwrap();
        std::fs::set_permissions(path.parent().unwrap(), everyone(0o755)).unwrap();
        let path = path.to_owned();
        // A thread has an identity of its own, and takes it with it when it ends.
        let other = std::thread::spawn(move || {
            let nobody = Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            let mut talk = talk(&path);
            let said = talk.error(Value::Null, 2);
            assert!(said.contains("only the daemon's own user"), "{said}");
            talk.ended();
        });
        other.join().expect("it was refused");
    });
}
