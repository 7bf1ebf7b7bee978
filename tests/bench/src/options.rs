//! The arguments that every bench program takes.

use std::io::Write;

/// What a bench program was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Print one JSON object a line.
    pub json: bool,
    /// End with status 1 when a limit is missed.
    pub check: bool,
    /// Measure longer.
    pub long: bool,
}

impl Options {
    /// The options of this process; says on stderr what it does not know.
    ///
    /// # Errors
    /// When there is an unknown argument: the program should exit with status 2.
    pub fn from_args(program: &str) -> Result<Self, String> {
        Self::parse(std::env::args().skip(1)).inspect_err(|argument| {
            let usage = format!("{program}: unknown argument {argument:?}");
            let hint = format!("usage: {program} [--json] [--check] [--long]");
            writeln!(std::io::stderr(), "{usage}\n{hint}").ok();
        })
    }

    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        for argument in arguments {
            match argument.as_str() {
                "--json" => options.json = true,
                "--check" => options.check = true,
                "--long" => options.long = true,
                _ => return Err(argument),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_three_flags_and_nothing_else() {
        let parse = |text: &str| Options::parse(text.split_whitespace().map(str::to_owned));
        assert_eq!(parse("").unwrap(), Options::default());
        let all = Options {
            json: true,
            check: true,
            long: true,
        };
        assert_eq!(parse("--long --json --check").unwrap(), all);
        assert_eq!(parse("--json --chek").unwrap_err(), "--chek");
    }
}
