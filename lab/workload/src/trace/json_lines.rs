//! Traces in the native form: JSON lines, lossless (docs/lab/workload.md).
//!
//! Objects, players and titles are numbered from 0 in the order of their lines, each before its
//! first use; titles and players are written once, however many sessions use them.
//!
//! Invariant: in a trace that was read, every object and every class exists, and each title, player
//! and plan passes its check.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;

use headlong_player::{
    AdaptivePlan, ObjectId, PhasedPlan, PlayerConfig, Script, SegmentTable, SessionPlan, Title,
    ViewerAction,
};
use headlong_settings::{Document, Value};
use headlong_units::Duration;
use serde::{Deserialize, Serialize};

use super::{NetworkClass, Session, Trace, TraceErrors, TraceMetadata};
use crate::player_keys;

/// Version of the form.
const VERSION: u32 = 2;
/// Largest number of segments of a title.
const SEGMENTS_MAX: u32 = 1_000_000;

/// One line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line<'a> {
    Trace {
        version: u32,
        about: Cow<'a, TraceMetadata>,
        classes: Cow<'a, [NetworkClass]>,
    },
    /// A path, without a leading slash.
    Object(Cow<'a, str>),
    /// The keys of `[player]` in a specification.
    Player(BTreeMap<String, String>),
    Title(Cow<'a, Title>),
    Session {
        #[serde(default)]
        arrival: Duration,
        #[serde(default)]
        class: u32,
        plan: Plan<'a>,
    },
}

/// What a session does.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Plan<'a> {
    Script(Cow<'a, Script>),
    Adaptive {
        player: usize,
        title: usize,
        acts: Cow<'a, [ViewerAction]>,
    },
    Phases(Cow<'a, PhasedPlan>),
}

/// The trace as JSON lines.
pub(super) fn write(trace: &Trace) -> String {
    let mut text = String::new();
    let mut put = |line: &Line<'_>| {
        text += &serde_json::to_string(line).expect("a line has text keys and plain values");
        text.push('\n');
    };
    put(&Line::Trace {
        version: VERSION,
        about: Cow::Borrowed(&trace.about),
        classes: Cow::Borrowed(&trace.classes),
    });
    for path in &trace.objects {
        put(&Line::Object(path.into()));
    }
    let (mut makes, mut titles) = (BTreeMap::new(), BTreeMap::new());
    for session in &trace.sessions {
        let plan = match &session.plan {
            SessionPlan::Script(script) => Plan::Script(Cow::Borrowed(script)),
            SessionPlan::Phases(plan) => Plan::Phases(Cow::Borrowed(plan)),
            SessionPlan::Adaptive(plan) => {
                let next = makes.len();
                let player = *makes.entry(Arc::as_ptr(&plan.make)).or_insert_with(|| {
                    let words = player_keys::words(&plan.make);
                    put(&Line::Player(words.into_iter().collect()));
                    next
                });
                let next = titles.len();
                let title = *titles.entry(Arc::as_ptr(&plan.title)).or_insert_with(|| {
                    put(&Line::Title(Cow::Borrowed(&*plan.title)));
                    next
                });
                Plan::Adaptive {
                    player,
                    title,
                    acts: Cow::Borrowed(&plan.acts),
                }
            }
        };
        put(&Line::Session {
            arrival: session.arrival,
            class: session.class,
            plan,
        });
    }
    text
}

/// Parses JSON lines.
pub(super) fn read(text: &[u8]) -> Result<Trace, TraceErrors> {
    let mut reader = LineReader::default();
    let mut errors = TraceErrors::default();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let (column, reason) = match serde_json::from_slice(line) {
            Ok(line) => match reader.take(line) {
                Ok(()) => continue,
                // A wrong line may shift the numbers of those after it.
                Err(reason) if errors.is_empty() => (1, reason),
                Err(_) => continue,
            },
            Err(error) => (error.column(), field_error(line, &error)),
        };
        errors.push(number, column, reason);
    }
    let trace = reader.trace;
    let objects = trace.about.warming.iter().map(|warming| warming.object);
    if let Err(reason) = exist(&trace.objects, objects) {
        errors.push(1, 1, format!("warming: {reason}"));
    }
    if trace.sessions.is_empty() && errors.is_empty() {
        errors.push(
            1,
            1,
            "there are no sessions; write one per line".to_string(),
        );
    }
    match errors.is_empty() {
        true => Ok(trace),
        false => Err(errors),
    }
}

/// A parser's error with the field that it is about.
fn field_error(line: &[u8], error: &serde_json::Error) -> String {
    let text = error.to_string();
    let (reason, _) = text.rsplit_once(" at line ").unwrap_or((&text, ""));
    let before = line.get(..error.column()).unwrap_or(line);
    let before = String::from_utf8_lossy(before);
    let field = before
        .rsplit_once("\":")
        .and_then(|(keys, _)| keys.rsplit_once('"'));
    match field {
        Some((_, field)) if !reason.starts_with("unknown field") => format!("{field}: {reason}"),
        _ => reason.to_string(),
    }
}

