//! A command line as flags and words, by the rules of docker's: `--name value`, `--name=value`, `-nvalue`, `-n value`, `-abc`.

use crate::Failed;

/// Which flags a form has.
pub(crate) struct Syntax {
    /// Long names of those without a value; `--name=false` is possible.
    pub(crate) switches: &'static [&'static str],
    /// Short names, and the long ones that they stand for.
    pub(crate) short: &'static [(char, &'static str)],
    /// Whether the first word ends the flags, since what follows belongs to somebody else.
    pub(crate) first_word_ends: bool,
}

/// What a command line was taken apart into.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// Long names and values, in order; a switch has the value `true` or what is behind its `=`.
    pub(crate) flags: Vec<(String, String)>,
    pub(crate) words: Vec<String>,
}

impl Syntax {
    fn is_switch(&self, name: &str) -> bool {
        self.switches.contains(&name)
    }

    fn long(&self, short: char) -> Option<&'static str> {
        let found = self.short.iter().find(|(letter, _)| *letter == short);
        found.map(|(_, long)| *long)
    }

    /// Takes `arguments` apart; every word that begins with a dash is a flag until `--`.
    pub(crate) fn split(
        &self,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Words, Failed> {
        let mut all = Words::default();
        let mut rest = arguments.into_iter();
        while let Some(argument) = rest.next() {
            if argument == "--" {
                break;
            }
            if let Some(long) = argument.strip_prefix("--") {
                let (name, value) = match long.split_once('=') {
                    Some((name, value)) => (name, value.to_owned()),
                    None if self.is_switch(long) => (long, "true".to_owned()),
                    None => (long, value_of(&argument, rest.next())?),
                };
                all.flags.push((name.to_owned(), value));
            } else if let Some(letters) = argument.strip_prefix('-').filter(|text| !text.is_empty())
            {
                self.letters(letters, &mut rest, &mut all)?;
            } else {
                all.words.push(argument);
                if self.first_word_ends {
                    break;
                }
            }
        }
        all.words.extend(rest);
        Ok(all)
    }

    fn letters(
        &self,
        letters: &str,
        rest: &mut impl Iterator<Item = String>,
        all: &mut Words,
    ) -> Result<(), Failed> {
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            let Some(name) = self.long(letter) else {
                return Err(Failed::new(125, format!("-{letter} is not served")));
            };
            let attached = letters.as_str();
            let value = match attached.strip_prefix('=') {
                Some(value) => value.to_owned(),
                None if self.is_switch(name) => {
                    all.flags.push((name.to_owned(), "true".to_owned()));
                    continue;
                }
                None if attached.is_empty() => value_of(&format!("-{letter}"), rest.next())?,
                None => attached.to_owned(),
            };
            all.flags.push((name.to_owned(), value));
            break;
        }
        Ok(())
    }
}

fn value_of(flag: &str, next: Option<String>) -> Result<String, Failed> {
    next.ok_or_else(|| Failed::new(125, format!("{flag} needs a value")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNTAX: Syntax = Syntax {
        switches: &["all", "quiet"],
        short: &[('a', "all"), ('q', "quiet"), ('e', "env")],
        first_word_ends: false,
    };

    fn split(syntax: &Syntax, line: &str) -> Result<Words, Failed> {
        syntax.split(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_are_read_in_every_form_that_docker_takes() {
        let flag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let cases = [
            ("--env A=1", vec![flag("env", "A=1")]),
            ("--env=A=1", vec![flag("env", "A=1")]),
            ("-e A=1", vec![flag("env", "A=1")]),
            ("-eA=1", vec![flag("env", "A=1")]),
            ("-e=A=1", vec![flag("env", "A=1")]),
            (
                "-aqeA",
                vec![flag("all", "true"), flag("quiet", "true"), flag("env", "A")],
            ),
            ("--all=false", vec![flag("all", "false")]),
            ("-a=false", vec![flag("all", "false")]),
            ("--all x", vec![flag("all", "true")]),
        ];
        for (line, flags) in cases {
            assert_eq!(split(&SYNTAX, line).unwrap().flags, flags, "{line}");
        }
    }

    #[test]
    fn what_follows_the_first_word_belongs_to_the_container() {
        let run = Syntax {
            first_word_ends: true,
            ..SYNTAX
        };
        let words = split(&run, "-a image -q -- sh").unwrap();
        assert_eq!(words.words, ["image", "-q", "--", "sh"]);
        assert_eq!(words.flags.len(), 1);
        let words = split(&SYNTAX, "one -q two -- -three").unwrap();
        assert_eq!(words.words, ["one", "two", "-three"]);
        // A lone dash is a word.
        assert_eq!(split(&SYNTAX, "-").unwrap().words, ["-"]);
    }

    #[test]
    fn a_flag_without_its_value_and_an_unknown_letter_are_refused_by_name() {
        for (line, name) in [("--env", "--env"), ("-ae", "-e"), ("-az", "-z")] {
            let error = split(&SYNTAX, line).unwrap_err();
            assert!(error.message.contains(name), "{line}: {error}");
        }
    }
}
