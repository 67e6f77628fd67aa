//! Becoming the program.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{Unhelped, find, why_unhelped};

/// File name of the library.
const LIBRARY: &str = "libheadlong.so";
/// What the loader reads.
const PRELOAD: &str = "LD_PRELOAD";

/// What to start, and how.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program, as a shell would be told.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The library.
    pub library: PathBuf,
    /// Environment variables for the library.
    pub environment: Vec<(&'static str, OsString)>,
    /// Whether a program that would not be helped is started all the same.
    pub even_if_unhelped: bool,
}

/// Why the program was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no such program.
    #[error("there is no program `{0}` in PATH; write its whole path")]
    NotFound(String),
    /// It would not be helped, and then it was not to be started.
    #[error("`{program}` is not started, because it would not be helped: {why}")]
    Unhelped {
        /// The program.
        program: String,
        /// Why not.
        why: Unhelped,
    },
    /// The library is missing.
    #[error(
        "{LIBRARY} is neither beside this program nor in ../lib; `make build` builds it, or name it with --library"
    )]
    NoLibrary,
    /// The path of the library cannot be said in `LD_PRELOAD`.
    #[error(
        "the path `{0}` has a space or a colon, which LD_PRELOAD takes for its end; move the library"
    )]
    LibraryPath(PathBuf),
    /// The system does not start it.
    #[error("`{program}` cannot be started: {error}")]
    Exec {
        /// The program.
        program: String,
        /// What the system says.
        error: io::Error,
    },
}

/// The library beside this program, or in the folder `lib` beside its folder.
///
/// # Errors
/// If it is in neither.
pub fn library_beside() -> Result<PathBuf, LaunchError> {
    let own = std::env::current_exe().ok();
    let folder = own.as_deref().and_then(Path::parent);
    let above = folder.and_then(Path::parent);
    let places = [
        folder.map(|folder| folder.join(LIBRARY)),
        above.map(|above| above.join("lib").join(LIBRARY)),
        above.map(|above| above.join("lib/headlong").join(LIBRARY)),
    ];
    let mut places = places.into_iter().flatten();
    places
        .find(|place| place.is_file())
        .ok_or(LaunchError::NoLibrary)
}

/// Becomes the program. Returns only if that fails. `say` is told why it will not be helped.
pub fn launch(what: &Launch, say: impl FnOnce(&str)) -> LaunchError {
    let name = || what.program.to_string_lossy().into_owned();
    if what.library.to_string_lossy().contains([' ', ':']) {
        return LaunchError::LibraryPath(what.library.clone());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(file) = find(&what.program, &path) else {
        return LaunchError::NotFound(name());
    };
    if let Some(why) = why_unhelped(&file) {
        if !what.even_if_unhelped {
            let program = name();
            return LaunchError::Unhelped { program, why };
        }
        say(&format!("`{}` will not be helped: {why}", name()));
    }
    let mut command = Command::new(&file);
    command.arg0(&what.program).args(&what.arguments);
    let earlier = std::env::var_os(PRELOAD);
    command.env(PRELOAD, chained(&what.library, earlier.as_deref()));
    for (name, value) in &what.environment {
        command.env(name, value);
    }
    let error = command.exec();
    LaunchError::Exec {
        program: name(),
        error,
    }
}

/// This library first, so that it sees the program's own calls, then those that were there.
fn chained(library: &Path, earlier: Option<&OsStr>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(earlier) = earlier.filter(|earlier| !earlier.is_empty()) {
        all.push(":");
        all.push(earlier);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_launch(program: &str) -> Launch {
        Launch {
            program: program.into(),
            arguments: Vec::new(),
            library: "/lib/x.so".into(),
            environment: Vec::new(),
            even_if_unhelped: false,
        }
    }

    #[test]
    fn libraries_that_are_preloaded_already_stay() {
        let chain = |earlier: &str| chained(Path::new("/a.so"), Some(OsStr::new(earlier)));
        assert_eq!(chain("/b.so:/c.so"), "/a.so:/b.so:/c.so");
        assert_eq!(chain(""), "/a.so");
        assert_eq!(chained(Path::new("/a.so"), None), "/a.so");
    }

    #[test]
    fn what_cannot_be_started_says_why() {
        let nothing = |_: &str| panic!("nothing to say");
        let error = launch(&to_launch("no-such-program"), nothing);
        assert!(matches!(error, LaunchError::NotFound(_)), "{error}");
        let spaced = Launch {
            library: "/a b/x.so".into(),
            ..to_launch("sh")
        };
        assert!(matches!(
            launch(&spaced, nothing),
            LaunchError::LibraryPath(_)
        ));
        let error = launch(&to_launch("/etc/passwd"), nothing);
        assert!(matches!(error, LaunchError::Unhelped { .. }), "{error}");
    }
}
