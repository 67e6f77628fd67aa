//! Replies with bytes of a file of the library: its device is asked for them, and the first ones are
//! awaited before the status is sent.

use std::sync::Arc;

use headlong_engine::{Failure, Request as EngineRequest, StreamId};
use headlong_http::{ReplyPlan, Status};
use headlong_library::FileEntry;
use headlong_storage::Device;
use headlong_telemetry::Stage;

use super::parsed_request::ParsedRequest;
use super::prepared_reply::{PreparedReply, ReplyError};
use super::range_request::{DeviceReply, FirstBytes, RangeRequester};
use super::response::add_cmsd;
use super::source::LibrarySource;
use super::state::MediaState;

/// The device of a file, which is named in the log of the request.
pub(super) fn device_of<'s>(
    state: &'s MediaState,
    asked: &mut ParsedRequest,
    file: &FileEntry,
) -> Result<&'s Device, ReplyError> {
    let Some(device) = state.devices.get(file.device) else {
        let detail = "its device was mounted after the server started; restart the server";
        return Err(ReplyError::Status(
            Status::Unavailable,
            Some(detail.to_owned()),
        ));
    };
    asked.account.record.device = Some(Arc::clone(device.name()));
    Ok(device)
}

/// Requests of a client for ranges of a file, counted against the limit of its address; `whole` if
/// the client named no range, and so may stop reading anywhere.
pub(super) fn requester(
    state: &MediaState,
    asked: &mut ParsedRequest,
    device: &Device,
    file: &FileEntry,
    whole: bool,
) -> Result<RangeRequester, ReplyError> {
    let client = asked.account.record.remote;
    // A retry still counts as one request.
    asked.account.held = None;
    let held = state.hold(&asked.settings, file.device, client);
    asked.account.held = held.ok_or(ReplyError::TooMany)?;
    let request = EngineRequest {
        viewer: asked.identity,
        stream: StreamId(file.stream.id),
        part: file.part,
        offset: 0,
        length: 0,
        open_ended: false,
        overlap_bytes: 0,
        holder: state.holder(&asked.settings, client),
        hints: asked.hints(),
    };
    let files = Arc::clone(&file.stream);
    state.note_stream(&files);
    let source = Arc::new(LibrarySource {
        files,
        direct: asked.settings.direct,
    });
    Ok(RangeRequester {
        device: device.clone(),
        source,
        request,
        whole,
        pacer: None,
        bringing: None,
    })
}

/// Waits for the first bytes of a body whose first part was requested.
pub(super) async fn with_first_bytes(
    mut asking: RangeRequester,
    mut begun: DeviceReply,
    asked: &mut ParsedRequest,
    path: &str,
    file: &FileEntry,
    mut plan: ReplyPlan,
) -> Result<PreparedReply, ReplyError> {
    match begun.reply.next().await {
        Some(Ok(piece)) => {
            asked.account.got(&piece, Stage::Other);
            // The bit rate may be known from the first piece.
            let bit_rate = file.stream.bit_rate().or(asked.cmcd.bit_rate);
            let pace = asked.settings.access.pace(path);
            asking.pacer = pace.pacer(headlong_units::Instant::ZERO, bit_rate);
            add_cmsd(&mut plan, asked, path, file);
            Ok(PreparedReply {
                first: Some((FirstBytes::Read(begun, piece), asking)),
                ..PreparedReply::without_bytes(plan)
            })
        }
        Some(Err(failure)) => Err(ReplyError::Failed(failure)),
        None => Err(ReplyError::Failed(Failure::Device)),
    }
}
