//! What decoding makes of every kind of bytes.

use proptest::prelude::*;

use super::*;
use crate::CodecError;

/// A record of text: release N-1 of it, N and N+1 below share its kind.
#[derive(Debug, Clone, PartialEq)]
struct Text(String);

impl Record for Text {
    const KIND: &'static str = "text";
    const VERSION: u16 = 2;
    const READS_UP_TO: u16 = 3;
    const MAX_BODY: usize = 1 << 16;

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        Ok(self.0.as_bytes().to_vec())
    }

    fn decode(version: u16, body: &[u8]) -> Result<Self, CodecError> {
        if version == 0 {
            return Err(CodecError::UnsupportedVersion { version });
        }
        let text = String::from_utf8(body.to_vec()).map_err(CodecError::decode)?;
        Ok(Self(format!("{text}{version}")))
    }
}

/// Changes one byte and makes the checksum fit again.
fn patched(mut file: Vec<u8>, at: usize, value: u8) -> Vec<u8> {
    file[at] = value;
    let crc = checksum(&file);
    file[CRC].copy_from_slice(&crc.to_le_bytes());
    file
}

fn moin() -> Vec<u8> {
    encode::<Text>(b"moin")
}

fn damage(file: &[u8]) -> String {
    decode::<Text>(file).unwrap_err().to_string()
}

#[test]
fn the_bytes_are_those_of_the_documentation() {
    let header = "934c535245430d0a 0100 0200 04 000000 04000000";
    let header: String = header.split_whitespace().collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let file = moin();
    assert_eq!(hex(&file[..20]), header);
    assert_eq!(&file[24..], b"textmoin");
    // CRC-32C of the bytes around it, computed bit by bit as RFC 3720 appendix B.4 defines it.
    let mut crc = !0u32;
    for byte in file[..20].iter().chain(&file[24..]) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82F6_3B78 & (crc & 1).wrapping_neg());
        }
    }
    assert_eq!(file[20..24], (!crc).to_le_bytes());
}

#[test]
fn decodes_what_it_encodes_and_hands_the_version_on() {
    assert_eq!(decode::<Text>(&moin()).unwrap(), Text("moin2".to_owned()));
    let newer_but_known = patched(moin(), 10, 3);
    assert_eq!(
        decode::<Text>(&newer_but_known).unwrap(),
        Text("moin3".to_owned())
    );
}

#[test]
fn every_truncation_is_torn() {
    let file = moin();
    for length in 1..file.len() {
        let damage = decode::<Text>(&file[..length]).unwrap_err();
        assert!(matches!(damage, Damage::Torn { .. }), "{length}: {damage}");
    }
}

#[test]
fn every_flipped_bit_is_seen() {
    let file = moin();
    for bit in 0..file.len() * 8 {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let damage = decode::<Text>(&flipped).unwrap_err();
        assert!(
            matches!(damage, Damage::Corrupt(_) | Damage::Torn { .. }),
            "{bit}: {damage}"
        );
    }
}

#[test]
fn every_damage_has_its_own_name() {
    let mut longer = moin();
    longer.extend_from_slice(b"!!");
    let cases: [(&str, Vec<u8>, &str); 11] = [
        ("zeros", vec![0; 100], "torn: 0 of 24 bytes are there"),
        (
            "header",
            moin()[..10].to_vec(),
            "torn: 10 of 24 bytes are there",
        ),
        (
            "body",
            moin()[..30].to_vec(),
            "torn: 30 of 32 bytes are there",
        ),
        (
            "text",
            b"{\"a\": 1}".to_vec(),
            "corrupt: it does not begin as a record does",
        ),
        ("longer", longer, "corrupt: 2 bytes follow the record"),
        (
            "sum",
            [&moin()[..31], b"!"].concat(),
            "corrupt: its checksum does not match",
        ),
        (
            "zero format",
            patched(moin(), 8, 0),
            "corrupt: a field of its header is out of range",
        ),
        (
            "reserved",
            patched(moin(), 13, 1),
            "corrupt: a field of its header is out of range",
        ),
        (
            "body",
            patched(moin(), 31, 0xFF),
            "corrupt: its body is not valid",
        ),
        (
            "format",
            patched(moin(), 8, 2),
            "written by a newer release: format 2, this one reads up to 1",
        ),
        (
            "version",
            patched(moin(), 10, 4),
            "written by a newer release: version 4, this one reads up to 3",
        ),
    ];
    for (name, file, expected) in cases {
        assert_eq!(damage(&file), expected, "{name}");
    }
    assert_eq!(
        damage(&patched(moin(), 24, b'n')),
        "a record of another kind, \"next\""
    );
    let too_old = decode::<Text>(&patched(moin(), 10, 0)).unwrap_err();
    let Damage::Corrupt(Corruption::Body(source)) = too_old else {
        panic!("{too_old}")
    };
    assert!(matches!(
        source,
        CodecError::UnsupportedVersion { version: 0 }
    ));
}

#[test]
fn a_body_of_nothing_is_a_record() {
    assert_eq!(
        decode::<Text>(&encode::<Text>(b"")).unwrap(),
        Text("2".to_owned())
    );
}

/// The body of `cargo xtask fuzz checkpoint-envelope`: whatever a file holds, decoding ends without a
/// panic, and what it accepts is what encoding the same body gives.
fn decodes_or_names_the_damage(file: &[u8]) {
    match decode::<Text>(file) {
        Ok(Text(text)) => {
            let version = text.as_bytes()[text.len() - 1] - b'0';
            let again = patched(
                encode::<Text>(&text.as_bytes()[..text.len() - 1]),
                10,
                version,
            );
            assert_eq!(file, again);
        }
        Err(damage) => assert!(!damage.to_string().is_empty()),
    }
}

/// Bytes that look like a record in more and more respects.
fn files() -> impl Strategy<Value = Vec<u8>> {
    let header = (
        any::<[u8; 12]>(),
        any::<[u8; 4]>(),
        proptest::collection::vec(any::<u8>(), 0..80),
    );
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        header
            .prop_map(|(fields, crc, rest)| { [MAGIC.as_slice(), &fields, &crc, &rest].concat() }),
        ("\\PC{0,40}", any::<usize>(), any::<u8>()).prop_map(|(text, at, value)| {
            let mut file = encode::<Text>(text.as_bytes());
            let at = at % file.len();
            file[at] = value;
            file
        }),
        ("\\PC{0,40}", 8usize..60, any::<u8>()).prop_map(|(text, at, value)| {
            let file = encode::<Text>(text.as_bytes());
            let at = at.min(file.len() - 1);
            patched(file, at, value)
        }),
    ]
}

proptest! {
    #[test]
    fn hostile_files_are_named_and_never_panic(file in files()) {
        decodes_or_names_the_damage(&file);
    }

    #[test]
    fn any_body_comes_back(text in "\\PC{0,300}") {
        let read = decode::<Text>(&encode::<Text>(text.as_bytes())).unwrap();
        prop_assert_eq!(read, Text(format!("{text}2")));
    }
}
