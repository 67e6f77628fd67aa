//! Transport: requests to the server, and bytes to viewers.

use headlong_player::{CallId, ObjectId};
use headlong_units::{ByteRange, Duration};

use super::{World, WorldEvent};
use crate::origin::{OriginEvent, ReplyPiece, Requester};

impl World<'_> {
    pub(super) fn request(
        &mut self,
        (session, call): (u32, CallId),
        (object, range): (ObjectId, Option<ByteRange>),
        next: Option<(ObjectId, Option<ByteRange>)>,
    ) {
        // The viewer has left or abandoned the call: it has closed the connection before the
        // request was read.
        let visit = self.visits.get_mut(u64::from(session));
        let Some(visit) = visit.filter(|visit| visit.open.iter().any(|(open, _)| *open == call))
        else {
            return;
        };
        if self.is_down {
            let refused = WorldEvent::Broken { session, call };
            self.events.plan(self.now + visit.link.delay(), refused);
            return;
        }
        let asker = Requester {
            session,
            call,
            is_whole: range.is_none(),
        };
        match self.server.ask(self.now, asker, object, range) {
            Ok(request) => {
                visit.asked.push((call, request));
                if let Some((object, range)) = next {
                    self.server.expect(self.now, asker, object, range);
                }
            }
            Err(status) => {
                let refused = WorldEvent::Status {
                    session,
                    call,
                    status,
                };
                self.events.plan(self.now + visit.link.delay(), refused);
            }
        }
        self.pass_on();
    }

    /// Hands the server's outcomes to the sockets.
    pub(super) fn pass_on(&mut self) {
        while let Some(outcome) = self.server.poll_outcome() {
            match outcome {
                OriginEvent::Piece(piece) => self.send(piece),
                OriginEvent::Failed(Requester { session, call, .. }) => {
                    let visit = self.visits.get_mut(u64::from(session));
                    let delay = visit.map_or(Duration::ZERO, |visit| visit.link.delay());
                    let broken = WorldEvent::Broken { session, call };
                    self.events.plan(self.now + delay, broken);
                }
            }
        }
    }

    fn send(&mut self, piece: ReplyPiece) {
        let Requester { session, call, .. } = piece.asker;
        let Some(visit) = self.visits.get_mut(u64::from(session)) else {
            // The viewer has left; the server will receive the disconnect.
            return;
        };
        let leaves_at = self.server.leaves_at(self.now, &piece);
        let journey = visit.link.give(leaves_at, piece.bytes);
        let link = &visit.link;
        let told_at = self.server.handed(self.now, &piece, link, journey.taken);
        let taken = WorldEvent::Taken(piece.request, piece.slot);
        self.events.plan(told_at, taken);
        let bytes = WorldEvent::Bytes {
            session,
            call,
            bytes: piece.bytes,
            head: piece.head.map(|length| (piece.asker.status(), length)),
            is_last: piece.is_last,
        };
        self.events.plan(journey.arrived, bytes);
    }
}
