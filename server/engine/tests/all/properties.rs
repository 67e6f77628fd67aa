//! Properties of every sequence of requests, cancellations, faults and times.
//!
//! The rig panics when bytes arrive out of order, from the wrong place, or from a slot that is
//! being read into, and when an invariant of the shard is broken.

use crate::rig::Rig;
use headlong_engine::{
    Admission, AnnouncedRequest, ConnectionId, EngineConfig, Hints, Order, PartSpec, Policy,
    ReaderIdentity, Request, RequestId, Retention, SizingConfig, Slot, StreamId, StreamSpec,
    ViewerId,
};
use headlong_units::{BitRate, Duration, KIB};
use proptest::prelude::*;

const TITLES: u64 = 4;
const TITLE_BYTES: u64 = 300 * KIB;

#[derive(Debug, Clone)]
enum Step {
    Ask {
        viewer: u64,
        title: u64,
        at: u16,
        length: u16,
        open: bool,
        buffer: Option<u8>,
    },
    Expect {
        viewer: u64,
        title: u64,
        at: u16,
        length: u32,
    },
    Cancel {
        nth: u8,
    },
    Wait {
        millis: u16,
    },
    Bad {
        title: u64,
        at: u16,
        length: u16,
    },
    Use {
        slots: [u8; 3],
    },
    /// All of memory is passed on and received back later, as if this shard were both processes.
    PassOn {
        millis: u16,
    },
    Heal,
    Hang(bool),
    Gone {
        title: u64,
    },
    Policy {
        policy: usize,
        order: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let title = 1..=TITLES;
    prop_oneof![
        8 => (0u64..12, title.clone(), any::<u16>(), any::<u16>(), any::<bool>(), any::<Option<u8>>())
            .prop_map(|(viewer, title, at, length, open, buffer)| {
                Step::Ask { viewer, title, at, length, open, buffer }
            }),
        3 => (0u64..12, title.clone(), any::<u16>(), any::<u32>())
            .prop_map(|(viewer, title, at, length)| Step::Expect { viewer, title, at, length }),
        3 => (0u16..3000).prop_map(|millis| Step::Wait { millis }),
        2 => any::<u8>().prop_map(|nth| Step::Cancel { nth }),
        1 => Just(Step::Wait { millis: 50_000 }),
        1 => (title.clone(), any::<u16>(), any::<u16>())
            .prop_map(|(title, at, length)| Step::Bad { title, at, length }),
        2 => any::<[u8; 3]>().prop_map(|slots| Step::Use { slots }),
        1 => (0u16..3000).prop_map(|millis| Step::PassOn { millis }),
        1 => Just(Step::Heal),
        1 => any::<bool>().prop_map(Step::Hang),
        1 => title.prop_map(|title| Step::Gone { title }),
        1 => (0..Policy::ALL.len(), 0..Order::ALL.len()).prop_map(|(policy, order)| Step::Policy { policy, order }),
    ]
}

/// Half of the viewers have no name; they use two addresses and a few connections.
fn identity(viewer: u64, chance: u64) -> ReaderIdentity {
    match viewer {
        0..6 => ReaderIdentity::Named(ViewerId(viewer)),
        _ => ReaderIdentity::Unnamed {
            origin: ViewerId(viewer % 2),
            connection: (viewer > 7).then_some(ConnectionId(chance % 4)),
        },
    }
}

fn settings() -> impl Strategy<Value = EngineConfig> {
    (
        8u64..64,
        1u32..5,
        0..Retention::ALL.len(),
        any::<bool>(),
        1u64..64,
    )
        .prop_map(
            |(slots, outstanding_reads_max, retention, refuse, pieces)| EngineConfig {
                piece_bytes: 4 * KIB,
                memory_bytes: slots * 4 * KIB,
                sizing: SizingConfig {
                    policy: Policy::FirstGrowSr,
                    reference_bytes: pieces * 4 * KIB,
                    ..SizingConfig::default()
                },
                retention: Retention::ALL[retention],
                admission: if refuse {
                    Admission::Refuse
                } else {
                    Admission::Accept
                },
                outstanding_reads_max,
                read_bytes_max: 64 * KIB,
                send_window_bytes: 8 * KIB,
                errors_offline: 3,
                requests_max: 40,
                chains_max: 12,
                ..EngineConfig::default()
            },
        )
}

/// A title of several files, some of them empty or smaller than a piece.
fn spec(id: u64, version: u64) -> StreamSpec {
    let sizes = if id.is_multiple_of(2) {
        vec![TITLE_BYTES]
    } else {
        vec![100 * KIB, 0, 1, 90 * KIB + 7, 5000, TITLE_BYTES - 200 * KIB]
    };
    let part = |size_bytes| PartSpec {
        size_bytes,
        extents: vec![],
        flash_key: None,
        is_absent: false,
    };
    StreamSpec {
        id: StreamId(version * TITLES + id),
        parts: sizes.into_iter().map(part).collect(),
        bit_rate: (id > 1).then(|| BitRate::from_kbps(400 * id)),
    }
}

struct World {
    rig: Rig,
    versions: [u64; TITLES as usize + 1],
    asked: Vec<RequestId>,
}

impl World {
    fn new(config: EngineConfig) -> Self {
        let mut world = Self {
            rig: Rig::new(config),
            versions: [0; TITLES as usize + 1],
            asked: Vec::new(),
        };
        for title in 1..=TITLES {
            world.register(title);
        }
        world
    }

