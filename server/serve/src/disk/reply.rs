//! What a request gets: pieces in order, each keeping its bytes where they are until it is
//! dropped.
//!
//! Dropping is how the engine learns of everything: a dropped piece is a piece sent, a dropped
//! reply that was not finished is a viewer who left.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use headlong_engine::{ChainId, Failure, Request, RequestId, Slot, StreamId};
use headlong_units::{BitRate, Duration};
use tokio::sync::mpsc::UnboundedReceiver;

use super::StreamSource;
use crate::raw::{InFile, Pinned, View};

/// Who is told what became of pieces and replies.
pub(crate) trait Receiver: Send + Sync {
    /// Pieces were taken by a socket, or dropped.
    fn sent(&self, pieces: &[(RequestId, Slot)]);

    /// A reply was dropped before its end.
    fn cancelled(&self, request: RequestId);

    /// The bit rate of a stream became known, or a better one.
    fn bit_rate(&self, stream: StreamId, rate: BitRate) {
        let _ = (stream, rate);
    }

    /// A piece that is sent again and again: it may be copied before it is given back.
    fn keep(&self, piece: Piece) {
        drop(piece);
    }
}

/// Where the bytes of a piece were when the reply got to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceInfo {
    /// In RAM, or on their way there because of somebody's earlier read.
    pub from_ram: bool,
    /// Read from flash for the reply.
    pub from_flash: bool,
    /// How long the reply waited for the device to begin reading them; zero from RAM.
    pub queue_time: Duration,
    /// How long it then waited for the device; zero from RAM.
    pub disk_time: Duration,
}

/// Consecutive bytes of a reply, in the memory that the disk wrote them to. They count as sent
/// when this is dropped; until then they take room in the reply's send window.
pub struct Piece {
    /// `None` once it is given back: the bytes may be overwritten as soon as the engine is told.
    view: Option<View>,
    info: PieceInfo,
    /// Who is told; nobody of a copy.
    told: Option<Told>,
    /// Whether it was looked at whether it is worth a copy.
    is_judged: bool,
}

/// Who gave a piece, and as what.
struct Told {
    request: RequestId,
    slot: Slot,
    device: Arc<dyn Receiver>,
}

impl Piece {
    pub(super) fn new(
        view: View,
        info: PieceInfo,
        (request, slot): (RequestId, Slot),
        device: Arc<dyn Receiver>,
    ) -> Self {
        Self {
            view: Some(view),
            info,
            told: Some(Told {
                request,
                slot,
                device,
            }),
            is_judged: false,
        }
    }

    /// A copy, of which the engine knows nothing.
    pub(super) fn of_copy(view: View) -> Self {
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

    /// Where its bytes came from.
    pub fn info(&self) -> PieceInfo {
        self.info
    }

    /// The bytes from `skip` on, where a socket can take them from without a copy; `None` if they
    /// are only in memory.
    pub fn in_file(&self, skip: usize) -> Option<InFile<'_>> {
        self.view.as_ref()?.in_file(skip)
    }

    /// To be held as long as a socket may hold bytes of [`Piece::in_file`].
    pub fn pin(&self) -> Option<Pinned> {
        self.view.as_ref()?.pin()
    }

    /// Copies its bytes to where sockets take them from, for those who are sent them later.
    pub(super) fn keep(&self) {
        if let Some(view) = &self.view {
            view.keep();
        }
    }

