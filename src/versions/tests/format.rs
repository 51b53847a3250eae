//! The page about the format is enough to read a store, and says all that is in it, and nothing that is not.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use minicbor::{Decoder, data::Type};
use proptest::strategy::{Strategy, ValueTree};
use regex::Regex;

use super::{
    collecting_crashes,
    ground::Ground,
    shapes::{open_mark, operation},
};
use crate::{
    types::{Hash, NodeId, OpId},
    versions::{Content, Store, gc::Aim},
};

/// Anything that CBOR holds.
#[derive(Clone, PartialEq, Debug)]
enum Value {
    Number,
    Bytes,
    Text,
    Bool,
    Null,
    List(Vec<Value>),
    Map(BTreeMap<u64, Value>),
}

fn value(decoder: &mut Decoder<'_>) -> Value {
    match decoder.datatype().expect("CBOR") {
        Type::Null => {
            decoder.null().expect("null");
            Value::Null
        }
        Type::Bool => {
            decoder.bool().expect("a boolean");
            Value::Bool
        }
        Type::Bytes => {
            decoder.bytes().expect("bytes");
            Value::Bytes
        }
        Type::String => {
            decoder.str().expect("text");
            Value::Text
        }
        Type::Array => {
            let count = decoder.array().expect("a list").expect("of known length");
            Value::List((0..count).map(|_| value(decoder)).collect())
        }
        Type::Map => {
            let count = decoder.map().expect("a map").expect("of known length");
            Value::Map((0..count).map(|_| (decoder.u64().expect("a field"), value(decoder))).collect())
        }
        Type::U8
        | Type::U16
        | Type::U32
        | Type::U64
        | Type::I8
        | Type::I16
        | Type::I32
        | Type::I64
        | Type::Int
        | Type::F16
        | Type::F32
        | Type::F64
        | Type::Simple
        | Type::Undefined
        | Type::BytesIndef
        | Type::StringIndef
        | Type::ArrayIndef
        | Type::MapIndef
        | Type::Tag
        | Type::Break
        | Type::Unknown(_) => {
            decoder.int().expect("a number");
            Value::Number
        }
    }
}

/// What the page says: the numbered fields of each thing, and the types of records by number.
struct Page {
    fields: BTreeMap<String, BTreeSet<u64>>,
    types: BTreeMap<u8, String>,
}

fn numbered(text: &str) -> BTreeSet<u64> {
    let aside = Regex::new(r"\([^)]*\)").expect("a pattern");
    let item = Regex::new(r"(?:^|, |,\n)(\d+) ").expect("a pattern");
    let text = aside.replace_all(text, "");
    item.captures_iter(&text).map(|found| found[1].parse().expect("a number")).collect()
}

fn page() -> Page {
    let text = include_str!("../FORMAT.md");
    let mut page = Page { fields: BTreeMap::new(), types: BTreeMap::new() };
    let row = Regex::new(r"(?m)^\| (\d+) \| ([A-Z_]+) \| (.*) \|$").expect("a pattern");
    for found in row.captures_iter(text) {
        page.types.insert(found[1].parse().expect("a number"), found[2].to_owned());
        page.fields.insert(found[2].to_owned(), numbered(&found[3]));
    }
    for thing in ["Operation", "Change", "State", "Content"] {
        let from = text.find(&format!("\n{thing}: ")).expect("it is on the page") + thing.len() + 3;
        let paragraph = &text[from..from + text[from..].find("\n\n").expect("an end")];
        page.fields.insert(thing.to_owned(), numbered(paragraph));
    }
    page
}

/// Fields that hold a thing of their own.
fn nested(thing: &str, field: u64) -> Option<&'static str> {
    Some(match (thing, field) {
        ("Operation", 4) => "Change",
        ("Change", 6 | 7) | ("OPEN", 7) => "State",
        ("State", 10) | ("SETTLE", 2) => "Content",
        _ => return None,
    })
}

/// Fields that were seen, by thing.
type Seen = BTreeMap<String, BTreeSet<u64>>;

