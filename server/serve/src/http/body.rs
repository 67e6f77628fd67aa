//! Reply bodies: texts and pieces in the order of the plan, with the request's account.
//!
//! A body lives exactly as long as its request, so its drop logs the request: complete, failed, or
//! abandoned by its client.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use headlong_engine::{Failure, Refusal};
use headlong_http::{BodyPart, Pacer};
use headlong_kernel::raw::{BlockPin, FileRange};
use headlong_net::{HELD_PIECES_MAX, ReplyBuf, ReplyBytes};
use headlong_storage::{Piece, PieceInfo};
use headlong_telemetry::Stage;
use headlong_units::{ByteRange, Duration, Instant};
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use super::account::Account;
use super::range_request::{
    DeviceReply, FirstBytes, OriginBytes, RangeError, RangeReason, RangeReply, RangeRequester, part,
};
use super::shared_pace::ReplySchedules;

/// Why a body fails; hyper then resets the connection or stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyError(pub &'static str);

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reply aborted: {}", self.0)
    }
}

impl std::error::Error for BodyError {}

/// Name of a failure in logs.
pub(super) fn failure_name(failure: Failure) -> &'static str {
    match failure {
        Failure::Device => "device",
        Failure::TimedOut => "timed-out",
        Failure::Changed => "changed",
        Failure::Offline => "offline",
        Failure::NoResources => "no-resources",
    }
}

/// Name of a refusal in logs.
pub(super) fn refusal_name(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Overloaded { .. } => "overloaded",
        Refusal::Full => "full",
        Refusal::Offline { .. } => "offline",
        Refusal::UnknownStream | Refusal::OutOfBounds => "changed",
    }
}

/// Consecutive attempts to fetch a slice that was evicted again.
const REFETCH_MAX: u32 = 3;

/// Unsent bytes of a reply beyond which it takes no more from a slice that is being fetched: they
/// are copies, which no memory budget covers.
const PASSED_BYTES_MAX: u64 = 64 << 10;

type PendingReply = Pin<Box<dyn Future<Output = Result<RangeReply, RangeError>> + Send>>;

/// A step of a body.
enum BodyStep {
    Text(Bytes),
    /// A piece that was awaited before the status was sent.
    Piece(Piece),
    Part(BodyPart),
    /// The remainder of a part whose beginning the origin sent.
    Further(BodyPart),
    Asked(PendingReply, BodyPart),
    Replying(DeviceReply),
    Passed(OriginBytes),
}

/// Data that a body yielded and can yield again.
enum LastChunk {
    Text(Bytes),
    /// Bytes of this range of the file: of consecutive pieces that came from the same place, or from
    /// the origin.
    Bytes(ByteRange, Option<PieceInfo>),
}

impl LastChunk {
    fn bytes(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Bytes(range, _) => range.end - range.start,
        }
    }
}

/// The last data that a body yielded, at least as much as a connection holds of it.
#[derive(Default)]
struct LastChunks {
    last: Option<LastChunk>,
    /// Those before it, at most [`HELD_PIECES_MAX`]. Empty, and not allocated, for a reply of one
    /// part that comes from one place.
    earlier: VecDeque<LastChunk>,
}

impl LastChunks {
    fn push(&mut self, chunk: LastChunk) {
        if let (Some(LastChunk::Bytes(before, known)), LastChunk::Bytes(range, info)) =
            (&mut self.last, &chunk)
            && before.end == range.start
            && is_of_same_place(*known, *info)
        {
            before.end = range.end;
            return;
        }
        if let Some(before) = self.last.replace(chunk) {
            if self.earlier.len() == HELD_PIECES_MAX {
                self.earlier.pop_front();
            }
            self.earlier.push_back(before);
        }
    }

    /// Releases texts that were sent, and so are in front of all that is not.
    fn forget_texts(&mut self) {
        let is_kept = |chunk: &LastChunk| !matches!(chunk, LastChunk::Text(_));
        self.earlier.retain(is_kept);
        self.last = self.last.take().filter(is_kept);
    }

    /// Whether it has the last `bytes` of the yielded data.
    fn has(&self, bytes: u64) -> bool {
        let known = self.earlier.iter().chain(&self.last).map(LastChunk::bytes);
        bytes <= known.sum::<u64>()
    }