    /// Drops pieces that are together, which costs less than one by one.
    pub fn drop_all(pieces: impl Iterator<Item = Self>) {
        let mut sent: Vec<(RequestId, Slot)> = Vec::new();
        let mut teller: Option<Arc<dyn Receiver>> = None;
        for mut piece in pieces {
            // What is to be copied, or is another device's, goes by itself.
            let Some(Told { device, .. }) = &piece.told else {
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
        !self.is_judged && self.view.as_ref().is_some_and(View::is_hot)
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
            return device.keep(Self {
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
        // Nobody has a piece that was given back.
        self.view.as_ref().map_or(&[], AsRef::as_ref)
    }
}

/// The bytes of one request, as they come.
pub struct Reply {
    /// Who is told if it is dropped before its end; nobody of copies.
    device: Option<(RequestId, Arc<dyn Receiver>)>,
    /// What was there when it was asked for.
    ready: VecDeque<Result<Piece, Failure>>,
    /// What comes after that; `None` if nothing does.
    pieces: Option<UnboundedReceiver<Result<Piece, Failure>>>,
    chain: Option<ChainId>,
    /// Who learns from its bytes.
    learner: Option<Box<Learner>>,
    bytes_left: u64,
    ended: bool,
}

/// Shows the bytes of a reply to the source of its stream.
struct Learner {
    source: Arc<dyn StreamSource>,
    stream: StreamId,
    part: u32,
    /// Where the next piece begins.
    at: u64,
}

impl Learner {
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
        device: Arc<dyn Receiver>,
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

    /// A reply of copies, of which the engine knows nothing.
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

    /// Shows its bytes to the source of its stream, if something may be learned from them.
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
            Box::new(Learner {
                source: Arc::clone(source),
                stream,
                part,
                at: offset,
            })
        });
        self
    }

    /// Whether the engine knows nothing of it.
    pub fn is_of_copies(&self) -> bool {
        self.device.is_none()
    }

    /// The chain that the engine counts the request to; `None` if it has no bytes, or the engine did
    /// not see it. Another may turn out to be the same later.
    pub fn chain(&self) -> Option<ChainId> {
        self.chain
    }

    /// The next bytes; `None` after all that were asked for, or after a failure. A device that
    /// stopped is a failure, [`Failure::Offline`]. Wakes the task when there is more to say.
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

    /// [`Reply::poll_next`] to be awaited. Nothing is lost if it is not awaited to its end.
    pub async fn next(&mut self) -> Option<Result<Piece, Failure>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Bytes still to come.
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
    use super::*;
    use crate::disk::mailbox::{Mailbox, Waker};
    use crate::disk::message::Message;
    use crate::raw::Pool;
    use tokio::sync::mpsc::unbounded_channel;

    const INFO: PieceInfo = PieceInfo {
        from_ram: true,
        from_flash: false,
        queue_time: Duration::ZERO,
        disk_time: Duration::ZERO,
    };

    /// Notes what it is told.
    impl Receiver for Mailbox<Message> {
        fn sent(&self, pieces: &[(RequestId, Slot)]) {
            for (request, slot) in pieces.iter().copied() {
                self.post(Message::Sent { request, slot });
            }
        }

        fn cancelled(&self, request: RequestId) {
            self.post(Message::Cancel(request));
        }
    }

    fn device() -> Arc<Mailbox<Message>> {
        Mailbox::new(Waker::new().expect("eventfd"))
    }

    fn messages(device: &Mailbox<Message>) -> Vec<Message> {
        let mut messages = Vec::new();
        device.take(&mut messages);
        messages
    }

    fn piece(pool: &Arc<Pool>, slot: Slot, device: &Arc<Mailbox<Message>>) -> Piece {
        let view = pool.view(slot, 0, 4096).expect("filled");
        Piece::new(view, INFO, (RequestId(7), slot), device.clone())
    }

    #[test]
    fn a_dropped_piece_is_told_once_when_its_slot_is_free() {
        let (device, pool) = (device(), Pool::new(8, 4096).expect("maps"));
        let piece = piece(&pool, Slot(3), &device);
        assert!(messages(&device).is_empty() && pool.lease(&[Slot(3)]).is_none());
        drop(piece);
        let told = messages(&device);
        assert!(matches!(
            told[..],
            [Message::Sent {
                request: RequestId(7),
                slot: Slot(3)
            }]
        ));
        assert!(pool.lease(&[Slot(3)]).is_some());
    }

    #[tokio::test]
    async fn only_an_unfinished_reply_is_cancelled() {
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
                .filter(|m| matches!(m, Message::Cancel(RequestId(7))));
            assert_eq!(
                cancels.count(),
                usize::from(is_cancelled),
                "{pieces} {failure:?}"
            );
        }
    }
}