    fn register(&mut self, title: u64) {
        let spec = spec(title, self.versions[title as usize]);
        self.rig
            .shard
            .handle_stream(self.rig.now, spec)
            .expect("the table has room");
    }

    fn stream(&self, title: u64) -> StreamId {
        StreamId(self.versions[title as usize] * TITLES + title)
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Ask {
                viewer,
                title,
                at,
                length,
                open,
                buffer,
            } => {
                let sizes = spec(title, 0).parts;
                let part = usize::from(at) % sizes.len();
                let size = sizes[part].size_bytes;
                let offset = u64::from(at) * 5 % (size + 1);
                let left = size - offset;
                let request = Request {
                    viewer: identity(viewer, u64::from(length)),
                    stream: self.stream(title),
                    part: part as u32,
                    offset,
                    length: if open {
                        left
                    } else {
                        left.min(u64::from(length))
                    },
                    open_ended: open,
                    overlap_bytes: u64::from(length % 3) << 16,
                    holder: (viewer % 3 > 0).then_some(ViewerId(viewer % 3)),
                    hints: Hints {
                        buffer: buffer.map(|seconds| Duration::from_secs(seconds.into())),
                        startup: length % 7 == 0,
                        ..Hints::default()
                    },
                };
                if let Ok(id) = self.rig.request(request)
                    && request.length > 0
                {
                    self.asked.push(id);
                }
            }
            Step::Expect {
                viewer,
                title,
                at,
                length,
            } => {
                let sizes = spec(title, 0).parts;
                let part = usize::from(at) % sizes.len();
                let expected = AnnouncedRequest {
                    viewer: identity(viewer, u64::from(length)),
                    stream: self.stream(title),
                    part: part as u32,
                    offset: u64::from(at) * 5 % (sizes[part].size_bytes + 1),
                    length: length.into(),
                };
                // Ranges beyond the end of a part are refused.
                let _ = self.rig.expect(expected);
            }
            Step::Cancel { nth } => {
                let live = |id: &&RequestId| !self.rig.is_over(**id);
                let nth = self
                    .asked
                    .iter()
                    .filter(live)
                    .nth(usize::from(nth) % 8)
                    .copied();
                if let Some(id) = nth {
                    self.rig.cancel(id);
                }
            }
            Step::Wait { millis } => self.rig.run_for(Duration::from_millis(millis.into())),
            Step::Bad { title, at, length } => {
                let bad = (
                    self.stream(title),
                    at.into(),
                    u64::from(at) + u64::from(length) + 1,
                );
                self.rig.device.bad.push(bad);
            }
            Step::Use { slots } => {
                let config = self.rig.shard.config();
                let count = config.memory_bytes / config.piece_bytes;
                let slot = |slot: u8| Slot((u64::from(slot) % count) as u32);
                self.rig.use_slots(&slots.map(slot));
            }
            Step::PassOn { millis } => {
                let pieces = self.rig.shard.handle_pass_on(self.rig.now);
                self.rig.drain();
                self.rig.run_for(Duration::from_millis(millis.into()));
                for piece in pieces {
                    let slots = [piece.slot];
                    self.rig.shard.handle_passed_on(self.rig.now, &slots);
                    self.rig.drain();
                    self.rig.give(piece.stream, piece.bytes);
                }
            }
            Step::Heal => self.rig.device.bad.clear(),
            Step::Hang(hangs) => self.rig.device.hangs = hangs,
            Step::Gone { title } => {
                let stream = self.stream(title);
                self.rig.shard.handle_stream_removed(self.rig.now, stream);
                self.versions[title as usize] += 1;
                self.register(title);
                self.rig.drain();
            }
            Step::Policy { policy, order } => {
                let mut config = *self.rig.shard.config();
                config.sizing.policy = Policy::ALL[policy];
                config.order = Order::ALL[order];
                self.rig
                    .shard
                    .handle_config(self.rig.now, config)
                    .expect("valid settings");
                self.rig.drain();
            }
        }
    }

    /// The device works again, and all outstanding replies complete.
    fn settle(&mut self) {
        self.rig.device.hangs = false;
        self.rig.device.bad.clear();
        self.rig.run_for(Duration::from_secs(120));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_reply_ends_complete_in_order_or_with_a_reason(
        config in settings(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut world = World::new(config);
        for step in &steps {
            world.apply(step);
        }
        world.settle();
        for id in &world.asked {
            let reply = &world.rig.replies[id];
            prop_assert!(world.rig.is_over(*id), "{id:?} {reply:?} still waits");
        }
        let memory = world.rig.shard.memory_use();
        prop_assert_eq!(memory.sending_bytes + memory.filling_bytes + memory.unread_bytes, 0);
        prop_assert_eq!(memory.free_bytes + memory.read_bytes, config.memory_bytes / 4096 * 4096);
        let stats = world.rig.shard.stats();
        prop_assert_eq!(stats.bytes_from_ram + stats.bytes_from_disk + stats.bytes_from_flash, stats.bytes_sent);
        prop_assert_eq!(stats.reads, stats.reads_done);
    }

    #[test]
    fn same_calls_give_same_answers(
        config in settings(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let run = || {
            let mut world = World::new(config);
            for step in &steps {
                world.apply(step);
            }
            world.settle();
            (world.rig.log, world.rig.shard.stats())
        };
        prop_assert_eq!(run(), run());
    }
}
