//! The one-field messages that tell "set to zero" from "not set".
//!
//! A field of such a type is an `Option<OptionalInt64>` and the like; presence means set. `From`
//! wraps a value, [`Wrapper::get`] reads it, and an absent value is `None`:
//!
//! ```
//! use longshore_nri_api::{LinuxMemory, OptionalInt64, Wrapper};
//!
//! let limit: Option<i64> = Some(0);
//! let memory = LinuxMemory { limit: limit.map(OptionalInt64::from), ..Default::default() };
//! assert_eq!(memory.limit.get(), Some(0));
//! assert_eq!(memory.swap.get(), None);
//! ```

use crate::{
    OptionalBool, OptionalFileMode, OptionalInt, OptionalInt32, OptionalInt64,
    OptionalRepeatedString, OptionalString, OptionalUInt32, OptionalUInt64,
};

/// Reads an optional wrapper.
pub trait Wrapper {
    /// What is wrapped.
    type Value;

    /// The value when it is set, which it also is when it is zero or empty.
    fn get(&self) -> Option<Self::Value>;
}

macro_rules! wrapper {
    ($($message:ident => $value:ty),* $(,)?) => {$(
        impl From<$value> for $message {
            fn from(value: $value) -> Self {
                Self { value }
            }
        }

        impl Wrapper for Option<$message> {
            type Value = $value;

            fn get(&self) -> Option<$value> {
                self.as_ref().map(|wrapper| wrapper.value.clone())
            }
        }
    )*};
}

wrapper! {
    OptionalString => String,
    OptionalRepeatedString => Vec<String>,
    OptionalInt => i64,
    OptionalInt32 => i32,
    OptionalUInt32 => u32,
    OptionalInt64 => i64,
    OptionalUInt64 => u64,
    OptionalBool => bool,
    OptionalFileMode => u32,
}

impl From<&str> for OptionalString {
    fn from(value: &str) -> Self {
        Self {
            value: value.to_owned(),
        }
    }
}

impl From<&[&str]> for OptionalRepeatedString {
    fn from(values: &[&str]) -> Self {
        Self {
            value: values.iter().map(|value| (*value).to_owned()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(input: Option<Vec<String>>) -> Option<OptionalRepeatedString> {
        input.map(OptionalRepeatedString::from)
    }

    #[test]
    fn rows_155_160_161_repeated_string_without_a_slice_is_unset() {
        assert_eq!(repeated(None).get(), None);
    }

    #[test]
    fn rows_156_157_repeated_string_of_an_empty_slice_is_set() {
        assert_eq!(repeated(Some(Vec::new())).get(), Some(Vec::new()));
    }

    #[test]
    fn row_159_repeated_string_keeps_its_values() {
        let values = vec!["value1".to_owned(), "value2".to_owned()];
        let wrapped = repeated(Some(values.clone()));
        assert_eq!(wrapped.get(), Some(values), "the wrapper holds a copy");
    }
}