/// Whether all these objects have a line.
fn exist(paths: &[String], mut objects: impl Iterator<Item = ObjectId>) -> Result<(), String> {
    let missing = objects.find(|object| object.0 as usize >= paths.len());
    missing.map_or(Ok(()), |ObjectId(number)| {
        let count = paths.len();
        Err(format!(
            "there is no object {number}; {count} are above, from 0"
        ))
    })
}

#[derive(Default)]
struct LineReader {
    trace: Trace,
    makes: Vec<Arc<PlayerConfig>>,
    titles: Vec<Arc<Title>>,
}

impl LineReader {
    fn take(&mut self, line: Line<'_>) -> Result<(), String> {
        let is_first = self.trace.classes.is_empty();
        match line {
            Line::Trace {
                version,
                about,
                classes,
            } if is_first => {
                if version != VERSION {
                    let text = format!("version {version} is unknown; this Headlong reads version");
                    return Err(format!("{text} {VERSION}"));
                }
                self.trace.about = about.into_owned();
                self.trace.classes = classes.into_owned();
                if self.trace.classes.is_empty() {
                    self.trace.classes.push(NetworkClass::unlimited());
                }
                let shares = self.trace.classes.iter().map(|class| class.share);
                match shares.clone().find(|share| *share < 0.0) {
                    Some(share) => Err(format!("classes: {share} is not a share; write 0 or more")),
                    None => Ok(()),
                }
            }
            Line::Trace { .. } => Err("there is a line `trace` above; write one".to_string()),
            _ if is_first => Err("comes before the line `trace`; write that first".to_string()),
            Line::Object(path) => {
                self.trace.objects.push(path.into_owned());
                Ok(())
            }
            Line::Player(words) => {
                self.makes.push(Arc::new(player(&words)?));
                Ok(())
            }
            Line::Title(title) => self.title(title.into_owned()),
            Line::Session {
                arrival,
                class,
                plan,
            } => {
                let before = self.trace.sessions.last().map(|session| session.arrival);
                if before.is_some_and(|before| arrival < before) {
                    let text = "arrival: is before the session above; sort sessions by arrival";
                    return Err(text.to_string());
                }
                let count = self.trace.classes.len();
                if class as usize >= count {
                    return Err(format!(
                        "class: there is no {class}; there are {count}, from 0"
                    ));
                }
                let plan = self.plan(plan)?;
                self.trace.sessions.push(Session {
                    arrival,
                    class,
                    plan,
                });
                Ok(())
            }
        }
    }

    fn title(&mut self, title: Title) -> Result<(), String> {
        if title.segments > SEGMENTS_MAX {
            return Err(format!("segments: too many; write up to {SEGMENTS_MAX}"));
        }
        let errors = title.check();
        if let Some(error) = errors.first() {
            return Err(error.to_string());
        }
        for rendition in &title.renditions {
            exist(
                &self.trace.objects,
                rendition.header.iter().map(|header| header.object),
            )?;
            let last = match &rendition.segments {
                SegmentTable::OneFile { object, .. } => *object,
                SegmentTable::Files { first, .. } => {
                    ObjectId(first.0.saturating_add(title.segments - 1))
                }
                SegmentTable::Table(places) => {
                    let last = places.iter().map(|place| place.object).max();
                    last.unwrap_or(ObjectId(0))
                }
            };
            exist(&self.trace.objects, [last].into_iter())?;
        }
        self.titles.push(Arc::new(title));
        Ok(())
    }

    fn plan(&self, plan: Plan<'_>) -> Result<SessionPlan, String> {
        let (player, title, acts) = match plan {
            Plan::Script(script) => {
                exist(
                    &self.trace.objects,
                    script.calls.iter().map(|call| call.object),
                )?;
                return Ok(SessionPlan::Script(script.into_owned()));
            }
            Plan::Phases(plan) => {
                plan.check().map_err(|error| format!("phases: {error}"))?;
                let objects = plan.calls.iter().map(|call| call.object);
                exist(&self.trace.objects, objects)?;
                return Ok(SessionPlan::Phases(plan.into_owned()));
            }
            Plan::Adaptive {
                player,
                title,
                acts,
            } => (player, title, acts.into_owned()),
        };
        let missing = |what, number| format!("{what}: there is no {what} {number} above");
        let make = self
            .makes
            .get(player)
            .ok_or_else(|| missing("player", player))?;
        let title = self
            .titles
            .get(title)
            .ok_or_else(|| missing("title", title))?;
        let plan = AdaptivePlan {
            title: Arc::clone(title),
            acts,
            make: Arc::clone(make),
        };
        match plan.check().first() {
            Some(error) => Err(format!("acts: {error}")),
            None => Ok(SessionPlan::Adaptive(plan)),
        }
    }
}

/// A player's line has the keys of `[player]`.
fn player(words: &BTreeMap<String, String>) -> Result<PlayerConfig, String> {
    let mut table = Document::new("", "docs/lab/workload.md", "");
    for (key, word) in words {
        let key = format!("player.{key}");
        table.set(&key, &key, Value::of_word(word));
    }
    let make = player_keys::read(&mut table, "player");
    let read = table.finish(make);
    read.map_err(|mistakes| mistakes.to_string().replace('\n', "; "))
}
