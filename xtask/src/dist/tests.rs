//! What lies in the two packages.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::*;

/// A program that prints and writes what the real one is asked for.
const PROGRAM: &str = "#!/bin/sh\ncase $1 in --version) echo longshore 1.2.3;; man) echo page > $2/longshore.1;; *) echo $*;; esac\n";

struct Bed {
    dir: PathBuf,
}

impl Bed {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("longshore-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join("release")).unwrap();
        for program in ["longshore", "longshore-shim"] {
            let path = dir.join("release").join(program);
            fs::write(&path, PROGRAM).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { dir }
    }

    fn release(&self) -> Release<'static> {
        Release {
            root: Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")),
            binary: self.dir.join("release/longshore"),
            version: "1.2.3".to_owned(),
            epoch: 1_000_000_000,
        }
    }

    /// Mode, name and, of a link, its target, of all that is no directory.
    fn listed(&self, archive: &str) -> Vec<String> {
        let mut tar = Command::new("tar");
        tar.args(["--list", "--verbose", "--file"])
            .arg(self.dir.join(archive));
        let text = String::from_utf8(sh::output(&mut tar).unwrap()).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('d'));
        let listed = lines.map(|line| {
            assert!(line.contains(" root/root "), "{line}");
            let mut words = line.split_whitespace();
            let mode = words.next().unwrap();
            // A link's own mode means nothing.
            let mode = if mode.starts_with('l') { "l" } else { mode };
            let rest: Vec<_> = words.skip(4).collect();
            format!("{mode} {}", rest.join(" "))
        });
        listed.collect()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.dir).unwrap();
    }
}

#[test]
fn a_tarball_has_the_programs_their_names_and_what_belongs_to_them() {
    let bed = Bed::new("tarball");
    tree::tarball(&bed.release(), &bed.dir.join("stage/l")).unwrap();
    let to = bed.dir.join("l.tar.gz");
    tar(&bed.dir.join("stage"), "l", &to, 1).unwrap();
    assert_eq!(
        bed.listed("l.tar.gz"),
        [
            "-rw-r--r-- l/CHANGELOG.md",
            "-rw-r--r-- l/LICENSE",
            "-rw-r--r-- l/README.md",
            "-rw-r--r-- l/SECURITY.md",
            "-rwxr-xr-x l/bin/longshore",
            "-rwxr-xr-x l/bin/longshore-shim",
            "l l/bin/mesos-docker-executor -> longshore",
            "-rw-r--r-- l/completions/bash/longshore",
            "-rw-r--r-- l/completions/fish/longshore.fish",
            "-rw-r--r-- l/completions/zsh/_longshore",
            "l l/libexec/docker -> ../bin/longshore",
            "-rw-r--r-- l/longshore.toml",
            "-rw-r--r-- l/man/longshore.1",
            "-rw-r--r-- l/systemd/longshore.service",
        ]
    );
    // Each link leads to the program.
    for name in ["bin/mesos-docker-executor", "libexec/docker"] {
        let linked = bed.dir.join("stage/l").join(name);
        assert_eq!(fs::read_to_string(linked).unwrap(), PROGRAM, "{name}");
    }
}

#[test]
fn a_deb_has_the_same_where_a_machine_has_it_and_no_docker_in_path() {
    let bed = Bed::new("deb");
    let stage = bed.dir.join("stage");
    let deb = deb::build(&bed.release(), &stage, &bed.dir).unwrap();
    let name = deb.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("longshore_1.2.3_"), "{name}");
    assert_eq!(
        bed.listed("stage/data.tar.gz"),
        [
            "-rw-r--r-- ./etc/longshore/longshore.toml",
            "-rw-r--r-- ./lib/systemd/system/longshore.service",
            "-rwxr-xr-x ./usr/bin/longshore",
            "-rwxr-xr-x ./usr/bin/longshore-shim",
            "l ./usr/bin/mesos-docker-executor -> longshore",
            "l ./usr/lib/longshore/docker -> ../../bin/longshore",
            "-rw-r--r-- ./usr/share/bash-completion/completions/longshore",
            "-rw-r--r-- ./usr/share/doc/longshore/CHANGELOG.md",
            "-rw-r--r-- ./usr/share/doc/longshore/README.md",
            "-rw-r--r-- ./usr/share/doc/longshore/copyright",
            "-rw-r--r-- ./usr/share/fish/vendor_completions.d/longshore.fish",
            "-rw-r--r-- ./usr/share/man/man1/longshore.1",
            "-rw-r--r-- ./usr/share/zsh/vendor-completions/_longshore",
        ]
    );
    let linked = stage.join("data/usr/lib/longshore/docker");
    assert_eq!(fs::read_to_string(linked).unwrap(), PROGRAM);
}
