//! The table of what decoding a message allocates, from its descriptor.
//!
//! A row is a message or the entry of a map, a cell is a field by its number. The sizes of the
//! types are left to the compiler (`size_of`), so only the shape can become stale, and `--check`
//! sees that.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use heck::{ToSnakeCase, ToUpperCamelCase};
use protox::prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use protox::prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
};

/// The source of `cost.rs`: `ROWS`, and an impl of `Message` for each message of one package
/// without nested messages.
pub(super) fn table(set: &FileDescriptorSet) -> Result<String> {
    let mut rows = Vec::new();
    for file in &set.file {
        for message in &file.message_type {
            let name = format!(".{}.{}", file.package(), message.name());
            rows.push((name.clone(), message, false));
            for nested in &message.nested_type {
                let entry = nested.options.as_ref().is_some_and(|it| it.map_entry());
                if !entry {
                    bail!("{name}: nested messages are not supported in the table of costs");
                }
                rows.push((format!("{name}.{}", nested.name()), nested, true));
            }
        }
    }
    let index: BTreeMap<&str, usize> = rows
        .iter()
        .enumerate()
        .map(|(index, (name, ..))| (name.as_str(), index))
        .collect();
    let widest = rows
        .iter()
        .flat_map(|(_, message, _)| &message.field)
        .map(FieldDescriptorProto::number)
        .max()
        .context("no field")?;

    let mut out = String::from("use crate::cost::{Cell, Row};\n\n");
    writeln!(
        out,
        "pub(crate) const FIELDS: usize = {};\n\npub(crate) static ROWS: &[Row] = &[",
        widest + 1
    )?;
    for (name, message, _) in &rows {
        writeln!(out, "    // {}", name.trim_start_matches('.'))?;
        writeln!(out, "    Row(&[")?;
        let last = message.field.iter().map(FieldDescriptorProto::number).max();
        for number in 0..=last.unwrap_or(-1) {
            let field = message.field.iter().find(|it| it.number() == number);
            let cell = field.map_or(Ok("Cell::Free".to_owned()), |it| cell(it, &index, &rows))?;
            writeln!(out, "        {cell},")?;
        }
        writeln!(out, "    ]),")?;
    }
    out.push_str("];\n");
    for (row, (name, message, entry)) in rows.iter().enumerate() {
        if !entry {
            implementation(&mut out, name, message, row)?;
        }
    }
    out.push_str("\n#[cfg(test)]\npub(crate) static PROBES: &[(usize, crate::cost::Probe)] = &[\n");
    for (row, (_, message, entry)) in rows.iter().enumerate() {
        if !entry {
            let ty = rust_type(message.name());
            writeln!(out, "    ({row}, crate::cost::probe::<{ty}>),")?;
        }
    }
    out.push_str("];\n");
    Ok(out)
}

fn implementation(
    out: &mut String,
    name: &str,
    message: &DescriptorProto,
    row: usize,
) -> Result<()> {
    let ty = rust_type(message.name());
    let full = name.trim_start_matches('.');
    writeln!(
        out,
        "\nimpl crate::cost::sealed::Sealed for {ty} {{}}\n\nimpl crate::cost::Message for {ty} {{\n    const NAME: &'static str = \"{full}\";\n    \
         const ROW: usize = {row};\n}}\n\n#[cfg(test)]\nimpl crate::cost::Heap for {ty} {{\n    \
         fn heap(&self) -> usize {{"
    )?;
    let fields: Vec<_> = message
        .field
        .iter()
        .filter(|field| !is_scalar(field) || field.label() == Label::Repeated)
        .map(|field| format!("self.{}.heap()", rust_field(field.name())))
        .collect();
    let sum = if fields.is_empty() {
        "0".to_owned()
    } else {
        fields.join(" + ")
    };
    writeln!(out, "        {sum}\n    }}\n}}")?;
    Ok(())
}

fn cell(
    field: &FieldDescriptorProto,
    index: &BTreeMap<&str, usize>,
    rows: &[(String, &DescriptorProto, bool)],
) -> Result<String> {
    let repeated = field.label() == Label::Repeated;
    if field.r#type() == Type::Message {
        let row = *index
            .get(field.type_name())
            .with_context(|| format!("{}: unknown type", field.name()))?;
        let (_, message, entry) = &rows[row];
        if *entry {
            let [key, value] = [1, 2].map(|number| {
                let field = message.field.iter().find(|it| it.number() == number);
                field.map(rust_value).unwrap_or_default()
            });
            return Ok(format!("Cell::map::<{key}, {value}>({row})"));
        }
        if repeated {
            let ty = rust_type(message.name());
            return Ok(format!("Cell::messages::<{ty}>({row})"));
        }
        return Ok(format!("Cell::Message({row})"));
    }
    Ok(match (is_scalar(field), repeated) {
        (true, false) => "Cell::Free".to_owned(),
        (true, true) => format!("Cell::numbers::<{}>()", rust_value(field)),
        (false, false) => "Cell::Text".to_owned(),
        (false, true) => format!("Cell::texts::<{}>()", rust_value(field)),
    })
}

fn is_scalar(field: &FieldDescriptorProto) -> bool {
    !matches!(field.r#type(), Type::Message | Type::String | Type::Bytes)
}

/// The Rust type of one value of a field.
fn rust_value(field: &FieldDescriptorProto) -> String {
    let plain = match field.r#type() {
        Type::Double => "f64",
        Type::Float => "f32",
        Type::Int64 | Type::Sfixed64 | Type::Sint64 => "i64",
        Type::Uint64 | Type::Fixed64 => "u64",
        Type::Int32 | Type::Sfixed32 | Type::Sint32 | Type::Enum => "i32",
        Type::Uint32 | Type::Fixed32 => "u32",
        Type::Bool => "bool",
        Type::String => "String",
        Type::Bytes => "Vec<u8>",
        Type::Message | Type::Group => {
            return rust_type(field.type_name().rsplit('.').next().unwrap_or_default());
        }
    };
    plain.to_owned()
}

fn rust_type(name: &str) -> String {
    format!("crate::{}", name.to_upper_camel_case())
}

fn rust_field(name: &str) -> String {
    match name.to_snake_case().as_str() {
        keyword @ ("type" | "match" | "mod" | "move" | "ref" | "use" | "where" | "loop") => {
            format!("r#{keyword}")
        }
        other => other.to_owned(),
    }
}
