//! The environment of a task: `--env-file`, then `--env`; what comes later counts.

use std::path::Path;

use longshore_mesos_api::v1::environment::Variable;

use super::{Result, RunProblem, variable};

/// A variable of our own environment.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The most that a file of variables may hold, in bytes: more than a task may have.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// All variables, each once. A name without a value is one of our own environment; it is left out when it is not set, as with docker.
///
/// # Errors
/// A file that cannot be read, a line or a flag that is no variable: without its value.
pub(super) fn environment_of(
    files: &[String],
    flags: &[String],
    here: &Path,
    lookup: Lookup<'_>,
) -> Result<Vec<Variable>> {
    let mut all: Vec<Variable> = Vec::new();
    let mut add = |text: &str| {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, lookup(text)),
        };
        if let Some(value) = value {
            all.retain(|known| known.name != name);
            all.push(variable(name, value));
        }
    };
    for file in files {
        let path = here.join(file);
        let text = read(&path).map_err(|why| {
            RunProblem::new("env-file", format!("--env-file {}: {why}", path.display()))
        })?;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_start();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let name = line.split('=').next().unwrap_or_default();
            if name.is_empty() || name.contains(char::is_whitespace) {
                return Err(RunProblem::new(
                    "env-file",
                    format!(
                        "--env-file {}: line {}: a line is NAME=VALUE or NAME, and names have no blanks",
                        path.display(),
                        index + 1
                    ),
                ));
            }
            add(line);
        }
    }
    for flag in flags {
        let name = flag.split('=').next().unwrap_or_default();
        if name.is_empty() {
            let message = "--env: a variable needs a name: NAME=VALUE or NAME";
            return Err(RunProblem::new("env", message));
        }
        add(flag);
    }
    Ok(all)
}

fn read(path: &Path) -> std::result::Result<String, String> {
    use std::io::Read as _;
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_FILE {
        return Err(format!("it has more than {MAX_FILE} bytes"));
    }
    // An error would show the bytes.
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(name: &str) -> Option<String> {
        (name == "OURS").then(|| "from here".to_owned())
    }

    fn pairs(files: &[String], flags: &[&str], here: &Path) -> Vec<(String, String)> {
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let all = environment_of(files, &flags, here, &ours).unwrap();
        all.into_iter()
            .map(|variable| (variable.name, variable.value.unwrap_or_default()))
            .collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn flags_win_over_files_and_the_last_one_counts() {
        let dir = tempfile::tempdir().unwrap();
        let text = "# a comment\n\nA=file\n  B=with = signs \nOURS\nNOT_SET\nEMPTY=\n";
        std::fs::write(dir.path().join("env"), text).unwrap();
        let found = pairs(
            &["env".to_owned()],
            &["A=1", "A=2", "OURS", "NOT_SET"],
            dir.path(),
        );
        let expected = [
            pair("B", "with = signs "),
            pair("EMPTY", ""),
            pair("A", "2"),
            pair("OURS", "from here"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_variable_is_refused_without_its_value() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("blank"), "A=1\nA B=secret\n").unwrap();
        std::fs::write(dir.path().join("bytes"), b"A=\xffsecret").unwrap();
        for (file, flag, words) in [
            (Some("blank"), None, "line 2"),
            (Some("bytes"), None, "not UTF-8"),
            (Some("none"), None, "none"),
            (None, Some("=secret"), "needs a name"),
        ] {
            let files: Vec<_> = file.into_iter().map(str::to_owned).collect();
            let flags: Vec<_> = flag.into_iter().map(str::to_owned).collect();
            let error = environment_of(&files, &flags, dir.path(), &ours).unwrap_err();
            let text = format!("{error:#}");
            assert!(text.contains(words) && !text.contains("secret"), "{text}");
        }
    }
}
