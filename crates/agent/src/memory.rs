//! Staying small: a shim and a daemon live for months and mostly do nothing, whatever program they are a
//! part of.

use std::fs::File;
use std::io::{BufRead, BufReader};

use crate::shim::sys;

/// Gives the kernel back what the start, or a change, needed and idling does not: the pages of this
/// program's own file, which come back when they are touched, and memory that is free (with glibc; other
/// C libraries do so by themselves). A few milliseconds; for a daemon that has become quiet.
///
/// Other files are left alone: while another thread loads a library, what looks like a clean page may be
/// written to in the next moment.
pub fn give_back_memory() {
    if let Ok(program) = std::fs::read_link("/proc/self/exe") {
        // A program that was replaced by a newer one is mapped all the same.
        let program = program.to_string_lossy();
        let program = program.strip_suffix(" (deleted)").unwrap_or(&program);
        each_clean_mapping(|path| path == program, sys::release_pages);
    }
    sys::trim_heap();
}

/// Brings in what this program and its libraries consist of, so that what it does next meets no page that is not
/// there; for a program that waits. The other way round: [`release_clean_pages`].
pub(crate) fn fetch_program() {
    each_clean_mapping(|_| true, sys::fetch_pages);
}

/// Lets go of the program's and the libraries' pages that its start has touched. They are in files
/// and come back when they are needed; what has been written to stays. For a program with one thread.
pub(crate) fn release_clean_pages() {
    each_clean_mapping(|_| true, sys::release_pages);
}

fn each_clean_mapping(of_interest: impl Fn(&str) -> bool, act: impl Fn(usize, usize)) {
    let Ok(table) = File::open("/proc/self/smaps") else {
        return;
    };
    let lines = BufReader::new(table).lines().map_while(Result::ok);
    // Collected first: reading on must not meet what has just been acted on.
    let ranges: Vec<_> = clean_mappings(lines, of_interest).collect();
    for (start, end) in ranges {
        act(start, end - start);
    }
}

/// The address ranges of smaps (proc(5)) that map a file, cannot be written to, and hold no page that
/// differs from it (relocated tables are read-only, too, but not clean).
fn clean_mappings(
    lines: impl Iterator<Item = String>,
    of_interest: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (usize, usize)> {
    let mut mapping = None;
    lines.filter_map(move |line| {
        if let Some(kib) = line.strip_prefix("Anonymous:") {
            let range = mapping.take()?;
            return (kib.trim() == "0 kB").then_some(range);
        }
        if let Some(range) = file_mapping(&line, &of_interest) {
            mapping = range;
        }
        None
    })
}

/// The range of a header line, if it is one: `None` inside when it is not of interest.
fn file_mapping(line: &str, wanted: impl Fn(&str) -> bool) -> Option<Option<(usize, usize)>> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    let permissions = fields.next()?;
    let path = fields.nth(3).unwrap_or_default();
    let of_interest = permissions.starts_with('r')
        && permissions.as_bytes().get(1) == Some(&b'-')
        && permissions.ends_with('p')
        && path.starts_with('/')
        && wanted(path)
        && start < end;
    Some(of_interest.then_some((start, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_is_read_again_when_it_is_touched() {
        static TOLD: &str = "still here";
        give_back_memory();
        assert_eq!(TOLD.to_owned(), "still here");
        assert_eq!(format!("{:?}", std::env::current_exe().is_ok()), "true");
    }

    #[test]
    fn only_clean_file_pages_that_nobody_writes_to_are_released() {
        let smaps = "\
1000-2000 r-xp 00000000 fe:00 12     /bin/shim
Size:                  4 kB
Anonymous:             0 kB
VmFlags: rd ex
2000-3000 r--p 00001000 fe:00 12     /bin/shim
Anonymous:             4 kB
3000-4000 rw-p 00002000 fe:00 12     /bin/shim
Anonymous:             0 kB
4000-5000 r--p 00000000 00:00 0
Anonymous:             0 kB
5000-6000 r--s 00000000 fe:00 13     /shared
Anonymous:             0 kB
7000-9000 r--p 00000000 00:00 0      [vvar]
Anonymous:             0 kB
a000-b000 r--p 00000000 fe:00 14     /lib/libc.so (deleted)
Anonymous:             0 kB
";
        let ranges = |wanted: fn(&str) -> bool| -> Vec<(usize, usize)> {
            clean_mappings(smaps.lines().map(str::to_owned), wanted).collect()
        };
        assert_eq!(ranges(|_| true), [(0x1000, 0x2000), (0xa000, 0xb000)]);
        assert_eq!(ranges(|path| path == "/bin/shim"), [(0x1000, 0x2000)]);
    }
}
