//! `docs/config.md` held against the types that the file is read into: no key without a row, no row without a key, no
//! other default, and a reload that does what the row says.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize as _, forward_to_deserialize_any};

use super::Config;
use super::raw::RawConfig;
use crate::reload::FIXED;

/// Every key, as `agent.embedded.listen` or `plugins.NAME.containers[].user`.
fn keys() -> Vec<String> {
    let (mut paths, mut found) = (vec![Vec::<String>::new()], Vec::<Vec<String>>::new());
    while let Some(path) = paths.pop() {
        let walker = Walker { path: &path, at: 0 };
        let answer = RawConfig::deserialize(walker).expect_err("a walker gives no value");
        match answer {
            Answer::Fields(fields) => paths.extend(fields.iter().map(|field| {
                let mut path = path.clone();
                path.push((*field).to_owned());
                path
            })),
            // Of values: a list of texts is a value itself.
            Answer::Below(step) => {
                let mut below = path.clone();
                below.push(step.to_owned());
                let walker = Walker {
                    path: &below,
                    at: 0,
                };
                match RawConfig::deserialize(walker).expect_err("a walker gives no value") {
                    Answer::Fields(_) => paths.push(below),
                    _ => found.push(path),
                }
            }
            Answer::Leaf => found.push(path),
            // A size hands errors on as texts.
            Answer::Other(error) if error == Answer::Leaf.to_string() => found.push(path),
            Answer::Other(error) => panic!("{path:?}: {error}"),
        }
    }
    let mut keys: Vec<_> = found
        .iter()
        .map(|path| path.join(".").replace(".[]", "[]"))
        .collect();
    keys.sort();
    keys
}

/// What is at a path.
#[derive(Debug)]
enum Answer {
    Fields(&'static [&'static str]),
    /// A list, or a table of any names.
    Below(&'static str),
    Leaf,
    Other(String),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Answer {}

impl de::Error for Answer {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Other(message.to_string())
    }
}

/// Goes down a path of keys, and answers what is there by an error.
#[derive(Clone, Copy)]
struct Walker<'a> {
    path: &'a [String],
    at: usize,
}

impl<'a> Walker<'a> {
    fn next(self) -> Option<(&'a str, Self)> {
        let step = self.path.get(self.at)?;
        let at = self.at + 1;
        Some((step, Self { at, ..self }))
    }
}

impl<'de> Deserializer<'de> for Walker<'_> {
    type Error = Answer;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Answer> {
        Err(Answer::Leaf)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Answer> {
        visitor.visit_some(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Answer> {
        match self.next() {
            None => Err(Answer::Fields(fields)),
            Some((step, below)) => visitor.visit_map(One(Some(step), below)),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Answer> {
        match self.next() {
            None => Err(Answer::Below("NAME")),
            Some((step, below)) => visitor.visit_map(One(Some(step), below)),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Answer> {
        match self.next() {
            None => Err(Answer::Below("[]")),
            Some((step, below)) => visitor.visit_seq(One(Some(step), below)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct enum identifier ignored_any
    }
}

/// A table or list of one.
struct One<'a>(Option<&'a str>, Walker<'a>);

impl<'de> MapAccess<'de> for One<'_> {
    type Error = Answer;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Answer> {
        let key = self.0.take();
        key.map(|key| seed.deserialize(de::value::StrDeserializer::new(key)))
            .transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Answer> {
        seed.deserialize(self.1)
    }
}

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Answer;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Answer> {
        self.0.take().map(|_| seed.deserialize(self.1)).transpose()
    }
}

/// A row of the page: default, values, reload.
type Row = [String; 3];

/// The rows of the page by key. A heading says what the keys below it belong to: ``## `[agent]`: ..``.
fn rows(page: &str) -> BTreeMap<String, Row> {
    let (mut rows, mut table) = (BTreeMap::new(), None);
    for line in page.lines() {
        if line.starts_with('#') {
            let name = line.split('`').nth(1);
            let named = name.map(|name| name.trim_matches(['[', ']']).to_owned() + ".");
            table = named.or_else(|| line.ends_with("Top level").then(String::new));
        }
        let cells: Vec<_> = line.split(" | ").collect();
        let (Some(table), [keys, default, values, reload, ..]) = (&table, cells.as_slice()) else {
            continue;
        };
        let Some(keys) = keys.strip_prefix("| `") else {
            continue;
        };
        for key in keys.trim_end_matches('`').split("`, `") {
            let list = if table == "plugins.NAME.containers." {
                "plugins.NAME.containers[]."
            } else {
                table.as_str()
            };
            let row = [default, values, reload].map(|cell| cell.trim().to_owned());
            let before = rows.insert(format!("{list}{key}"), row);
            assert_eq!(before, None, "two rows for {list}{key}");
        }
    }
    rows
}

fn page() -> BTreeMap<String, Row> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md");
    rows(&std::fs::read_to_string(page).unwrap())
}

/// The tables of one plugin take the keys of `[csi]`: one row says so.
fn row_of(key: &str) -> String {
    for table in ["plugins.NAME.liveness", "plugins.NAME.restart"] {
        if key.starts_with(&format!("{table}.")) {
            return table.to_owned();
        }
    }
    key.to_owned()
}

#[test]
fn every_key_has_a_row_and_every_row_a_key() {
    let keys = keys();
    assert!(keys.len() > 70, "{keys:#?}");
    let mut rows = page();
    let missing: Vec<_> = keys
        .iter()
        .map(|key| row_of(key))
        .filter(|key| !rows.contains_key(key))
        .collect();
    assert_eq!(missing, Vec::<String>::new(), "keys without a row");
    for key in keys {
        rows.remove(&row_of(&key));
    }
    // Of a list of tables there is a row, too.
    rows.remove("plugins.NAME.containers");
    let unknown: Vec<_> = rows.keys().collect();
    assert_eq!(unknown, Vec::<&String>::new(), "rows without a key");
}

#[test]
fn the_defaults_are_those_of_the_program() {
    let rows = page();
    let defaults = Config::defaults();
    for setting in &defaults {
        let value = match &setting.value {
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let row = &rows[&setting.key];
        assert_eq!(row[0], format!("`{value}`"), "{}", setting.key);
    }
    for (key, [default, values, _]) in &rows {
        let known = defaults.iter().any(|setting| setting.key == *key);
        let of_a_table = key.starts_with("plugins.");
        assert!(known || of_a_table || default == "-", "{key}: {default}");
        assert_ne!(values, "", "{key} has no values");
    }
}

#[test]
fn what_needs_a_new_start_is_what_a_reload_refuses_to_change() {
    for (key, [_, _, reload]) in page() {
        // `tasks.dir` is followed, all else of the table is not.
        let fixed = |(of, _): &(&str, _)| *of == key || key.starts_with(&format!("{of}."));
        let no = FIXED.iter().any(fixed) && key != "tasks.dir";
        assert_eq!(reload, if no { "no" } else { "yes" }, "{key}");
    }
}
