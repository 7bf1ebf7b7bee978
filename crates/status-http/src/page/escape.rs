//! Text within HTML.

use std::fmt;

/// Text from outside, as text or as the value of an attribute in double quotes. Controls, and what turns the direction of
/// writing around, are shown as a replacement: a name never looks like another.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(' ')?,
                '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                    f.write_char('\u{fffd}')?;
                }
                other if other.is_control() => f.write_char('\u{fffd}')?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// No more of a text than a table should have.
pub(super) fn brief(text: &str) -> String {
    const LONGEST: usize = 300;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(LONGEST - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_is_markup() {
        for (text, html) in [
            ("plain é", "plain é"),
            (
                "<script>alert('x')</script>",
                "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;",
            ),
            ("a\" onload=\"x", "a&quot; onload=&quot;x"),
            ("a&lt;", "a&amp;lt;"),
            ("a\nb\u{0}c\u{1b}[31m", "a b\u{fffd}c\u{fffd}[31m"),
            ("abc\u{202e}txt", "abc\u{fffd}txt"),
        ] {
            assert_eq!(Escaped(text).to_string(), html);
        }
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(brief("short"), "short");
        let cut = brief(&"é".repeat(1000));
        assert_eq!(cut.chars().count(), 300);
        assert!(cut.ends_with("é…"));
    }
}
