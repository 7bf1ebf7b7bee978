//! The Go programs of `tests/interop/go`: `csi-sanity` (the sanity tests of kubernetes-csi/csi-test),
//! `csi-driver-dir` (a CSI v1 driver on grpc-go, whose volumes survive a kill), `nri-plugin` and `nri-runtime` (both
//! sides of containerd/nri), `cri-drive` (pods and containers on an engine), `pause` (all that their image holds) and
//! `kubelet` (what kubelet does about registrations of plugins).
//!
//! ```no_run
//! use longshore_testkit::{interop, peers};
//! let Some(go) = peers::go() else { return };
//! let driver = interop::program(&go, "csi-driver-dir");
//! // CSI_ENDPOINT=unix://<socket> <driver> -state <dir>
//! # let _ = driver;
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

/// Builds a program once per build directory, with the modules that `go.sum` names, and gives its path.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn program(go: &Path, name: &str) -> PathBuf {
    // One at a time: what the first one compiles, the others find in Go's cache.
    static BUILDING: Mutex<()> = Mutex::new(());
    let building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let built = build(go, name);
    drop(building);
    match built {
        Ok(path) => path,
        Err(error) => panic!("cannot build the Go program {name}: {error}"),
    }
}

fn build(go: &Path, name: &str) -> io::Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/go");
    let out = beside(&std::env::current_exe()?)
        .ok_or_else(|| io::Error::other("the program that needs it lies in no folder"))?;
    fs::create_dir_all(&out)?;
    let path = out.join(name);
    // go build is quick when nothing changed, and replaces the file at once when something did.
    let output = Command::new(go)
        .current_dir(source)
        .args(["build", "-mod=readonly", "-o"])
        .arg(&path)
        .arg(format!("./{name}"))
        .output()?;
    if output.status.success() {
        Ok(path)
    } else {
        Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    }
}

/// The folder for the programs of the test `<profile>/deps/<test>`, or of the bench `<profile>/<bench>`, in its
/// profile's folder. (Marks of a target directory, such as CACHEDIR.TAG, are missing where somebody else made it.)
fn beside(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    let profile = if folder.ends_with("deps") {
        folder.parent()?
    } else {
        folder
    };
    Some(profile.join("interop"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_lie_in_the_profiles_folder_of_their_test_or_bench_wherever_that_is() {
        for (test, folder) in [
            (
                "/w/target/debug/deps/it-0f",
                Some("/w/target/debug/interop"),
            ),
            (
                "/elsewhere/x86_64/release/deps/it-0f",
                Some("/elsewhere/x86_64/release/interop"),
            ),
            (
                "/w/target/release/bench-it",
                Some("/w/target/release/interop"),
            ),
            ("/", None),
        ] {
            assert_eq!(beside(Path::new(test)), folder.map(PathBuf::from), "{test}");
        }
    }
}