fn check(page: &Page, seen: &mut Seen, thing: &str, value: &Value) {
    match value {
        Value::Map(map) => {
            for (field, value) in map {
                assert!(page.fields[thing].contains(field), "{thing} has a field {field} that the page does not name");
                if *value != Value::Null {
                    seen.entry(thing.to_owned()).or_default().insert(*field);
                }
                if let Some(inner) = nested(thing, *field) {
                    check(page, seen, inner, value);
                }
            }
        }
        Value::List(list) => list.iter().for_each(|value| check(page, seen, thing, value)),
        Value::Null | Value::Number => {}
        Value::Bytes | Value::Text | Value::Bool => panic!("{thing}: {value:?}"),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"))
}

/// One record, checked as the page says; and the number of bytes it takes.
fn record(file: &[u8], at: usize, position: u64, salt: u32) -> Option<(u8, u8, Vec<u8>, usize)> {
    let head = file.get(at..at + 36)?;
    if u32_at(head, 0) != 0x5244_5257 {
        return None;
    }
    assert_eq!(u32_at(head, 32), crc32c::crc32c(&head[..32]), "the header's checksum at {position}");
    assert_eq!((u16::from_le_bytes([head[6], head[7]]), u64_at(head, 12), u32_at(head, 20)), (36, position, salt));
    let size = usize::try_from(u32_at(head, 8)).expect("it fits");
    let payload = &file[at + 36..at + 36 + size];
    assert_eq!(u32_at(file, at + 36 + size), crc32c::crc32c(payload), "the payload's checksum at {position}");
    let end = at + (36 + size + 4).next_multiple_of(8);
    assert!(file[at + 40 + size..end].iter().all(|byte| *byte == 0));
    Some((head[4], head[5], payload.to_vec(), end - at))
}

/// All records of a log, in order: type, flags, payload. The number of packed segments.
fn read(store: &Path) -> (Vec<(u8, u8, Vec<u8>)>, usize) {
    let mut files: Vec<_> =
        std::fs::read_dir(store.join("log")).expect("a log").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let files: Vec<Vec<u8>> = files.iter().map(|path| std::fs::read(path).expect("readable")).collect();
    let (mut records, mut packed, mut next) = (Vec::new(), 0, 0);
    for (at, file) in files.iter().enumerate() {
        assert_eq!((&file[..8], u32_at(file, 8)), (&b"WARDFSEG"[..], 1));
        assert_eq!(u32_at(file, 28), crc32c::crc32c(&file[..28]));
        let (salt, base, table) = (u32_at(file, 12), u64_at(file, 16), u32_at(file, 24) as usize);
        if base < next {
            continue;
        }
        assert_eq!(base, next, "a segment is missing");
        if table > 0 {
            packed += 1;
            let rows = &file[table + 28..];
            let rows = &rows[..12 * usize::try_from(u64_at(file, table + 16)).expect("it fits")];
            assert_eq!(
                u32_at(file, table + 24),
                crc32c::crc32c_append(crc32c::crc32c(&file[table..table + 24]), rows),
                "the table's checksum"
            );
            for row in rows.chunks_exact(12) {
                let (position, at) = (u64_at(row, 0), u32_at(row, 8) as usize);
                let (kind, flags, payload, _) = record(file, at, position, salt).expect("a record");
                records.push((kind, flags, payload));
            }
            next = u64_at(file, table);
            continue;
        }
        let mut offset = 32;
        let end = files.get(at + 1).map(|next| u64_at(next, 16));
        while end.is_none_or(|end| base + (offset as u64 - 32) < end) {
            let position = base + (offset as u64 - 32);
            let Some((kind, flags, payload, size)) = record(file, offset, position, salt) else {
                assert_eq!(end, None, "a closed segment ends early");
                break;
            };
            records.push((kind, flags, payload));
            offset += size;
        }
        next = base + (offset as u64 - 32);
    }
    (records, packed)
}

/// Contents by hash, decoded as the page says.
fn contents(records: &[(u8, u8, Vec<u8>)]) -> BTreeMap<[u8; 32], (u8, Vec<u8>)> {
    let mut all: BTreeMap<[u8; 32], (u8, Vec<u8>)> = BTreeMap::new();
    let mut later: Vec<_> = records.iter().filter(|(kind, _, _)| *kind == 1).collect();
    while !later.is_empty() {
        let before = later.len();
        later.retain(|(_, flags, payload)| {
            let (hash, size) = (payload[..32].try_into().expect("a hash"), u64_at(payload, 32));
            let size = usize::try_from(size).expect("it fits");
            let bytes = match flags {
                0 => payload[40..].to_vec(),
                1 => zstd::bulk::decompress(&payload[40..], size).expect("a frame"),
                2 => {
                    let Some((_, base)) = all.get(&payload[40..72]) else { return true };
                    let mut with = zstd::bulk::Decompressor::with_dictionary(base).expect("a dictionary");
                    with.decompress(&payload[72..], size).expect("a frame")
                }
                other => panic!("flags {other}"),
            };
            assert_eq!(Hash::of(&bytes).0, hash);
            all.insert(hash, (*flags, bytes));
            false
        });
        assert!(later.len() < before, "{} differences to nothing", later.len());
    }
    all
}

fn fill(store: &Store, dir: &Path) {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    collecting_crashes::build(store, dir);
    let mut differences = 0;
    for _ in 0..3 {
        store.keeping.told_long_ago(store);
        differences += store.collect(Aim::Rules, false).expect("collected").deltas;
    }
    assert!(differences > 0);
    let mut last = OpId(0);
    for _ in 0..80 {
        let mut made = operation().new_tree(&mut runner).expect("a value").current();
        made.op = store.next_op();
        last = made.op;
        store.begun(&made).expect("announced");
        store.append(&made).expect("appended");
        if made.intent {
            store.withdrawn(made.op).expect("appended");
            store.aborted(made.op).expect("appended");
        }
    }
    let mut mark = open_mark().new_tree(&mut runner).expect("a value").current();
    mark.op = store.next_op();
    store.opened(&mark).expect("appended");
    store.closed(mark.op).expect("appended");
    store.settled(last, NodeId(1), &Content::Blob(Hash([1; 32]))).expect("appended");
    store.checkpoint("here", Some("a note"), &mark.actor).expect("appended");
    let replay = crate::versions::Replay { op: Some(last), request: Hash([2; 32]), response: Some("{}".into()) };
    store.answered("view", "id", &replay).expect("appended");
    store.source(&crate::versions::NodeKey(b"root".to_vec().into()), Path::new("/root")).expect("appended");
    let part = crate::versions::Review { content: Some(Hash([3; 32])), ..super::ground::accepted(store, 1) };
    store.review(&part).expect("appended");
    let mut finished = operation().new_tree(&mut runner).expect("a value").current();
    (finished.op, finished.intent) = (store.next_op(), true);
    store.append(&finished).expect("appended");
    store.applied(finished.op).expect("appended");
}

#[test]
fn a_store_is_read_by_its_page_alone() {
    let ground = Ground::new();
    let (said, known) = {
        let store = ground.open();
        fill(&store, &ground.store());
        let said = store.stats().expect("counted").operations;
        let query = crate::versions::HistoryQuery { limit: 10_000, ..Default::default() };
        let known = store.history(&query).expect("answered").operations;
        store.close().expect("closed");
        (said, known.len())
    };
    assert_eq!(said, known as u64);
    let page = page();
    let (records, packed) = read(&ground.store());
    assert!(packed > 0, "nothing was packed");
    let (mut seen, mut kinds) = (Seen::new(), BTreeMap::<String, usize>::new());
    let (mut operations, mut horizon) = (BTreeSet::new(), 0);
    for (kind, flags, payload) in &records {
        let name = page.types.get(kind).unwrap_or_else(|| panic!("a record of type {kind}, which is not on the page"));
        *kinds.entry(name.clone()).or_default() += 1;
        if name == "BLOB" {
            continue;
        }
        assert_eq!(*flags, 0, "{name}");
        let mut decoder = Decoder::new(payload);
        let value = value(&mut decoder);
        assert_eq!(decoder.position(), payload.len(), "{name} has something behind it");
        let thing = if matches!(name.as_str(), "OP" | "BEGUN") { "Operation" } else { name };
        check(&page, &mut seen, thing, &value);
        let number = |field: u64| {
            let mut decoder = Decoder::new(payload);
            let count = decoder.map().expect("a map").expect("of known length");
            (0..count).find_map(|_| {
                let found = decoder.u64().expect("a field") == field;
                let at = decoder.position();
                decoder.skip().expect("a value");
                found.then(|| Decoder::new(&payload[at..]).u64().expect("a number"))
            })
        };
        match name.as_str() {
            "OP" => drop(operations.insert(number(0).expect("its number"))),
            "ABORT" => drop(operations.remove(&Decoder::new(payload).u64().expect("a number"))),
            "TRIM" => horizon = horizon.max(number(2).expect("a horizon")),
            _ => {}
        }
    }
    assert_eq!(operations.iter().filter(|op| **op > horizon).count(), known, "operations");
    let kept: Vec<&String> = page.types.values().filter(|name| !kinds.contains_key(*name)).collect();
    assert_eq!(kept, ["UNDO_EXTENT", "PIN"], "types that the page names and no store has");
    for (thing, fields) in &page.fields {
        let seen = seen.get(thing).cloned().unwrap_or_default();
        assert_eq!(*fields, seen, "{thing}: fields that the page names, and those that a store has");
    }
    let flags: BTreeSet<u8> = contents(&records).values().map(|(flags, _)| *flags).collect();
    assert_eq!(flags, BTreeSet::from([0, 1, 2]));
}
