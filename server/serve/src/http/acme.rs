//! Answers HTTP-01 challenges from the folder that an ACME client writes to.
//!
//! Invariants: only regular files are opened, and only by names that [`challenge_token`] accepts;
//! a folder that does not respond occupies a bounded number of threads.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use headlong_http::{CHALLENGE_FOLDER, Method, Status, challenge_reply};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::prepared_reply::{PreparedReply, ReplyError};
use super::state::MediaState;

/// Longest challenge. A key authorization has 87 characters (RFC 8555 8.1).
const CHALLENGE_BYTES_MAX: u64 = 4096;
/// Time limit for reading one.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The reply with the challenge of that token.
pub(super) async fn answer(
    state: &MediaState,
    folder: &Path,
    token: &str,
    method: Method,
) -> Result<PreparedReply, ReplyError> {
    let Ok(turn) = Arc::clone(&state.challenges).try_acquire_owned() else {
        return Err(ReplyError::Status(Status::Unavailable, None));
    };
    let path = folder.join(CHALLENGE_FOLDER).join(token);
    let reading = spawn_blocking(move || {
        let text = read(&path);
        drop(turn);
        text
    });
    let none = |status| Err(ReplyError::Status(status, None));
    match timeout(READ_TIMEOUT, reading).await {
        Ok(Ok(Ok(text))) => Ok(PreparedReply::without_bytes(challenge_reply(method, text))),
        Ok(Ok(Err(error))) if error.kind() == io::ErrorKind::PermissionDenied => {
            none(Status::Forbidden)
        }
        Ok(_) => none(Status::NotFound),
        Err(_) => none(Status::Unavailable),
    }
}

fn read(path: &Path) -> io::Result<String> {
    // Opening a FIFO would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file: OwnedFd = openat(CWD, path, flags, Mode::empty())?;
    let found = fstat(&file)?;
    let size = u64::try_from(found.st_size).unwrap_or(u64::MAX);
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || size > CHALLENGE_BYTES_MAX
    {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = String::new();
    let mut file = File::from(file).take(CHALLENGE_BYTES_MAX);
    file.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_only_small_regular_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("token"), "token.key").expect("written");
        assert_eq!(read(&at("token")).expect("read"), "token.key");
        std::fs::write(at("large"), "x".repeat(5000)).expect("written");
        std::os::unix::fs::symlink(at("token"), at("link")).expect("linked");
        std::fs::create_dir(at("folder")).expect("created");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, mode, 0).expect("created");
        for other in ["large", "link", "folder", "fifo", "missing"] {
            read(&at(other)).expect_err(other);
        }
    }
}
