//! From a key to its line in a TOML text, and back.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A parsed text that knows where each key stands.
#[derive(Debug)]
pub(crate) struct Located<'a> {
    text: &'a str,
    table: Option<Spanned<DeTable<'a>>>,
}

impl<'a> Located<'a> {
    /// Parses `text`; one that does not parse locates nothing.
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            text,
            table: DeTable::parse(text).ok(),
        }
    }

    /// The line, counted from 1, of the longest known beginning of `key` (`a.b[0].c`); 0 when
    /// not even its first part is there.
    pub(crate) fn line(&self, key: &str) -> usize {
        let Some(table) = &self.table else { return 0 };
        let mut found = 0;
        let mut table = Some(table.get_ref());
        for part in split(key) {
            let Some(current) = table else { break };
            let (name, index) = part;
            let Some((at, value)) = current.iter().find(|(at, _)| at.get_ref() == &name) else {
                break;
            };
            found = self.line_at(at.span().start);
            let mut value: &Spanned<DeValue<'_>> = value;
            if let (Some(index), DeValue::Array(items)) = (index, value.get_ref()) {
                let Some(item) = items.get(index) else { break };
                found = self.line_at(item.span().start);
                value = item;
            }
            table = match value.get_ref() {
                DeValue::Table(inner) => Some(inner),
                _ => None,
            };
        }
        found
    }

    /// Whether the whole of `key` is in the text.
    pub(crate) fn has(&self, key: &str) -> bool {
        let mut table = self.table.as_ref().map(Spanned::get_ref);
        for (name, index) in split(key) {
            let Some(value) = table.and_then(|table| table.get(name.as_str())) else {
                return false;
            };
            let value = match (index, value.get_ref()) {
                (Some(index), DeValue::Array(items)) => match items.get(index) {
                    Some(item) => item.get_ref(),
                    None => return false,
                },
                (_, value) => value,
            };
            table = match value {
                DeValue::Table(inner) => Some(inner),
                _ => None,
            };
        }
        true
    }

    /// The dotted key whose name or value covers the byte `offset`; empty for none.
    pub(crate) fn key_at(&self, offset: usize) -> String {
        let mut key = String::new();
        if let Some(table) = &self.table {
            descend(table.get_ref(), offset, &mut key);
        }
        key
    }

    pub(crate) fn line_at(&self, offset: usize) -> usize {
        let end = offset.min(self.text.len());
        self.text.as_bytes()[..end]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            + 1
    }
}

/// A key as TOML writes it: in quotes where it has to be.
pub(crate) fn quoted(name: &str) -> std::borrow::Cow<'_, str> {
    let bare = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if !name.is_empty() && name.chars().all(bare) {
        name.into()
    } else {
        format!("\"{name}\"").into()
    }
}

/// Takes the innermost key out whose name or value covers the byte `offset`; false when there is none.
pub(crate) fn prune(table: &mut DeTable<'_>, offset: usize) -> bool {
    let covers = |span: std::ops::Range<usize>| {
        span.start <= offset && offset < span.end.max(span.start + 1)
    };
    let found = table.iter_mut().find_map(|(name, value)| {
        let own = covers(name.span());
        if !own && !covers(value.span()) && !holds(value.get_ref(), offset) {
            return None;
        }
        let deeper = !own
            && match value.get_mut() {
                DeValue::Table(inner) => prune(inner, offset),
                DeValue::Array(items) => items.iter_mut().any(|item| {
                    let inside = covers(item.span()) || holds(item.get_ref(), offset);
                    match item.get_mut() {
                        DeValue::Table(inner) if inside => prune(inner, offset),
                        _ => false,
                    }
                }),
                _ => false,
            };
        Some((name.get_ref().to_string(), deeper))
    });
    match found {
        None => false,
        Some((_, true)) => true,
        Some((name, false)) => table.remove(name.as_str()).is_some(),
    }
}

fn descend(table: &DeTable<'_>, offset: usize, key: &mut String) {
    for (name, value) in table {
        let covers = |span: std::ops::Range<usize>| {
            span.start <= offset && offset < span.end.max(span.start + 1)
        };
        let inside = covers(value.span());
        let deeper = inside || holds(value.get_ref(), offset);
        if !covers(name.span()) && !deeper {
            continue;
        }
        if !key.is_empty() {
            key.push('.');
        }
        key.push_str(&quoted(name.get_ref()));
        match value.get_ref() {
            DeValue::Table(inner) => descend(inner, offset, key),
            DeValue::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    if covers(item.span()) || holds(item.get_ref(), offset) {
                        key.extend(["[", &index.to_string(), "]"]);
                        if let DeValue::Table(inner) = item.get_ref() {
                            descend(inner, offset, key);
                        }
                        return;
                    }
                }
            }
            _ => {}
        }
        return;
    }
}

/// Whether a key or value below covers `offset`: the span of a `[table]` is its header alone.
fn holds(value: &DeValue<'_>, offset: usize) -> bool {
    let covers = |span: std::ops::Range<usize>| span.start <= offset && offset < span.end;
    match value {
        DeValue::Table(table) => table.iter().any(|(name, value)| {
            covers(name.span()) || covers(value.span()) || holds(value.get_ref(), offset)
        }),
        DeValue::Array(items) => items
            .iter()
            .any(|item| covers(item.span()) || holds(item.get_ref(), offset)),
        _ => false,
    }
}

/// `a.b[0].c` as its parts with their indexes. Quoted parts keep their dots.
fn split(key: &str) -> Vec<(String, Option<usize>)> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut quoted = false;
    for c in key.chars() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(std::mem::take(&mut part)),
            _ => part.push(c),
        }
    }
    parts.push(part);
    parts
        .into_iter()
        .map(|part| {
            let index = part
                .strip_suffix(']')
                .and_then(|rest| rest.split_once('['))
                .and_then(|(name, index)| Some((name.to_owned(), index.parse().ok()?)));
            match index {
                Some((name, index)) => (name, Some(index)),
                None => (part, None),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "log = \"info\"\n\n[plugins.a]\ntype = \"x\"\n[[plugins.a.containers]]\ncommand = [\"x\",\n 5]\n";

    #[test]
    fn a_key_is_found_by_its_line() {
        let located = Located::new(TEXT);
        for (key, line) in [
            ("log", 1),
            ("plugins.a.type", 4),
            ("plugins.a.containers[0].command", 6),
            ("plugins.a.containers[0].command[1]", 7),
            ("plugins.a.nothing", 3),
            ("nothing", 0),
        ] {
            assert_eq!(located.line(key), line, "{key}");
        }
    }

    #[test]
    fn an_offset_is_found_by_its_key() {
        let located = Located::new(TEXT);
        for (needle, key) in [
            ("\"info\"", "log"),
            ("\"x\"\n[[", "plugins.a.type"),
            ("5]", "plugins.a.containers[0].command[1]"),
            ("command", "plugins.a.containers[0].command"),
        ] {
            assert_eq!(located.key_at(TEXT.find(needle).unwrap()), key, "{needle}");
        }
    }
}
