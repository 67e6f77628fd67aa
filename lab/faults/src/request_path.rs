//! The request path, from a request to the head of its reply and on to its pieces: a model of
//! `serve::http::service` and `body`.

use headlong_engine::{Failure, Refusal, RequestId};
use headlong_http::{Method, Status};
use headlong_units::{Duration, Instant};

use crate::check::Check;
use crate::content::ContentKey;
use crate::event_queue::Event;
use crate::exchange::{Exchange, ExchangeStage, UnresolvedRequest, tag_of};
use crate::host::{PendingPiece, ReplyEvent};
use crate::library::FileEntry;
use crate::session::{Condition, SessionRequest};
use crate::world::World;

/// Look-ups of a file that changes meanwhile.
const VERSIONS_TRIED_MAX: u32 = 3;
/// Interval of retries of a look-up while the disk hangs; a detail of this model.
const AGAIN: Duration = Duration::from_millis(50);

impl World<'_> {
    /// Sends the next request of a session.
    pub(crate) fn begin_exchange(&mut self, session: usize) {
        let number = self.viewers[session].next;
        let Some(ask) = self.sessions[session].asks.get(number).cloned() else {
            return;
        };
        self.viewers[session].next += 1;
        let of = self.sessions[session];
        let viewer = &self.viewers[session];
        let is_of_it = viewer.target.as_ref() == Some(&ask.target);
        let known = viewer.tag.clone().filter(|_| is_of_it);
        let asked = UnresolvedRequest::read(
            of,
            &ask,
            known.as_ref().map(|(tag, _)| tag.as_str()),
            viewer.taken,
        );
        self.begin(session, of.disk, ask, asked, known);
    }

    /// A request arrives.
    pub(crate) fn begin(
        &mut self,
        session: usize,
        disk: usize,
        ask: SessionRequest,
        asked: UnresolvedRequest,
        known: Option<(String, Vec<ContentKey>)>,
    ) -> u64 {
        self.counts.requests += 1;
        self.next_exchange += 1;
        let number = self.next_exchange;
        if let Some(patience) = ask.patience {
            self.queue.plan(self.now + patience, Event::Leave(number));
        }
        let exchange = Exchange {
            session,
            disk,
            ask,
            at: self.now,
            stage: ExchangeStage::LookUp,
            since: self.now,
            tried: 0,
            entry: None,
            was_offline: false,
            plan: None,
            is_head_sent: false,
            part: 0,
            request: None,
            came: 0,
            taken: 0,
            chunks: Default::default(),
            is_taking: false,
            keys: Vec::new(),
            known,
            asked,
        };
        self.exchanges.insert(number, exchange);
        self.look_up(number);
        number
    }

    /// Validates the request and looks its file up.
    fn look_up(&mut self, number: u64) {
        let Some(exchange) = self.exchanges.get_mut(&number) else {
            return;
        };
        exchange.tried += 1;
        let path = match (exchange.asked.method, exchange.asked.path.clone()) {
            (Method::Get | Method::Head, Ok(path)) => path,
            (Method::Get | Method::Head, Err(status)) => return self.refuse(number, status),
            _ => return self.refuse(number, Status::MethodNotAllowed),
        };
        let name = format!("/{path}");
        let disk = match disk_of(&name).filter(|disk| *disk == exchange.disk) {
            Some(disk) => disk,
            None => return self.refuse(number, Status::NotFound),
        };
        exchange.stage = ExchangeStage::LookUp;
        exchange.since = self.now;
        let is_offline = self.devices[disk].is_offline();
        let library = &self.libraries[disk];
        let known = library.recall(self.now, &name, self.plan.revalidate);
        let known = known.or_else(|| is_offline.then(|| library.remember(&name)).flatten());
        exchange.was_offline = is_offline;
        match known {
            Some(entry) => self.fetch(number, entry),
            None => {
                let time = self.disks[disk].look_up_time();
                self.queue.plan(self.now + time, Event::GoOn(number));
            }
        }
    }

    /// A look-up or a stream description completes, unless the disk hangs.
    pub(crate) fn go_on(&mut self, number: u64) {
        let Some(exchange) = self.exchanges.get(&number) else {
            return;
        };
        let (disk, stage, since) = (exchange.disk, exchange.stage, exchange.since);
        let patience = self.devices[disk]
            .shard()
            .config()
            .read_timeout
            .min(Duration::from_secs(60));
        if self.disks[disk].hangs() {
            if self.now.since(since) < patience {
                return self.queue.plan(self.now + AGAIN, Event::GoOn(number));
            }
            return match stage {
                ExchangeStage::LookUp => self.refuse(number, Status::GatewayTimeout),
                _ => self.refuse(number, Status::Unavailable),
            };
        }
        match stage {
            ExchangeStage::LookUp => self.looked_up(number),
            ExchangeStage::Description => self.ask(number, true),
            ExchangeStage::Reply => {}
        }
    }

    fn looked_up(&mut self, number: u64) {
        let exchange = &self.exchanges[&number];
        let disk = exchange.disk;
        let name = exchange
            .asked
            .path
            .as_ref()
            .map(|path| format!("/{path}"))
            .unwrap_or_default();
        match self.disks[disk].trouble() {
            Some(headlong_engine::ReadOutcome::NoResources) => {
                return self.refuse(number, Status::Unavailable);
            }
            Some(_) => return self.refuse(number, Status::InternalError),
            None => {}
        }
        let (clock, plan) = ((self.now, self.wall_ns()), &self.plan.disks[disk]);
        let files = &self.disks[disk].files;
        let (entry, gone) = self.libraries[disk].look(clock, (disk, plan), files, &name);
        if let Some(stream) = gone {
            let lag = self.disks[disk].chance.pick(&[0, 0, 1, 1500]);
            let at = self.now + Duration::from_millis(lag);
            self.queue
                .plan(at, Event::Gone(disk, stream.0, self.process()));
        }
        match entry {
            Some(entry) => self.fetch(number, entry),
            None => self.refuse(number, Status::NotFound),
        }
    }

    /// Plans the reply for a file, and requests the first bytes of its body.
    fn fetch(&mut self, number: u64, entry: FileEntry) {
        let wall_ns = self.wall_ns();
        let Some(exchange) = self.exchanges.get_mut(&number) else {
            return;
        };
        let plan = exchange.asked.plan(&entry, wall_ns);
        exchange.plan = Some(plan);
        exchange.entry = Some(entry);
        exchange.part = 0;
        if exchange.current().is_none() {
            self.send_head(number);
            return self.finish(number);
        }
        self.ask(number, false);
    }

    /// Requests the current part from the engine.
    pub(crate) fn ask(&mut self, number: u64, is_described: bool) {
        let Some(exchange) = self.exchanges.get_mut(&number) else {
            return;
        };
        let disk = exchange.disk;
        let (Some(part), Some(entry)) = (exchange.current().cloned(), exchange.entry.clone())
        else {
            return;
        };
        let is_whole = exchange.status() == Some(200);
        let request = exchange.asked.request(&entry, &part, is_whole);
        let title = &self.plan.disks[disk].titles[entry.title];
        let register = match is_described {
            true => self.libraries[disk].spec(entry.stream, title, disk),
            false => None,
        };
        let id = RequestId(self.next_request[disk]);
        self.next_request[disk] += 1;
        exchange.request = Some(id);
        exchange.came = 0;
        exchange.stage = ExchangeStage::Reply;
        exchange.since = self.now;
        self.of_request.insert((disk, id), number);
        let answer = self.with_device(disk, |device, around| {
            around.note("ask", [id.0, request.offset, request.length]);
            device.ask(around, id, request, register)
        });
        if let Err(refusal) = answer {
            self.of_request.remove(&(disk, id));
            if let Some(exchange) = self.exchanges.get_mut(&number) {
                exchange.request = None;
            }
            self.refused(number, refusal, is_described);
        }
        self.pass_on(disk);
    }

    fn refused(&mut self, number: u64, refusal: Refusal, was_described: bool) {
        let Some(exchange) = self.exchanges.get_mut(&number) else {
            return;
        };
        let disk = exchange.disk;
        self.trace.add(
            self.now,
            Some(disk),
            "refused",
            [refusal_code(refusal), 0, 0],
        );
        if refusal == Refusal::UnknownStream && !was_described {
            exchange.stage = ExchangeStage::Description;
            exchange.since = self.now;
            let time = self.disks[disk].look_up_time();
            return self.queue.plan(self.now + time, Event::GoOn(number));
        }
        if exchange.is_head_sent {
            return self.end_exchange(number);
        }
        if refusal == Refusal::UnknownStream && self.try_again(number) {
            return;
        }
        let is_wrong = refusal == Refusal::OutOfBounds;
        self.oracle.expect(!is_wrong, Check::Head, self.now, || {
            "a planned range is outside the file".to_owned()
        });
        self.refuse(number, Status::Unavailable);
    }

    /// Looks a changed file up again, up to the limit.
    fn try_again(&mut self, number: u64) -> bool {
        let Some(exchange) = self.exchanges.get(&number) else {
            return false;
        };
        if exchange.tried >= VERSIONS_TRIED_MAX || exchange.is_head_sent {
            return false;
        }
        if let Some(entry) = &exchange.entry {
            self.libraries[exchange.disk].distrust(&entry.path);
        }
        self.look_up(number);
        true
    }

    /// Hands pieces and failures to their replies.
    pub(crate) fn pass_on(&mut self, disk: usize) {
        loop {
            let outs = std::mem::take(&mut self.devices[disk].own.outs);
            if outs.is_empty() {
                return;
            }
            for out in outs {
                match out {
                    ReplyEvent::Piece(chunk) => self.piece(disk, chunk),
                    ReplyEvent::Failed { request, failure } => self.failed(disk, request, failure),
                }
            }
        }
    }

    fn piece(&mut self, disk: usize, mut chunk: PendingPiece) {
        let number = self.of_request.get(&(disk, chunk.request)).copied();
        let Some(number) = number.filter(|number| self.exchanges.contains_key(number)) else {
            // The viewer has left.
            return self.sent(disk, &chunk);
        };
        if let Some(exchange) = self.exchanges.get_mut(&number) {
            let from = exchange.current().map_or(0, |part| part.range.start);
            chunk.offset = from + exchange.came;
            exchange.came += u64::from(chunk.end - chunk.start);
            exchange.chunks.push_back(chunk);
        }
        self.send_head(number);
        self.kick(number);
    }

    fn failed(&mut self, disk: usize, request: RequestId, failure: Failure) {
        let Some(number) = self.of_request.remove(&(disk, request)) else {
            return;
        };
        let is_innocent =
            matches!(failure, Failure::Device | Failure::Offline) && !self.disks[disk].was_ill;
        self.oracle
            .expect(!is_innocent, Check::Innocent, self.now, || {
                format!("{failure:?} on a disk without a fault")
            });
        let Some(exchange) = self.exchanges.get_mut(&number) else {
            return;
        };
        exchange.request = None;
        if exchange.is_head_sent {
            return self.end_exchange(number);
        }
        if failure == Failure::Changed && self.try_again(number) {
            return;
        }
        self.refuse(
            number,
            match failure {
                Failure::Device => Status::InternalError,
                Failure::TimedOut => Status::GatewayTimeout,
                Failure::Changed | Failure::Offline | Failure::NoResources => Status::Unavailable,
            },
        );
    }

    /// Sends an error reply; a reply that has begun is broken off.
    fn refuse(&mut self, number: u64, status: Status) {
        if self
            .exchanges
            .get(&number)
            .is_some_and(|of| of.is_head_sent)
        {
            return self.end_exchange(number);
        }
        if let Some(exchange) = self.exchanges.get_mut(&number) {
            exchange.refuse(status);
            exchange.entry = None;
            exchange.part = 0;
        }
        self.send_head(number);
        self.finish(number);
    }

    /// Sends the head: from here on the reply has one version or breaks off.
    fn send_head(&mut self, number: u64) {
        let Some(exchange) = self
            .exchanges
            .get_mut(&number)
            .filter(|of| !of.is_head_sent)
        else {
            return;
        };
        exchange.is_head_sent = true;
        let status = exchange.status().unwrap_or(0);
        let disk = exchange.disk;
        self.trace
            .add(self.now, Some(disk), "head", [u64::from(status), 0, 0]);
        if let Some(wrong) = exchange.wrong_head() {
            self.oracle.fail(Check::Head, self.now, || wrong);
        }
        let Some(entry) = exchange.entry.clone() else {
            return;
        };
        let files = &self.disks[disk].files;
        exchange.keys = files.keys_of(entry.identity);
        let from = match exchange.was_offline {
            true => Instant::ZERO,
            false => Instant(exchange.at.0.saturating_sub(self.plan.revalidate.0)),
        };
        let was_there = files.was_there(&entry.path, entry.identity, from, self.now);
        self.oracle
            .expect(was_there, Check::OldVersion, self.now, || {
                format!(
                    "{} {:?} was replaced before the request",
                    entry.path, entry.identity
                )
            });
        self.check_condition(number, &entry);
    }

    /// Checks the result of a conditional request.
    fn check_condition(&mut self, number: u64, entry: &FileEntry) {
        let exchange = &self.exchanges[&number];
        let (Some(condition), Some((tag, keys))) = (exchange.ask.condition, &exchange.known) else {
            return;
        };
        let status = exchange.status();
        let is_same_bytes = exchange.keys.iter().any(|key| keys.contains(key));
        let is_same = (is_same_bytes || self.has_jumped) && *tag == tag_of(entry);
        let is_wrong = match condition {
            Condition::Resume => status == Some(206) && !is_same,
            Condition::NoneMatch => status == Some(304) && !is_same,
            Condition::Match => matches!(status, Some(200 | 206)) && !is_same,
        };
        self.oracle
            .expect(!is_wrong, Check::MixedVersions, self.now, || {
                format!(
                    "{status:?} to {condition:?} with {tag}, but the file has {}",
                    tag_of(entry)
                )
            });
    }
}

fn refusal_code(refusal: Refusal) -> u64 {
    match refusal {
        Refusal::Overloaded { .. } => 1,
        Refusal::Full => 2,
        Refusal::Offline { .. } => 3,
        Refusal::UnknownStream => 4,
        Refusal::OutOfBounds => 5,
    }
}

/// The disk of a path: each disk has a folder.
fn disk_of(name: &str) -> Option<usize> {
    let rest = name.strip_prefix("/disk")?;
    rest.split('/').next()?.parse().ok()
}
