//! Entries that may be written short: a string, or a table or list that says more. The places of what stands in them survive,
//! which an untagged enum would lose.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use toml::Spanned;

/// A source: its directory, or a table.
pub(super) enum SourceEntry {
    Path(String),
    Table(SourceFields),
}

/// A source that says more.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceFields {
    pub path: Spanned<String>,
    pub name: Option<Spanned<String>>,
    pub access: Option<Spanned<String>>,
}

impl<'de> Deserialize<'de> for SourceEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = SourceEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a directory, or a table with `path`, and `name` and `access` if you like")
            }

            fn visit_str<E: Error>(self, path: &str) -> Result<SourceEntry, E> {
                Ok(SourceEntry::Path(path.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SourceEntry, A::Error> {
                SourceFields::deserialize(MapAccessDeserializer::new(map)).map(SourceEntry::Table)
            }
        }
        deserializer.deserialize_any(Entry)
    }
}

/// One word, or several.
pub(super) struct OneOrMany(pub Vec<String>);

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or a list of strings")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany(vec![word.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OneOrMany, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = list.next_element()? {
                    words.push(word);
                }
                Ok(OneOrMany(words))
            }
        }
        deserializer.deserialize_any(Words)
    }
}