    /// Queues the last `bytes` before `steps`. `forget` receives the bytes of each place.
    fn queue_again(
        mut self,
        mut bytes: u64,
        steps: &mut VecDeque<BodyStep>,
        mut forget: impl FnMut(PieceInfo, u64),
    ) {
        self.earlier.extend(self.last);
        while bytes > 0
            && let Some(chunk) = self.earlier.pop_back()
        {
            let chunk_bytes = bytes.min(chunk.bytes());
            bytes -= chunk_bytes;
            match chunk {
                LastChunk::Text(text) => {
                    let from = text.len() - chunk_bytes as usize;
                    steps.push_front(BodyStep::Text(text.slice(from..)));
                }
                LastChunk::Bytes(ByteRange { end, .. }, info) => {
                    if let Some(info) = info {
                        forget(info, chunk_bytes);
                    }
                    match steps.front_mut() {
                        Some(BodyStep::Part(next))
                            if next.preamble.is_empty() && next.range.start == end =>
                        {
                            next.range.start -= chunk_bytes;
                        }
                        _ => {
                            let range = ByteRange::new(end - chunk_bytes, end);
                            steps.push_front(BodyStep::Part(part(range, false)));
                        }
                    }
                }
            }
        }
    }
}

fn is_of_same_place(one: Option<PieceInfo>, other: Option<PieceInfo>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.is_of_same_place(other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// Data of a body: bytes, or a piece in the memory that the disk wrote to.
#[derive(Debug)]
pub enum Chunk {
    /// Generated text, or bytes from an origin.
    Text(Bytes),
    /// A piece of a file, from an offset on.
    Piece(Piece, usize),
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.chunk().len()
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            Self::Piece(piece, skip) => &piece.as_ref()[*skip..],
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Text(text) => text.advance(count),
            Self::Piece(piece, skip) => {
                assert!(count <= piece.as_ref().len() - *skip, "beyond the end");
                *skip += count;
            }
        }
    }
}

impl ReplyBuf for Chunk {
    fn in_file(&self) -> Option<FileRange<'_>> {
        match self {
            Self::Text(_) => None,
            Self::Piece(piece, skip) => piece.in_file(*skip),
        }
    }

    fn pin(&self) -> Option<BlockPin> {
        match self {
            Self::Text(_) => None,
            Self::Piece(piece, _) => piece.pin(),
        }
    }

    fn drop_all(sent: impl Iterator<Item = Self>) {
        Piece::drop_all(sent.filter_map(|chunk| match chunk {
            Self::Text(_) => None,
            Self::Piece(piece, _) => Some(piece),
        }));
    }
}

/// The body of a reply.
pub struct ReplyBody {
    steps: VecDeque<BodyStep>,
    asking: Option<RangeRequester>,
    left_bytes: u64,
    last: LastChunks,
    account: Box<Account>,
    /// Consecutive attempts whose data had disappeared.
    vain: u32,
    /// Whether the last of them failed because the disk could not read a slice.
    is_unreadable: bool,
    /// Waits until enough bytes are sent.
    sender: Option<Waker>,
    pacer: Option<Pacer>,
    shared: ReplySchedules,
    /// Fires when the pacing allows the next bytes.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyBody")
            .field("left_bytes", &self.left_bytes)
            .finish_non_exhaustive()
    }
}

impl ReplyBody {
    /// A generated body, possibly empty.
    pub(super) fn made(bytes: Bytes, account: Box<Account>) -> Self {
        let left_bytes = bytes.len() as u64;
        let mut steps = VecDeque::new();
        if left_bytes > 0 {
            steps.push_back(BodyStep::Text(bytes));
        }
        Self {
            steps,
            asking: None,
            left_bytes,
            last: LastChunks::default(),
            account,
            vain: 0,
            is_unreadable: false,
            sender: None,
            pacer: None,
            shared: ReplySchedules::default(),
            alarm: None,
        }
    }

    /// A body of generated bytes, if any, and cached pieces of one part: `left_bytes` in all.
    pub(super) fn at_hand(
        preamble: Bytes,
        pieces: impl IntoIterator<Item = Piece>,
        left_bytes: u64,
        account: Box<Account>,
    ) -> Self {
        let mut body = Self::made(preamble, account);
        body.steps.extend(pieces.into_iter().map(BodyStep::Piece));
        body.left_bytes = left_bytes;
        body
    }

