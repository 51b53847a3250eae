//! Extended attributes: the user's are the host's; ours are answered and not listed.

use rustix::{
    fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr},
    io::Errno,
};
use sha2::{Digest, Sha256};

use crate::harness::{Mounted, Setup};

fn get(mount: &Mounted, path: &str, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 4096];
    let length = getxattr(mount.at(path), name, &mut value)?;
    value.truncate(length);
    Ok(value)
}

fn list(mount: &Mounted, path: &str) -> Vec<String> {
    let mut names = vec![0; 4096];
    let length = listxattr(mount.at(path), &mut names).unwrap();
    let names = String::from_utf8(names[..length].to_vec()).unwrap();
    let mut names: Vec<_> =
        names.split_terminator('\0').filter(|n| n.starts_with("user.")).map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn set_get_list_remove() {
    let Some(mount) = Setup::new().file("a", "x").mount() else { return };
    let set = |name: &str, value: &[u8], flags| setxattr(mount.at("a"), name, value, flags);
    assert_eq!(set("user.one", b"1", XattrFlags::CREATE), Ok(()));
    assert_eq!(set("user.one", b"2", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(set("user.two", b"2", XattrFlags::REPLACE), Err(Errno::NODATA));
    assert_eq!(set("user.one", b"22", XattrFlags::REPLACE), Ok(()));
    assert_eq!(set("user.two", &[7; 1000], XattrFlags::empty()), Ok(()));
    assert_eq!(get(&mount, "a", "user.one"), Ok(b"22".to_vec()));
    assert_eq!(list(&mount, "a"), ["user.one", "user.two"]);
    let mut short = [0_u8; 10];
    assert_eq!(getxattr(mount.at("a"), "user.two", &mut short), Err(Errno::RANGE));
    assert_eq!(get(&mount, "a", "user.two").map(|value| value.len()), Ok(1000));
    assert_eq!(removexattr(mount.at("a"), "user.one"), Ok(()));
    assert_eq!(removexattr(mount.at("a"), "user.one"), Err(Errno::NODATA));
    assert_eq!(get(&mount, "a", "user.one"), Err(Errno::NODATA));
    let mut value = [0_u8; 1000];
    assert_eq!(getxattr(mount.beside("a"), "user.two", &mut value), Ok(1000), "on the host");
}

#[test]
fn the_mountpoint_names_its_socket() {
    let Some(mount) = Mounted::new() else { return };
    let socket = get(&mount, ".", "user.wardfs.socket").unwrap();
    assert_eq!(String::from_utf8(socket).unwrap(), mount.socket().to_str().unwrap());
}

#[test]
fn a_file_knows_its_hash_and_version() {
    let Some(mount) = Setup::new().file("a", "hello\n").mount() else { return };
    let hash = |content: &[u8]| {
        let hex: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex}")
    };
    let answer = || String::from_utf8(get(&mount, "a", "user.wardfs.hash").unwrap()).unwrap();
    assert_eq!(answer(), hash(b"hello\n"));
    std::fs::write(mount.at("a"), "other\n").unwrap();
    assert_eq!(answer(), hash(b"other\n"), "after a write");
    assert!(!get(&mount, "a", "user.wardfs.version").unwrap().is_empty());
    assert_eq!(list(&mount, "a"), Vec::<String>::new(), "ours are not listed");
    let set = setxattr(mount.at("a"), "user.wardfs.hash", b"x", XattrFlags::empty());
    assert!(set.is_err(), "ours cannot be set");
}

#[test]
fn access_lists_are_refused_not_lost() {
    let Some(mount) = Setup::new().file("a", "x").mount() else { return };
    let set = setxattr(mount.at("a"), "system.posix_acl_access", b"\x02\x00\x00\x00", XattrFlags::empty());
    assert_eq!(set, Err(Errno::OPNOTSUPP));
    assert_eq!(get(&mount, "a", "system.posix_acl_access"), Err(Errno::OPNOTSUPP));
}
