//! Replies: a sequence of pieces, each of which keeps its bytes in memory until it is dropped.
//!
//! Drops are the only feedback to the engine: a dropped piece counts as sent, and an unfinished
//! reply that is dropped counts as a client that disconnected.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use headlong_engine::{ChainId, Failure, Request, RequestId, Slot, StreamId};
use headlong_kernel::raw::{BlockPin, FileRange, PieceView};
use headlong_units::{BitRate, Duration};
use tokio::sync::mpsc::UnboundedReceiver;

use super::StreamSource;

/// Receives the completion of pieces and replies.
pub(crate) trait CompletionReceiver: Send + Sync {
    /// Sockets have taken these pieces, or they were dropped.
    fn sent(&self, pieces: &[(RequestId, Slot)]);

    /// A reply was dropped before its end.
    fn cancelled(&self, request: RequestId);

    /// The bit rate of a stream is known, or a better estimate.
    fn bit_rate(&self, stream: StreamId, rate: BitRate) {
        let _ = (stream, rate);
    }

    /// A frequently sent piece: it may be copied before it is returned.
    fn copy_piece(&self, piece: Piece) {
        drop(piece);
    }
}

/// Where the bytes of a piece came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceInfo {
    /// In memory, or being read on behalf of another request.
    pub from_ram: bool,
    /// Read from flash for this reply.
    pub from_flash: bool,
    /// How long the reply waited until the device started the read; zero from memory.
    pub queue_time: Duration,
    /// How long the read then took; zero from memory.
    pub disk_time: Duration,
}

impl PieceInfo {
    /// Whether both came from memory, from flash, or from the disk.
    pub fn is_of_same_place(self, other: Self) -> bool {
        (self.from_ram, self.from_flash) == (other.from_ram, other.from_flash)
    }
}

/// Consecutive bytes of a reply, in the memory that the disk wrote them to. They count as sent when
/// the piece is dropped; until then they occupy the reply's send window.
pub struct Piece {
    /// `None` once the piece is returned: after that the bytes may be overwritten.
    view: Option<PieceView>,
    info: PieceInfo,
    /// Origin of the piece; `None` for a copy.
    told: Option<PieceOrigin>,
    /// Whether the piece was already considered for copying.
    is_judged: bool,
}

/// Origin of a piece.
struct PieceOrigin {
    request: RequestId,
    slot: Slot,
    device: Arc<dyn CompletionReceiver>,
}

impl Piece {
    pub(super) fn new(
        view: PieceView,
        info: PieceInfo,
        request: RequestId,
        slot: Slot,
        device: Arc<dyn CompletionReceiver>,
    ) -> Self {
        Self {
            view: Some(view),
            info,
            told: Some(PieceOrigin {
                request,
                slot,
                device,
            }),
            is_judged: false,
        }
    }

    /// A copy, unknown to the engine.
    pub(super) fn of_copy(view: PieceView) -> Self {
        let info = PieceInfo {
            from_ram: true,
            from_flash: false,
            queue_time: Duration::ZERO,
            disk_time: Duration::ZERO,
        };
        Self {
            view: Some(view),
            info,
            told: None,
            is_judged: true,
        }
    }

    /// A range of the bytes of a copy; `None` for other pieces, or if the range is not inside.
    pub fn part_of_copy(&self, range: Range<usize>) -> Option<Self> {
        let (start, end) = (range.start.try_into().ok()?, range.end.try_into().ok()?);
        Some(Self::of_copy(self.view.as_ref()?.part(start, end)?))
    }

    /// Where its bytes came from.
    pub fn info(&self) -> PieceInfo {
        self.info
    }