    /// A body of parts; the first bytes of the first part are given.
    pub(super) fn parts(
        body: headlong_http::PlannedBody,
        first: FirstBytes,
        asking: RangeRequester,
        shared: ReplySchedules,
        account: Box<Account>,
    ) -> Self {
        let left_bytes = body.length();
        let mut steps = VecDeque::new();
        let mut first = Some(first);
        for mut part in body.parts {
            if !part.preamble.is_empty() {
                let preamble = std::mem::take(&mut part.preamble);
                steps.push_back(BodyStep::Text(Bytes::from(preamble)));
            }
            match first.take() {
                Some(FirstBytes::Read(reply, piece)) => {
                    steps.push_back(BodyStep::Piece(piece));
                    steps.push_back(BodyStep::Replying(reply));
                }
                Some(FirstBytes::Passed(passed)) => steps.push_back(BodyStep::Passed(passed)),
                None => steps.push_back(BodyStep::Part(part)),
            }
        }
        if !body.closing.is_empty() {
            steps.push_back(BodyStep::Text(Bytes::from(body.closing)));
        }
        // Time spent on the start, such as a disk read, is caught up.
        let pacer = asking.pacer;
        Self {
            steps,
            asking: Some(asking),
            left_bytes,
            last: LastChunks::default(),
            account,
            vain: 0,
            is_unreadable: false,
            sender: None,
            pacer,
            shared,
            alarm: None,
        }
    }

    /// Stage to account the wait for the next step to.
    fn waits_for(&self) -> Stage {
        let asking = self.asking.as_ref();
        match self.steps.front() {
            Some(BodyStep::Asked(..)) if asking.is_some_and(RangeRequester::is_of_origin) => {
                Stage::Origin
            }
            Some(BodyStep::Further(_)) => Stage::Send,
            _ => Stage::Device,
        }
    }

    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        loop {
            let Some(step) = self.steps.pop_front() else {
                return Poll::Ready(None);
            };
            match step {
                BodyStep::Text(text) => {
                    self.last.push(LastChunk::Text(text.clone()));
                    return Poll::Ready(Some(Ok(Chunk::Text(text))));
                }
                BodyStep::Piece(piece) => return Poll::Ready(Some(Ok(self.take(piece)))),
                BodyStep::Further(part) if self.account.unsent_bytes > PASSED_BYTES_MAX => {
                    self.sender = Some(context.waker().clone());
                    self.steps.push_front(BodyStep::Further(part));
                    return Poll::Pending;
                }
                BodyStep::Further(part) => self.request(part, RangeReason::Further),
                BodyStep::Part(part) if self.is_unreadable => {
                    self.is_unreadable = false;
                    self.request(part, RangeReason::Unreadable);
                }
                BodyStep::Part(part) if self.vain > 0 => self.request(part, RangeReason::Again),
                BodyStep::Part(part) => self.request(part, RangeReason::New),
                BodyStep::Asked(mut asked, part) => match asked.as_mut().poll(context) {
                    Poll::Pending => {
                        self.steps.push_front(BodyStep::Asked(asked, part));
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(RangeReply::Begun(reply))) => {
                        self.steps.push_front(BodyStep::Replying(reply));
                    }
                    Poll::Ready(Ok(RangeReply::Passed(passed))) => {
                        self.steps.push_front(BodyStep::Passed(passed));
                    }
                    Poll::Ready(Err(RangeError::Fault(fault))) => {
                        return Poll::Ready(Some(Err(BodyError(fault.name()))));
                    }
                    Poll::Ready(Err(RangeError::Refused(refusal))) => {
                        return Poll::Ready(Some(Err(BodyError(refusal_name(refusal)))));
                    }
                },
                BodyStep::Passed(mut passed) => {
                    self.vain = 0;
                    let start = passed.end - passed.bytes.len() as u64;
                    let range = ByteRange::new(start, passed.end);
                    self.last.push(LastChunk::Bytes(range, None));
                    if let Some(rest) = passed.rest() {
                        self.steps.push_front(BodyStep::Further(rest));
                    }
                    return Poll::Ready(Some(Ok(Chunk::Text(passed.bytes))));
                }
                BodyStep::Replying(mut begun) => match begun.reply.poll_next(context) {
                    Poll::Pending => {
                        self.steps.push_front(BodyStep::Replying(begun));
                        return Poll::Pending;
                    }
                    Poll::Ready(None) => {
                        if let Some(rest) = begun.rest() {
                            self.steps.push_front(BodyStep::Part(rest));
                        }
                    }
                    Poll::Ready(Some(Ok(piece))) => {
                        self.vain = 0;
                        self.steps.push_front(BodyStep::Replying(begun));
                        return Poll::Ready(Some(Ok(self.take(piece))));
                    }
                    // A slice that was evicted, or that the disk cannot read, has the same bytes when
                    // it is fetched again.
                    Poll::Ready(Some(Err(
                        failure @ (Failure::Changed | Failure::Device | Failure::Offline),
                    ))) if begun.is_of_origin() && self.vain < REFETCH_MAX => {
                        self.vain += 1;
                        self.is_unreadable = failure == Failure::Device;
                        self.steps.push_front(BodyStep::Part(begun.left()));
                    }
                    Poll::Ready(Some(Err(failure))) => {
                        return Poll::Ready(Some(Err(BodyError(failure_name(failure)))));
                    }
                },
            }
        }
    }

    /// Requests a part; without a source there is nothing more.
    fn request(&mut self, part: BodyPart, why: RangeReason) {
        let Some(asking) = self.asking.clone() else {
            return self.steps.clear();
        };
        let wanted = part.clone();
        let reply = Box::pin(async move { asking.request(&wanted, why).await });
        self.steps.push_front(BodyStep::Asked(reply, part));
    }

    /// Waits until the pacing allows the next bytes.
    fn poll_pace(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.pacer.is_none() && self.shared.is_none() {
            return Poll::Ready(());
        }
        loop {
            let passed = Instant::ZERO + self.account.elapsed();
            let own = self
                .pacer
                .as_ref()
                .map(|pacer| pacer.may_go_at().since(passed));
            let shared = self.shared.may_go_at().since(self.account.now());
            let left = own.unwrap_or(Duration::ZERO).max(shared);
            if left == Duration::ZERO {
                return Poll::Ready(());
            }
            let wall = self.account.time_scale.wall(left);
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(wall)));
            if alarm.is_elapsed() {
                alarm.as_mut().reset(tokio::time::Instant::now() + wall);
            }
            ready!(alarm.as_mut().poll(context));
        }
    }

    /// Drops data and requests of the device; they are requested again when needed.
    fn drop_pending(&mut self) {
        let mut piece_bytes = 0;
        let steps = std::mem::take(&mut self.steps);
        for step in steps {
            let step = match step {
                BodyStep::Piece(piece) => {
                    piece_bytes = piece.as_ref().len() as u64;
                    continue;
                }
                BodyStep::Asked(_, part) | BodyStep::Further(part) => BodyStep::Part(part),
                BodyStep::Passed(passed) => BodyStep::Part(passed.left()),
                BodyStep::Replying(begun) => {
                    let mut part = begun.left();
                    part.range.start -= std::mem::take(&mut piece_bytes);
                    if part.range.is_empty() {
                        continue;
                    }
                    BodyStep::Part(part)
                }
                step => step,
            };
            self.steps.push_back(step);
        }
    }

    /// Queues the last `bytes` of the yielded data again.
    fn give_again(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let (last, account) = (std::mem::take(&mut self.last), &mut self.account);
        last.queue_again(bytes, &mut self.steps, |info, bytes| {
            account.forget_piece(info, bytes);
        });
        self.left_bytes += bytes;
        self.account.unsent_bytes -= bytes;
        if let Some(pacer) = &mut self.pacer {
            pacer.take_back(bytes);
        }
        self.shared.take_back(bytes);
        // The next bytes may be sent earlier.
        self.alarm = None;
    }

    fn take(&mut self, piece: Piece) -> Chunk {
        self.account.note_piece(&piece);
        match self.steps.front() {
            Some(BodyStep::Replying(begun)) => {
                let end = begun.position();
                let range = ByteRange::new(end - piece.as_ref().len() as u64, end);
                self.last.push(LastChunk::Bytes(range, Some(piece.info())));
            }
            // A copy cannot be requested again.
            _ => self.last = LastChunks::default(),
        }
        Chunk::Piece(piece, 0)
    }
}

