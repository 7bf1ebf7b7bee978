//! The bincode body codec. The one file that knows bincode (see `docs/decisions/` on its end).

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::CodecError;
use crate::envelope::BODY_MAX;

/// Little-endian, variable-length integers; what a decoder may claim is limited.
fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<BODY_MAX>()
}

/// Encodes `value` with bincode 2 (`config::standard()`), for use in
/// [`Record::encode`](crate::Record::encode).
///
/// bincode is not self-describing: the fields' order and types are the format. Never use
/// `skip_serializing_if`, `flatten` or `untagged`, and change a type only together with its version.
///
/// # Errors
/// When serde cannot serialise the value.
pub fn bincode_encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    bincode::serde::encode_to_vec(value, config()).map_err(CodecError::encode)
}

/// Decodes what [`bincode_encode`] gave; all of `body` must be consumed.
///
/// # Errors
/// When `body` is not a value of `T`, claims more than 64 MiB, or goes on after it.
pub fn bincode_decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, CodecError> {
    let (value, consumed) =
        bincode::serde::decode_from_slice(body, config()).map_err(CodecError::decode)?;
    match body.len() - consumed {
        0 => Ok(value),
        count => Err(CodecError::TrailingBytes { count }),
    }
}