    /// The bytes from `skip` on as a file range for `sendfile`; `None` if they are only in memory.
    pub fn in_file(&self, skip: usize) -> Option<FileRange<'_>> {
        self.view.as_ref()?.in_file(skip)
    }

    /// Guard to hold as long as a socket may refer to bytes of [`Piece::in_file`].
    pub fn pin(&self) -> Option<BlockPin> {
        self.view.as_ref()?.pin()
    }

    /// Copies the piece into the sendfile cache.
    pub(super) fn copy_to_cache(&self) {
        if let Some(view) = &self.view {
            view.copy_to_cache();
        }
    }

    /// Drops several pieces at once, which costs less than dropping each.
    pub fn drop_all(pieces: impl Iterator<Item = Self>) {
        let mut sent: Vec<(RequestId, Slot)> = Vec::new();
        let mut teller: Option<Arc<dyn CompletionReceiver>> = None;
        for mut piece in pieces {
            // Pieces to copy, and pieces of another device, are dropped one by one.
            let Some(PieceOrigin { device, .. }) = &piece.told else {
                continue;
            };
            let known = teller.as_ref();
            let is_same = known.is_none_or(|teller| Arc::ptr_eq(teller, device));
            if !is_same || piece.is_worth_keeping() {
                continue;
            }
            drop(piece.view.take());
            if let Some(told) = piece.told.take() {
                sent.push((told.request, told.slot));
                teller.get_or_insert(told.device);
            }
        }
        if let Some(teller) = teller {
            teller.sent(&sent);
        }
    }

    fn is_worth_keeping(&self) -> bool {
        !self.is_judged && self.view.as_ref().is_some_and(PieceView::is_hot)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let is_worth_keeping = self.is_worth_keeping();
        let (view, told) = (self.view.take(), self.told.take());
        let (Some(view), Some(told)) = (view, told) else {
            return;
        };
        if is_worth_keeping {
            let device = Arc::clone(&told.device);
            return device.copy_piece(Self {
                view: Some(view),
                info: self.info,
                told: Some(told),
                is_judged: true,
            });
        }
        drop(view);
        told.device.sent(&[(told.request, told.slot)]);
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Piece")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes_left = self.bytes_left;
        f.debug_struct("Reply")
            .field("bytes_left", &bytes_left)
            .finish_non_exhaustive()
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        // A returned piece has no view, and no owner either.
        self.view.as_ref().map_or(&[], AsRef::as_ref)
    }
}

/// The bytes of one request, as they become available.
pub struct Reply {
    /// Receiver of the cancellation; `None` for a reply from copies.
    device: Option<(RequestId, Arc<dyn CompletionReceiver>)>,
    /// Pieces that were available when the request was made.
    ready: VecDeque<Result<Piece, Failure>>,
    /// Channel for the remaining pieces; `None` if there are none.
    pieces: Option<UnboundedReceiver<Result<Piece, Failure>>>,
    chain: Option<ChainId>,
    /// Set if the stream's source wants to inspect the bytes.
    learner: Option<Box<BitRateProbe>>,
    bytes_left: u64,
    ended: bool,
}

/// Shows the bytes of a reply to the source of its stream.
struct BitRateProbe {
    source: Arc<dyn StreamSource>,
    stream: StreamId,
    part: u32,
    /// Offset of the next piece.
    at: u64,
}

impl BitRateProbe {
    fn show(&mut self, piece: &Piece) -> Option<BitRate> {
        let bytes = piece.as_ref();
        let rate = self.source.learn(self.part, self.at, bytes);
        self.at += bytes.len() as u64;
        rate
    }
}

impl Reply {
    pub(super) fn new(
        request: RequestId,
        length: u64,
        ready: VecDeque<Result<Piece, Failure>>,
        pieces: Option<UnboundedReceiver<Result<Piece, Failure>>>,
        device: Arc<dyn CompletionReceiver>,
    ) -> Self {
        Self {
            device: Some((request, device)),
            ready,
            pieces,
            chain: None,
            learner: None,
            bytes_left: length,
            ended: false,
        }
    }

    /// A reply from copies, unknown to the engine.
    pub(super) fn of_copies(pieces: impl Iterator<Item = Piece>, length: u64) -> Self {
        Self {
            device: None,
            ready: pieces.map(Ok).collect(),
            pieces: None,
            chain: None,
            learner: None,
            bytes_left: length,
            ended: false,
        }
    }

    pub(super) fn in_chain(mut self, chain: Option<ChainId>) -> Self {
        self.chain = chain;
        self
    }

    /// Shows the bytes to the source of the stream, if the source can learn from them.
    pub(super) fn teaching(mut self, request: &Request, source: &Arc<dyn StreamSource>) -> Self {
        let Request {
            stream,
            part,
            offset,
            length,
            ..
        } = *request;
        let wanted = source.wants(part);
        let is_of_use = wanted.is_some_and(|at| at >= offset && at - offset < length);
        self.learner = is_of_use.then(|| {
            Box::new(BitRateProbe {
                source: Arc::clone(source),
                stream,
                part,
                at: offset,
            })
        });
        self
    }

    /// Whether the reply is unknown to the engine.
    pub fn is_of_copies(&self) -> bool {
        self.device.is_none()
    }

    /// The chain of the request; `None` if the request has no bytes or the engine did not see it.
    /// Chains may be merged later.
    pub fn chain(&self) -> Option<ChainId> {
        self.chain
    }

