//! Temporary files of builds leave one row and no content.

use crate::harness::{Mounted, sh};

#[test]
fn what_one_process_makes_and_removes_in_a_build_directory_is_one_row() {
    let Some(mount) = Mounted::new() else { return };
    let script = "
import os
for place in ('target', 'src'):
    os.mkdir(place)
    with open(place + '/tmp1', 'wb') as f: f.write(os.urandom(20000))
    os.unlink(place + '/tmp1')
";
    std::fs::write(mount.setup().dir().join("script.py"), script).unwrap();
    sh(mount.path(), "python3 ../script.py; echo x > target/kept; rm target/kept; true").ok();
    let mut client = mount.client();
    let rows = client.history(Some("target/tmp1"));
    assert_eq!(rows.len(), 1, "{rows:?}");
    let changes = rows[0]["changes"].as_array().unwrap();
    let words: Vec<_> = changes.iter().map(|change| (&change["change"], &change["unversioned"])).collect();
    assert_eq!(words, [(&"create".into(), &"transient".into()), (&"remove".into(), &"transient".into())]);
    // Elsewhere, and by two processes, all is kept.
    assert_eq!(client.history(Some("src/tmp1")).len(), 2);
    assert_eq!(client.history(Some("target/kept")).len(), 2);
}
