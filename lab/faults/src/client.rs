//! The client side of a reply: it accepts pieces at its pace and verifies every byte, until the
//! reply is complete or the client leaves.

use headlong_http::Method;
use headlong_units::Duration;

use crate::check::Check;
use crate::content::ContentKey;
use crate::event_queue::Event;
use crate::exchange::{UnresolvedRequest, tag_of};
use crate::host::PendingPiece;
use crate::session::{SessionRequest, ViewerSession, path};
use crate::world::World;

/// A reader that accepts nothing for this long is disconnected.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);

impl World<'_> {
    /// Starts to accept the next piece, unless the socket stalls.
    pub(crate) fn kick(&mut self, number: u64) {
        let Some(exchange) = self.exchanges.get_mut(&number) else {
            return;
        };
        let Some(chunk) = exchange.chunks.front().filter(|_| !exchange.is_taking) else {
            return;
        };
        exchange.is_taking = true;
        let bytes = u64::from(chunk.end - chunk.start);
        let is_stalled = exchange
            .ask
            .stalls_at
            .is_some_and(|at| exchange.taken + bytes > at);
        if is_stalled {
            let at = self.now + SEND_TIMEOUT;
            return self.queue.plan(at, Event::CutOff(number));
        }
        let rate = self
            .sessions
            .get(exchange.session)
            .map_or(u64::MAX / 4, |session| session.rate);
        let time = Duration(
            u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(rate)).unwrap_or(0),
        );
        // A reader that accepts less than a window within its time limit is disconnected, too.
        self.queue
            .plan(self.now + time.min(SEND_TIMEOUT), Event::Taken(number));
    }

    /// The socket has accepted a piece: verifies its bytes.
    pub(crate) fn taken(&mut self, number: u64) {
        let Some(exchange) = self.exchanges.get_mut(&number) else {
            return;
        };
        exchange.is_taking = false;
        let Some(chunk) = exchange.chunks.pop_front() else {
            return;
        };
        let disk = exchange.disk;
        let bytes = u64::from(chunk.end - chunk.start);
        let left = exchange
            .ask
            .leaves_at
            .map_or(u64::MAX, |at| at.saturating_sub(exchange.taken));
        exchange.taken += bytes.min(left);
        self.judge_bytes(number, chunk);
        self.counts.bytes += bytes;
        self.sent(disk, &chunk);
        self.pass_on(disk);
        if left <= bytes {
            return self.leave(number);
        }
        let Some(exchange) = self.exchanges.get_mut(&number) else {
            return;
        };
        let Some(part) = exchange.current().cloned() else {
            return;
        };
        if exchange.chunks.is_empty() {
            exchange.since = self.now;
        }
        self.oracle.expect(
            exchange.came <= part.range.len(),
            Check::Head,
            self.now,
            || {
                format!(
                    "received more than the {} bytes of {:?}",
                    part.range.len(),
                    part.range
                )
            },
        );
        let has_all = exchange
            .request
            .is_some_and(|id| !self.devices[disk].runs(id));
        if !(has_all && exchange.chunks.is_empty()) {
            return self.kick(number);
        }
        self.of_request.remove(&(disk, chunk.request));
        exchange.request = None;
        exchange.part += 1;
        self.oracle.expect(
            exchange.came == part.range.len(),
            Check::Head,
            self.now,
            || format!("received {} bytes of {:?}", exchange.came, part.range),
        );
        match exchange.current().is_some() {
            true => self.ask(number, false),
            false => self.finish(number),
        }
    }

    /// Returns a piece to its device.
    pub(crate) fn sent(&mut self, disk: usize, chunk: &PendingPiece) {
        let PendingPiece { request, slot, .. } = *chunk;
        self.with_device(disk, |device, around| device.sent(around, request, slot));
    }

    fn judge_bytes(&mut self, number: u64, chunk: PendingPiece) {
        let exchange = &self.exchanges[&number];
        let Some(entry) = exchange.entry.clone() else {
            return;
        };
        let disk = exchange.disk;
        let pool = &self.devices[disk].own.pool;
        let bytes = &pool.bytes(chunk.slot, chunk.start..chunk.end)[..];
        let is_of = |key: &ContentKey| key.first_difference(chunk.offset, bytes).is_none();
        let files = &self.disks[disk].files;
        // Indistinguishable versions count as one; replies with them have weak tags.
        let keys = files.keys_of(entry.identity);
        if keys.iter().any(is_of) {
            return;
        }
        let key = keys.first().copied();
        let place = key.and_then(|key| key.first_difference(chunk.offset, bytes));
        let is_other = files.is_of_other_version(&entry.path, chunk.offset, bytes);
        let check = if is_other {
            Check::MixedVersions
        } else {
            Check::WrongBytes
        };
        self.oracle.fail(check, self.now, || {
            format!(
                "{} of {:?}: byte {place:?} is wrong in {}..{}, {:?} in {:?}",
                entry.path,
                entry.identity,
                chunk.offset,
                chunk.offset + bytes.len() as u64,
                chunk.request,
                chunk.slot
            )
        });
    }

    /// The reply is complete.
    pub(crate) fn finish(&mut self, number: u64) {
        let Some(exchange) = self.exchanges.get(&number) else {
            return;
        };
        let Some(plan) = &exchange.plan else {
            return;
        };
        let expected = plan.file_bytes();
        let (taken, told) = (
            exchange.taken,
            plan.field("content-length").map(str::to_owned),
        );
        let texts = plan.body.length() - expected;
        let is_head = exchange.asked.method == Method::Head;
        let is_whole =
            is_head || plan.status.code() == 304 || told == Some((taken + texts).to_string());
        self.oracle
            .expect(is_whole && taken == expected, Check::Head, self.now, || {
                format!(
                    "{taken} bytes of the file and {texts} of text were sent; expected {expected}, \
                     content-length {told:?}"
                )
            });
        self.counts.whole += 1;
        self.last_status = plan.status.code();
        self.end_exchange(number);
    }

    /// A viewer leaves, or is disconnected.
    pub(crate) fn leave(&mut self, number: u64) {
        if self.exchanges.contains_key(&number) {
            self.end_exchange(number);
        }
    }

    /// Ends an exchange for any reason and releases its resources.
    pub(crate) fn end_exchange(&mut self, number: u64) {
        let Some(exchange) = self.exchanges.remove(&number) else {
            return;
        };
        let disk = exchange.disk;
        if let Some(viewer) = self.viewers.get_mut(exchange.session) {
            let told = exchange.entry.as_ref().filter(|_| exchange.is_head_sent);
            viewer.tag = told.map(|entry| (tag_of(entry), exchange.keys.clone()));
            viewer.taken = exchange.taken;
            viewer.target = Some(exchange.ask.target.clone());
        }
        for chunk in &exchange.chunks {
            self.sent(disk, chunk);
        }
        if let Some(id) = exchange.request {
            self.of_request.remove(&(disk, id));
            if self.devices[disk].runs(id) {
                self.with_core(disk, |core, now, host| core.cancel(now, host, id));
            }
        }
        self.pass_on(disk);
        if let Some(id) = exchange.request {
            let is_known = self.devices[disk].shard().chain_of(id).is_some();
            self.oracle.expect(!is_known, Check::Drain, self.now, || {
                format!("{id:?} has ended, but the engine still works on it")
            });
        }
        let next = self.viewers.get(exchange.session).map(|viewer| viewer.next);
        let asks = self
            .sessions
            .get(exchange.session)
            .map(|session| &session.asks);
        if let Some(ask) = next.and_then(|next| asks?.get(next)) {
            let at = self.now + ask.after;
            self.queue.plan(at, Event::Ask(exchange.session));
        }
    }

    /// After the end of all faults, verifies that every title of every disk is served to a new
    /// viewer.
    pub(crate) fn serve_again(&mut self) {
        for disk in 0..self.disks.len() {
            for title in 0..self.plan.disks[disk].titles.len() {
                self.serve_title_again(disk, title);
            }
        }
    }

    fn serve_title_again(&mut self, disk: usize, title: usize) {
        let name = path(disk, title, 0);
        let is_there = self.disks[disk].files.lookup(&name).is_some();
        let session = ViewerSession {
            disk,
            address: [198, 51, 100, 1],
            connection: 0,
            rate: 1 << 40,
            asks: Vec::new(),
        };
        // An overloaded disk may refuse at first.
        for _ in 0..4 {
            if self.oracle.violation.is_some() {
                return;
            }
            let ask = SessionRequest {
                after: Duration::ZERO,
                method: "GET",
                target: name.clone(),
                fields: Vec::new(),
                condition: None,
                leaves_at: None,
                patience: None,
                stalls_at: None,
            };
            let asked = UnresolvedRequest::read(&session, &ask, None, 0);
            let before = self.counts.whole;
            self.last_status = 0;
            let end = self.now + Duration::from_secs(100);
            self.begin(usize::MAX, disk, ask, asked, None);
            self.go_on_until(Some(end));
            let is_right = self.last_status == if is_there { 200 } else { 404 };
            if is_right && self.counts.whole > before {
                return;
            }
        }
        let status = self.last_status;
        self.oracle.fail(Check::ServedAgain, self.now, || {
            format!("{name} is answered with status {status}")
        });
    }
}
