//! Look-ups of requested files, and the replies for those that are not found.

use std::sync::Arc;

use headlong_engine::Failure;
use headlong_http::Status;
use headlong_library::{FileEntry, ResolveError, os_path};
use headlong_telemetry::LimitedKind;
use rustix::io::Errno;

use super::prepared_reply::ReplyError;
use super::state::MediaState;

/// Upper bound of a look-up's timeout, beyond the patience of any client.
pub(super) const LOOKUP_MAX: std::time::Duration = std::time::Duration::from_secs(60);

/// The file at a path. A device that is offline is not accessed; its files are known from before.
pub(super) async fn resolve(
    state: &Arc<MediaState>,
    path: &str,
    within: std::time::Duration,
) -> Result<Arc<FileEntry>, ReplyError> {
    if let Some(file) = state.library.recall(path) {
        return Ok(file);
    }
    // A device that is offline is not accessed; bytes in memory are still served.
    let is_offline = |file: &Arc<FileEntry>| {
        state
            .devices
            .get(file.device)
            .is_some_and(|device| device.is_offline())
    };
    if let Some(file) = state.library.remember(path).filter(is_offline) {
        return Ok(file);
    }
    let found = state.lookups.resolve(path, within.min(LOOKUP_MAX)).await;
    found.map_err(|error| not_found(state, error))
}

/// The reply for a file or folder that is not found, which is logged if it is a failure.
pub(super) fn not_found(state: &MediaState, error: ResolveError) -> ReplyError {
    match error {
        ResolveError::Io { path, source } => {
            let path = os_path(&path);
            // A name may contain any byte; `?` quotes it, so that it stays on its line.
            state.limited_log.write(LimitedKind::Lookup, |left_out| {
                tracing::warn!(?path, error = %source, left_out, "cannot look up a file");
            });
            ReplyError::Failed(match is_short_of_resources(&source) {
                true => Failure::NoResources,
                false => Failure::Device,
            })
        }
        ResolveError::NoAnswer(_) => ReplyError::Failed(Failure::TimedOut),
        ResolveError::Forbidden(path) => {
            let path = os_path(&path);
            let remedy = "let the server's user read it and search its parent directories";
            state.limited_log.write(LimitedKind::Forbidden, |left_out| {
                tracing::warn!(
                    ?path,
                    remedy,
                    left_out,
                    "cannot read a file: permission denied"
                );
            });
            ReplyError::Status(Status::Forbidden, None)
        }
        ResolveError::Directory(_) => ReplyError::Folder,
        ResolveError::FolderTooLarge(_) => {
            let detail = "the folder has more names than a listing shows; divide it into folders";
            ReplyError::Status(Status::Forbidden, Some(detail.to_owned()))
        }
        _ => ReplyError::Status(Status::NotFound, None),
    }
}

fn is_short_of_resources(error: &std::io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    short
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
