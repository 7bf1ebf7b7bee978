//! Links from one file of the repository to another lead somewhere.

use std::path::Path;

use super::Findings;

/// Checks the relative links of one Markdown file.
pub(crate) fn check(root: &Path, name: &str, text: &str, findings: &mut Findings) {
    let folder = root.join(name);
    let Some(folder) = folder.parent() else {
        return;
    };
    for (number, line) in (1..).zip(text.lines()) {
        for link in links(line) {
            if !folder.join(link).exists() {
                findings.error(format!("{name}:{number}: {link} is not there"));
            }
        }
    }
}

/// The targets of `[text](target)` that are files of ours, without their `#anchor`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split_once('#').map_or(target, |(file, _)| file))
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '))
        // In docs of Rust code, a link may name an item.
        .filter(|target| !target.contains("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_files_are_looked_at() {
        let line = "see [a](docs/a.md), [b](b.md#part), [c](#part), [d](https://e.org/f), x](y z)";
        assert_eq!(links(line).collect::<Vec<_>>(), ["docs/a.md", "b.md"]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let mut findings = Findings::default();
        let root = crate::sh::root();
        check(
            &root,
            "docs/x.md",
            "[a](../README.md)\n[b](nonesuch.md)\n",
            &mut findings,
        );
        assert_eq!(findings.errors, ["docs/x.md:2: nonesuch.md is not there"]);
    }
}
