//! From a request to the last byte of its reply: what `serve::http::service` and `body` do, and the
//! viewer's side of it, where every byte is judged.

use headlong_engine::{Failure, Refusal, RequestId};
use headlong_http::{Method, Status};
use headlong_units::{Duration, Instant};

use crate::check::Check;
use crate::device::Out;
use crate::exchange::{Asked, Chunk, Exchange, Stage, tag_of};
use crate::library::Entry;
use crate::plant::Plant;
use crate::session::{Ask, Condition};
use crate::world::World;

/// A file that changes while it is looked at is looked at again, this often.
const VERSIONS_TRIED_MAX: u32 = 3;
/// A reader that takes nothing for this long is cut off.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);
/// What passes before a waiting look-up is tried again in the model of a disk that hangs.
const AGAIN: Duration = Duration::from_millis(50);

impl World<'_> {
    /// The next request of a session.
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
        let asked = Asked::read(
            of,
            &ask,
            known.as_ref().map(|(tag, _)| tag.as_str()),
            viewer.taken,
            self.plant,
        );
        self.begin(session, of.disk, ask, asked, known);
    }

    fn begin(
        &mut self,
        session: usize,
        disk: usize,
        ask: Ask,
        asked: Asked,
        known: Option<(String, Vec<crate::content::ContentKey>)>,
    ) -> u64 {
        self.counts.requests += 1;
        self.next_exchange += 1;
        let number = self.next_exchange;
        if let Some(patience) = ask.patience {
            self.queue
                .plan(self.now + patience, crate::queue::Happening::Leave(number));
        }
        let exchange = Exchange {
            session,
            disk,
            ask,
            at: self.now,
            stage: Stage::LookUp,
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

    /// What happens before any file is looked at, and the look-up.
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
        exchange.stage = Stage::LookUp;
        exchange.since = self.now;
        let is_offline = self.devices[disk].is_offline();
        let library = &self.libraries[disk];
        let known = library.recall(self.now, &name, self.plan.revalidate, self.plant);
        let known = known.or_else(|| is_offline.then(|| library.remember(&name)).flatten());
        exchange.was_offline = is_offline;
        match known {
            Some(entry) => self.fetch(number, entry),
            None => {
                let time = self.disks[disk].look_up_time();
                self.queue
                    .plan(self.now + time, crate::queue::Happening::GoOn(number));
            }
        }
    }

    /// A look-up or a description has come, if the disk does not hang.
    pub(crate) fn go_on(&mut self, number: u64) {
        let Some(exchange) = self.exchanges.get(&number) else {
            return;
        };
        let (disk, stage, since) = (exchange.disk, exchange.stage, exchange.since);
        let patience = self.devices[disk]
            .shard
            .config()
            .read_timeout
            .min(Duration::from_secs(60));
        if self.disks[disk].hangs() {
            if self.now.since(since) < patience {
                return self
                    .queue
                    .plan(self.now + AGAIN, crate::queue::Happening::GoOn(number));
            }
            return match stage {
                Stage::LookUp => self.refuse(number, Status::GatewayTimeout),
                _ => self.refuse(number, Status::Unavailable),
            };
        }
        match stage {
            Stage::LookUp => self.looked_up(number),
            Stage::Description => self.ask(number, true),
            Stage::Reply => {}
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
            self.queue.plan(
                at,
                crate::queue::Happening::Gone(disk, stream.0, self.process()),
            );
        }
        match entry {
            Some(entry) => self.fetch(number, entry),
            None => self.refuse(number, Status::NotFound),
        }
    }

    /// Plans the reply for a file, and asks for the first bytes of its body.
    fn fetch(&mut self, number: u64, entry: Entry) {
        let wall_ns = self.wall_ns();
        let Some(exchange) = self.exchanges.get_mut(&number) else {
            return;
        };
        let mut plan = exchange.asked.plan(&entry, wall_ns);
        if self.plant == Some(Plant::LastRangeLeftOut) && plan.body.parts.len() > 1 {
            let length = plan.body.length();
            let last = plan.body.parts.pop();
            plan.body.closing.push_str(&" ".repeat(length as usize));
            plan.body
                .closing
                .truncate((length - plan.body.length().min(length)) as usize);
            drop(last);
        }
        exchange.plan = Some(plan);
        exchange.entry = Some(entry);
        exchange.part = 0;
        if exchange.current().is_none() {
            self.send_head(number);
            return self.finish(number);
        }
        self.ask(number, false);
    }

    /// Asks the engine for the part that comes now.
    fn ask(&mut self, number: u64, is_described: bool) {
        let Some(exchange) = self.exchanges.get_mut(&number) else {
            return;
        };
        let disk = exchange.disk;
        let (Some(part), Some(entry)) = (exchange.current().cloned(), exchange.entry.clone())
        else {
            return;
        };
        let is_whole = exchange.status() == Some(200);
        let request = exchange.asked.request(&entry, &part, is_whole, self.plant);
        let title = &self.plan.disks[disk].titles[entry.title];
        let register = match is_described {
            true => self.libraries[disk].spec(entry.stream, title, disk, self.plant),
            false => None,
        };
        let id = RequestId(self.next_request[disk]);
        self.next_request[disk] += 1;
        exchange.request = Some(id);
        exchange.came = 0;
        exchange.stage = Stage::Reply;
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
            exchange.stage = Stage::Description;
            exchange.since = self.now;
            let time = self.disks[disk].look_up_time();
            return self
                .queue
                .plan(self.now + time, crate::queue::Happening::GoOn(number));
        }
        if exchange.is_head_sent {
            return self.end_exchange(number);
        }
        if refusal == Refusal::UnknownStream && self.try_again(number) {
            return;
        }
        let is_wrong = refusal == Refusal::OutOfBounds;
        self.oracle.expect(!is_wrong, Check::Head, self.now, || {
            "a planned range is outside of the file".to_owned()
        });
        self.refuse(number, Status::Unavailable);
    }

    /// A file that changed is looked up again, some times.
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

    /// Gives replies what came for them.
    pub(crate) fn pass_on(&mut self, disk: usize) {
        loop {
            let outs = std::mem::take(&mut self.devices[disk].outs);
            if outs.is_empty() {
                return;
            }
            for out in outs {
                match out {
                    Out::Piece {
                        request,
                        slot,
                        start,
                        end,
                    } => {
                        self.piece(
                            disk,
                            request,
                            Chunk {
                                request,
                                slot,
                                start,
                                end,
                                offset: 0,
                            },
                        );
                    }
                    Out::Failed { request, failure } => self.failed(disk, request, failure),
                }
            }
        }
    }

    fn piece(&mut self, disk: usize, request: RequestId, mut chunk: Chunk) {
        let number = self.of_request.get(&(disk, request)).copied();
        let Some(number) = number.filter(|number| self.exchanges.contains_key(number)) else {
            // Its viewer has left.
            self.with_device(disk, |device, around| {
                device.sent(around, request, chunk.slot)
            });
            return;
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
                format!("{failure:?} of a disk without a fault")
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

    /// The reply says why there is nothing; one that has begun breaks off.
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

    /// The head goes out: from here on the reply is of one version, or breaks off.
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
                    "{} {:?} was gone before the request",
                    entry.path, entry.identity
                )
            });
        self.check_condition(number, &entry);
    }

    /// What a condition asked for is what comes.
    fn check_condition(&mut self, number: u64, entry: &Entry) {
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
                    "{status:?} to {condition:?} of {tag}, and the file is {}",
                    tag_of(entry)
                )
            });
    }

    /// The socket takes the next piece, if it takes anything.
    fn kick(&mut self, number: u64) {
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
            return self.queue.plan(at, crate::queue::Happening::CutOff(number));
        }
        let rate = self
            .sessions
            .get(exchange.session)
            .map_or(u64::MAX / 4, |session| session.rate);
        let time = Duration(
            u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(rate)).unwrap_or(0),
        );
        // A reader that takes less than a window in the time for it is cut off, too.
        self.queue.plan(
            self.now + time.min(SEND_TIMEOUT),
            crate::queue::Happening::Taken(number),
        );
    }

    /// A socket has taken a piece: its bytes are what the viewer got.
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
        self.with_device(disk, |device, around| {
            device.sent(around, chunk.request, chunk.slot)
        });
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
                    "more than the {} bytes of {:?} came",
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
            || format!("{} bytes of {:?} came", exchange.came, part.range),
        );
        match exchange.current().is_some() {
            true => self.ask(number, false),
            false => self.finish(number),
        }
    }

    fn judge_bytes(&mut self, number: u64, chunk: Chunk) {
        let exchange = &self.exchanges[&number];
        let Some(entry) = exchange.entry.clone() else {
            return;
        };
        let disk = exchange.disk;
        let slot = self.devices[disk].pool.slot(chunk.slot);
        let bytes = &slot[chunk.start as usize..chunk.end as usize];
        let is_of =
            |key: &crate::content::ContentKey| key.first_difference(chunk.offset, bytes).is_none();
        let files = &self.disks[disk].files;
        // Versions that nobody can tell apart are one; replies of such are weak.
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

    /// The reply is whole.
    fn finish(&mut self, number: u64) {
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
        self.oracle.expect(is_whole && taken == expected, Check::Head, self.now, || {
            format!("{taken} bytes of a file and {texts} of text were sent, of {expected} and {told:?}")
        });
        self.counts.whole += 1;
        self.last_status = plan.status.code();
        self.end_exchange(number);
    }

    /// A viewer goes away, or is cut off.
    pub(crate) fn leave(&mut self, number: u64) {
        if self.exchanges.contains_key(&number) {
            self.end_exchange(number);
        }
    }

    /// Ends an exchange, however it went; what it holds is given back.
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
            self.with_device(disk, |device, around| {
                device.sent(around, chunk.request, chunk.slot)
            });
        }
        if let Some(id) = exchange.request {
            self.of_request.remove(&(disk, id));
            if self.devices[disk].runs(id) {
                self.with_device(disk, |device, around| device.cancel(around, id));
            }
        }
        self.pass_on(disk);
        if let Some(id) = exchange.request {
            let is_known = self.devices[disk].shard.chain_of(id).is_some();
            self.oracle.expect(!is_known, Check::Drain, self.now, || {
                format!("{id:?} is over, and the engine still works for it")
            });
        }
        let next = self.viewers.get(exchange.session).map(|viewer| viewer.next);
        let asks = self
            .sessions
            .get(exchange.session)
            .map(|session| &session.asks);
        if let Some(ask) = next.and_then(|next| asks?.get(next)) {
            let at = self.now + ask.after;
            self.queue
                .plan(at, crate::queue::Happening::Ask(exchange.session));
        }
    }

    /// After all faults every file of every disk is served, to somebody new.
    pub(crate) fn serve_again(&mut self) {
        for disk in 0..self.disks.len() {
            for title in 0..self.plan.disks[disk].titles.len() {
                self.serve_title_again(disk, title);
            }
        }
    }

    fn serve_title_again(&mut self, disk: usize, title: usize) {
        let name = crate::session::path(disk, title, 0);
        let is_there = self.disks[disk].files.lookup(&name).is_some();
        let session = crate::session::Session {
            disk,
            address: [198, 51, 100, 1],
            connection: 0,
            rate: 1 << 40,
            asks: Vec::new(),
        };
        // An overloaded disk may say once that it is.
        for _ in 0..4 {
            if self.oracle.violation.is_some() {
                return;
            }
            let ask = Ask {
                after: Duration::ZERO,
                method: "GET",
                target: name.clone(),
                fields: Vec::new(),
                condition: None,
                leaves_at: None,
                patience: None,
                stalls_at: None,
            };
            let asked = Asked::read(&session, &ask, None, 0, self.plant);
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
            format!("{name} is answered with {status}")
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

/// The disk that a path names: each has a folder.
fn disk_of(name: &str) -> Option<usize> {
    let rest = name.strip_prefix("/disk")?;
    rest.split('/').next()?.parse().ok()
}