    /// The next piece; `None` after the last piece or a failure. If the device stops, the result is
    /// [`Failure::Offline`].
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Piece, Failure>>> {
        if self.ended || self.bytes_left == 0 {
            return Poll::Ready(None);
        }
        let next = match (self.ready.pop_front(), &mut self.pieces) {
            (Some(next), _) => Some(next),
            (None, Some(pieces)) => ready!(pieces.poll_recv(context)),
            (None, None) => None,
        };
        let next = next.unwrap_or(Err(Failure::Offline));
        match &next {
            Ok(piece) => {
                if let Some(learner) = &mut self.learner
                    && let Some(rate) = learner.show(piece)
                    && let Some((_, device)) = &self.device
                {
                    device.bit_rate(learner.stream, rate);
                }
                let length = piece.as_ref().len() as u64;
                self.bytes_left = self.bytes_left.saturating_sub(length);
                self.ended = self.bytes_left == 0;
            }
            Err(_) => self.ended = true,
        }
        Poll::Ready(Some(next))
    }

    /// Awaits [`Reply::poll_next`]. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Piece, Failure>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Bytes not yet received.
    pub fn bytes_left(&self) -> u64 {
        self.bytes_left
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.ended
            && let Some((request, device)) = &self.device
        {
            device.cancelled(*request);
        }
    }
}

#[cfg(test)]
mod tests {
    use headlong_kernel::raw::Pool;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::mailbox::{Mailbox, Waker};
    use crate::message::DeviceMessage;

    const INFO: PieceInfo = PieceInfo {
        from_ram: true,
        from_flash: false,
        queue_time: Duration::ZERO,
        disk_time: Duration::ZERO,
    };

    /// Records its calls.
    impl CompletionReceiver for Mailbox<DeviceMessage> {
        fn sent(&self, pieces: &[(RequestId, Slot)]) {
            for (request, slot) in pieces.iter().copied() {
                self.post(DeviceMessage::Sent { request, slot });
            }
        }

        fn cancelled(&self, request: RequestId) {
            self.post(DeviceMessage::Cancel(request));
        }
    }

    fn device() -> Arc<Mailbox<DeviceMessage>> {
        Mailbox::new(Waker::new().expect("eventfd"))
    }

    fn messages(device: &Mailbox<DeviceMessage>) -> Vec<DeviceMessage> {
        let mut messages = Vec::new();
        device.take(&mut messages);
        messages
    }

    fn piece(pool: &Arc<Pool>, slot: Slot, device: &Arc<Mailbox<DeviceMessage>>) -> Piece {
        let view = pool.view(slot, 0, 4096).expect("filled");
        Piece::new(view, INFO, RequestId(7), slot, device.clone())
    }

    #[test]
    fn dropped_piece_is_reported_once_after_slot_is_free() {
        let (device, pool) = (device(), Pool::new(8, 4096).expect("maps"));
        let piece = piece(&pool, Slot(3), &device);
        assert!(messages(&device).is_empty() && pool.lease(&[Slot(3)]).is_none());
        drop(piece);
        let told = messages(&device);
        assert!(matches!(
            told[..],
            [DeviceMessage::Sent {
                request: RequestId(7),
                slot: Slot(3)
            }]
        ));
        assert!(pool.lease(&[Slot(3)]).is_some());
    }

    #[tokio::test]
    async fn drop_cancels_only_unfinished_replies() {
        let (device, pool) = (device(), Pool::new(8, 4096).expect("maps"));
        for (pieces, failure, is_cancelled) in [
            (0, None, true),
            (1, None, true),
            (2, None, false),
            (1, Some(Failure::Device), false),
        ] {
            let (sender, receiver) = unbounded_channel();
            let mut reply = Reply::new(
                RequestId(7),
                2 * 4096,
                VecDeque::new(),
                Some(receiver),
                device.clone(),
            );
            for slot in 0..pieces {
                sender
                    .send(Ok(piece(&pool, Slot(slot), &device)))
                    .expect("open");
                reply.next().await.expect("sent").expect("a piece");
            }
            if let Some(failure) = failure {
                sender.send(Err(failure)).expect("open");
                assert_eq!(reply.next().await.and_then(Result::err), Some(failure));
                assert!(reply.next().await.is_none());
            }
            messages(&device);
            drop(reply);
            let told = messages(&device);
            let cancels = told
                .iter()
                .filter(|m| matches!(m, DeviceMessage::Cancel(RequestId(7))));
            assert_eq!(
                cancels.count(),
                usize::from(is_cancelled),
                "{pieces} {failure:?}"
            );
        }
    }
}
