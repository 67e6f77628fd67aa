//! Names of columns, keys and variables.

use std::sync::LazyLock;

use super::row::Field;

/// Fields that maps can use.
const OURS: &[Field] = Field::ALL.split_at(Field::Clock as usize + 1).0;

/// The fields of maps, by our names.
fn ours() -> impl Iterator<Item = (&'static str, Field)> {
    OURS.iter().map(|field| (field.name(), *field))
}

/// Names used by other programs, by their origin. `usual` applies to all: nginx's variables,
/// Traefik, Google's CDN, and common words. Nested keys are joined by a dot.
static THEIRS: LazyLock<Vec<(&'static str, &'static str, Field)>> = LazyLock::new(|| {
    let lines = include_str!("names.csv").lines().skip(1);
    let fields = lines.map(|line| line.splitn(3, ',').collect::<Vec<_>>());
    let rows =
        fields.filter_map(|fields| Some((fields[0], fields[1], Field::from_name(fields.get(2)?)?)));
    rows.collect()
});

/// Names of one origin, with their fields.
pub(crate) fn names(whose: &str) -> impl Iterator<Item = (&'static str, Field)> {
    let theirs = THEIRS.iter().filter(move |(known, ..)| *known == whose);
    theirs.map(|(_, name, field)| (*name, *field))
}

/// Names understood in any log: ours before the usual ones.
pub(crate) fn all_usual() -> impl Iterator<Item = (&'static str, Field)> {
    ours().chain(names("usual"))
}

/// The field of a name in a log of another program.
pub(crate) fn usual(name: &str) -> Option<Field> {
    let name = name.trim();
    let mut known = all_usual();
    known
        .find(|(known, _)| *known == name)
        .map(|(_, field)| field)
}

/// The most similar name, if its similarity exceeds `at_least`.
pub(crate) fn near(
    known: impl Iterator<Item = (&'static str, Field)>,
    name: &str,
    at_least: f64,
) -> Option<&'static str> {
    let near = known.map(|(known, _)| (strsim::jaro_winkler(known, name), known));
    let near = near.filter(|(similarity, _)| *similarity > at_least);
    near.max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// Pairs of our name and that of a column or key: `ts=time,session=sid`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldMap {
    pub(crate) pairs: Vec<(Field, String)>,
    text: String,
}

/// Errors of field maps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldMapError {
    /// An element is not a pair.
    #[error("`{0}` is not a pair; write OURS=THEIRS, such as `session=sid`, separated by commas")]
    NotAPair(String),
    /// The field is unknown.
    #[error("no field is named `{name}`{}", nearest(name))]
    Unknown {
        /// The name.
        name: String,
    },
}

/// `; did you mean ...?`, if there is a similar name.
fn nearest(name: &str) -> String {
    match near(ours(), name, 0.7) {
        Some(known) => format!("; did you mean `{known}`?"),
        None => {
            let all: Vec<&str> = ours().map(|(known, _)| known).collect();
            format!("; known fields: {}", all.join(", "))
        }
    }
}

impl FieldMap {
    /// Parses `ts=time,session=sid`.
    pub fn parse(text: &str) -> Result<Self, FieldMapError> {
        let (mut pairs, mut written) = (Vec::new(), Vec::new());
        for piece in text.split(',').filter(|piece| !piece.trim().is_empty()) {
            let (name, theirs) = piece
                .split_once('=')
                .ok_or_else(|| FieldMapError::NotAPair(piece.to_owned()))?;
            let name = name.trim();
            let field = ours().find(|(known, _)| *known == name);
            let (name, field) = field.ok_or_else(|| FieldMapError::Unknown {
                name: name.to_owned(),
            })?;
            pairs.push((field, theirs.trim().to_owned()));
            written.push(format!("{name}={}", theirs.trim()));
        }
        Ok(Self {
            pairs,
            text: written.join(","),
        })
    }

    /// The field of a column or key: by the map, otherwise by its own name.
    pub(crate) fn field(&self, name: &str) -> Option<Field> {
        let name = name.trim();
        let found = self.pairs.iter().find(|(_, theirs)| theirs == name);
        match found {
            Some((field, _)) => Some(*field),
            None => {
                let field = usual(name)?;
                let is_elsewhere = self.pairs.iter().any(|(mapped, _)| *mapped == field);
                (!is_elsewhere).then_some(field)
            }
        }
    }

    /// Whether it has no pairs.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

impl std::fmt::Display for FieldMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// The field of a key after `combined`: keys of our own log, and common keys for nginx's variables.
pub(crate) fn behind_combined(key: &[u8]) -> Option<Field> {
    Some(match key {
        b"start" => Field::Start,
        b"service" | b"rt" | b"request_time" => Field::ServiceS,
        b"service_ms" => Field::ServiceMs,
        b"service_us" => Field::ServiceUs,
        b"range" | b"http_range" => Field::Range,
        b"content_range" | b"sent_http_content_range" => Field::ContentRange,
        b"xff" | b"x_forwarded_for" | b"http_x_forwarded_for" | b"real_ip" => Field::Forwarded,
        b"session" | b"sid" | b"session_id" => Field::Session,
        // In our own log, it names the drive.
        b"device" | b"disk" => Field::Disk,
        b"br" => Field::RateKbps,
        b"msec" => Field::EndS,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_takes_precedence_over_known_names() {
        let map = FieldMap::parse("ts=when, session=path").expect("a map");
        assert_eq!(map.field("when"), Some(Field::EndS));
        assert_eq!(map.field("path"), Some(Field::Session));
        assert_eq!(map.field("ts"), None, "mapped to another column");
        assert_eq!(map.field("bytes"), Some(Field::Bytes));
        assert_eq!(map.field("colour"), None);
    }

    #[test]
    fn map_errors_suggest_similar_names() {
        let text = |text| FieldMap::parse(text).expect_err("a mistake").to_string();
        assert_eq!(
            text("sesion=sid"),
            "no field is named `sesion`; did you mean `session`?"
        );
        assert!(text("qqq=1").starts_with("no field is named `qqq`; known fields: ts, ts_ms,"));
        assert!(text("session").starts_with("`session` is not a pair"));
    }
}
