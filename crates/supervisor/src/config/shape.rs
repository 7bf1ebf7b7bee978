//! The form of the main file: that it is TOML, with keys that there are and values of their types. All that
//! is wrong is found in one go: what does not fit is told, left out, and the rest looked at again.

use std::path::Path;

use serde::Deserialize as _;
use toml::de::{DeTable, Deserializer, Error};
use toml::{Spanned, Table};

use super::error::{ConfigError, Origin};
use super::locate::{Located, prune};
use super::raw::RawConfig;

/// So many errors are told; a file with more is no configuration.
const ERRORS_MAX: usize = 100;

/// The file's table without what does not fit, and what that is.
///
/// # Errors
/// Everything that is wrong, when nothing can be made of the text.
pub(super) fn read(path: &Path, text: &str) -> Result<(Table, Vec<ConfigError>), Vec<ConfigError>> {
    let located = Located::new(text);
    let told = |error: &Error| {
        let offset = error.span().map(|span| span.start);
        ConfigError::Syntax {
            origin: Origin::File {
                path: path.to_owned(),
                line: offset.map_or(0, |offset| located.line_at(offset)),
            },
            key: offset.map_or_else(String::new, |offset| located.key_at(offset)),
            message: error.message().trim().replace('\n', "; "),
        }
    };
    let (mut root, errors): (Spanned<DeTable<'_>>, _) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(errors.iter().take(ERRORS_MAX).map(told).collect());
    }
    let mut found = Vec::new();
    while let Err(error) = RawConfig::deserialize(Deserializer::from(root.clone())) {
        found.push(told(&error));
        let offset = error.span().map(|span| span.start);
        let pruned = offset.is_some_and(|offset| prune(root.get_mut(), offset));
        if !pruned || found.len() == ERRORS_MAX {
            return Err(found);
        }
    }
    match Table::deserialize(Deserializer::from(root)) {
        Ok(table) => Ok((table, found)),
        Err(error) => Err(vec![told(&error)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let path = Path::new("f");
        let errors = match read(path, text) {
            Ok((_, errors)) | Err(errors) => errors,
        };
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn everything_that_does_not_fit_is_told_with_its_line_and_key_and_the_rest_stays() {
        let text = "logg = \"info\"\nstate_dir = 5\n[agnet]\nurl = \"x\"\n[csi]\nkill_grace = \"5\"\n\
                    restart = { maxx = 1, initial = \"1s\" }\n[plugins.a]\ntype = \"t\"\n\
                    [[plugins.a.containers]]\ncomand = [\"x\"]\nservices = [\"nod\"]\n\
                    volumes = [{ container = \"/x\" }]\n[plugins.\"b c\"]\ntyp = 1\n";
        let errors = told(text);
        for beginning in [
            "f:1: logg: unknown field",
            "f:2: state_dir: ",
            "f:3: agnet: unknown field",
            "f:6: csi.kill_grace: ",
            "f:7: csi.restart.maxx: unknown field",
            "f:11: plugins.a.containers[0].comand: unknown field",
            "f:12: plugins.a.containers[0].services[0]: ",
            "f:13: plugins.a.containers[0].volumes[0]: missing field `host`",
            "f:15: plugins.\"b c\".typ: unknown field",
        ] {
            let count = errors.iter().filter(|e| e.starts_with(beginning)).count();
            assert_eq!(count, 1, "{beginning}\n{errors:#?}");
        }
        assert_eq!(errors.len(), 9, "{errors:#?}");
        let (table, _) = read(Path::new("f"), text).unwrap();
        assert_eq!(table["plugins"]["a"]["type"].as_str(), Some("t"));
        assert_eq!(table["csi"]["restart"]["initial"].as_str(), Some("1s"));
    }

    #[test]
    fn what_is_no_toml_is_told_line_by_line() {
        let errors = told("log = = 1\nstate_dir = \"/x\"\nruntime_dir = [\n");
        assert!(errors.iter().any(|e| e.starts_with("f:1: ")), "{errors:#?}");
        assert!(errors.len() > 1, "{errors:#?}");
    }

    #[test]
    fn the_number_of_errors_is_bounded() {
        use std::fmt::Write as _;
        let mut text = String::new();
        for number in 0..1000 {
            writeln!(text, "unknown_{number} = 1").unwrap();
        }
        assert_eq!(told(&text).len(), ERRORS_MAX);
    }
}