impl http_body::Body for ReplyBody {
    type Data = Chunk;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, BodyError>>> {
        let this = &mut *self;
        if this.poll_pace(context).is_pending() {
            this.account.turn(Stage::Pace);
            return Poll::Pending;
        }
        let Poll::Ready(step) = this.poll_step(context) else {
            let stage = this.waits_for();
            this.account.turn(stage);
            return Poll::Pending;
        };
        match step {
            None => Poll::Ready(None),
            Some(Ok(bytes)) => {
                match &bytes {
                    Chunk::Piece(piece, _) => this.account.got(piece, Stage::Send),
                    Chunk::Text(_) => this.account.turn(Stage::Send),
                }
                let length = bytes.remaining() as u64;
                this.left_bytes = this.left_bytes.saturating_sub(length);
                this.account.unsent_bytes += length;
                if let Some(pacer) = &mut this.pacer {
                    pacer.go(length);
                }
                if !this.shared.is_none() {
                    this.shared.go(this.account.now(), length);
                }
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Some(Err(broken)) => {
                this.account.record.failure = Some(broken.0);
                this.steps.clear();
                Poll::Ready(Some(Err(broken)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes)
    }
}

impl ReplyBytes for ReplyBody {
    fn note_left(mut self: Pin<&mut Self>, bytes: u64) {
        let has_generated = self.account.generated.is_some();
        self.account.note_left(bytes);
        if has_generated && self.account.generated.is_none() {
            self.last.forget_texts();
        }
        if let Some(sender) = self.sender.take() {
            sender.wake();
        }
    }

    fn holds_scarce_memory(&self) -> bool {
        let asking = self.asking.as_ref();
        asking.is_some_and(|asking| asking.device.is_held_by_clients())
    }

    fn suspend(mut self: Pin<&mut Self>, unsent_bytes: u64) -> bool {
        let this = &mut *self;
        if this.asking.is_none() || !this.last.has(unsent_bytes) {
            return false;
        }
        this.drop_pending();
        this.give_again(unsent_bytes);
        true
    }
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        let account = &mut self.account;
        if self.left_bytes + account.unsent_bytes > 0 && account.record.failure.is_none() {
            account.record.failure = Some(account.why_cut_off());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAM: PieceInfo = PieceInfo {
        from_ram: true,
        from_flash: false,
        queue_time: Duration::ZERO,
        disk_time: Duration::ZERO,
    };
    const FLASH: PieceInfo = PieceInfo {
        from_ram: false,
        from_flash: true,
        ..RAM
    };
    const DISK: PieceInfo = PieceInfo {
        from_ram: false,
        ..RAM
    };

    /// Queues bytes again; returns their ranges in the file, texts as `None`, and the bytes to forget
    /// of RAM, flash and disk.
    fn queue_again(last: LastChunks, bytes: u64) -> (Vec<Option<(u64, u64)>>, [u64; 3]) {
        let (mut steps, mut forgotten) = (VecDeque::new(), [0; 3]);
        last.queue_again(bytes, &mut steps, |info, bytes| {
            let places = [RAM, FLASH, DISK];
            let place = places.iter().position(|place| *place == info);
            forgotten[place.expect("a place")] += bytes;
        });
        let range = |step: &BodyStep| match step {
            BodyStep::Part(part) => Some((part.range.start, part.range.end)),
            _ => None,
        };
        (steps.iter().map(range).collect(), forgotten)
    }

    #[test]
    fn pieces_of_several_places_are_queued_again() {
        let mut last = LastChunks::default();
        let pieces = HELD_PIECES_MAX as u64;
        for piece in 0..2 * pieces {
            let place = [Some(DISK), Some(RAM), Some(FLASH), None][piece as usize % 4];
            let range = ByteRange::new(10 * piece, 10 * piece + 10);
            last.push(LastChunk::Bytes(range, place));
        }
        assert!(last.has(10 * pieces));
        assert!(!last.has(10 * (pieces + 2)), "older ones are forgotten");
        let end = 20 * pieces;
        let (queued, forgotten) = queue_again(last, 10 * pieces - 5);
        assert_eq!(queued, [Some((end / 2 + 5, end))]);
        let of_place = 10 * pieces / 4;
        assert_eq!(forgotten, [of_place, of_place, of_place - 5]);
    }

    #[test]
    fn consecutive_pieces_of_one_place_are_one_range() {
        let mut last = LastChunks::default();
        for piece in 0..1000 {
            let range = ByteRange::new(10 * piece, 10 * piece + 10);
            last.push(LastChunk::Bytes(range, Some(RAM)));
        }
        assert!(last.earlier.is_empty() && last.has(10_000) && !last.has(10_001));
    }

    #[test]
    fn text_that_was_sent_is_released() {
        let mut last = LastChunks::default();
        last.push(LastChunk::Text(Bytes::from_static(b"preamble")));
        last.push(LastChunk::Bytes(ByteRange::new(0, 100), Some(DISK)));
        last.forget_texts();
        assert!(last.has(100) && !last.has(101));
        let mut last = LastChunks::default();
        last.push(LastChunk::Text(Bytes::from_static(b"preamble")));
        last.forget_texts();
        assert!(last.has(0) && !last.has(1));
    }

    #[test]
    fn several_parts_of_a_reply_are_queued_again() {
        let mut last = LastChunks::default();
        for start in [0, 1000, 2000] {
            last.push(LastChunk::Text(Bytes::from_static(b"preamble")));
            let range = ByteRange::new(start, start + 100);
            last.push(LastChunk::Bytes(range, Some(DISK)));
        }
        assert!(last.has(3 * 108) && !last.has(3 * 108 + 1));
        let (queued, forgotten) = queue_again(last, 100 + 8 + 100 + 8 + 30);
        let expected = [
            Some((70, 100)),
            None,
            Some((1000, 1100)),
            None,
            Some((2000, 2100)),
        ];
        assert_eq!((&queued[..], forgotten), (&expected[..], [0, 0, 230]));
    }
}
