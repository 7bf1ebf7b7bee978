//! Programs that a test makes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes an executable script of `/bin/sh`. It is written by a process of its own: a fork of another test could otherwise inherit the
/// descriptor that it is written through, and executing it would be refused (ETXTBSY, execve(2)).
///
/// # Panics
/// When it cannot be written.
#[expect(clippy::expect_used, reason = "in tests alone")]
pub fn write(path: &Path, text: &str) {
    let mut writer = Command::new("/bin/sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell starts");
    let mut input = writer.stdin.take().expect("its input is piped");
    write!(input, "#!/bin/sh\n{text}\n").expect("it reads");
    drop(input);
    let ended = writer.wait().expect("it ends");
    assert!(ended.success(), "{} cannot be written", path.display());
}
