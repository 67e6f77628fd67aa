//! Links from one resource of a title to another: relative, with the arguments that open the title.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{Display, Write as _};

use crate::pathway::{Pathway, PlayerSteering};

/// How resources refer to each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Links {
    /// The query of every link, with its question mark; without characters that would end a link in
    /// a playlist or in XML.
    query: String,
    steering: Option<PlayerSteering>,
    /// The server that they lead to; `None` for the one that is asked.
    to: Option<Pathway>,
}

impl Links {
    /// Links with a query, as a client wrote it; empty for none.
    pub fn new(query: &str) -> Self {
        let query = match query {
            "" => String::new(),
            _ => format!("?{}", encoded(query)),
        };
        Self {
            query,
            ..Self::default()
        }
    }

    /// The same in playlists that name several servers.
    pub fn steered(self, steering: PlayerSteering) -> Self {
        Self {
            steering: Some(steering),
            ..self
        }
    }

    /// How players are steered, if they are.
    pub(crate) fn steering(&self) -> Option<&PlayerSteering> {
        self.steering.as_ref()
    }

    /// The links to each server, or those to the server that is asked.
    pub(crate) fn by_pathway(&self) -> Vec<Self> {
        let pathways = self.steering.iter().flat_map(|all| &all.pathways);
        let to = |pathway: &Pathway| Self {
            query: self.query.clone(),
            steering: None,
            to: Some(pathway.clone()),
        };
        let each: Vec<Self> = pathways.map(to).collect();
        match each.is_empty() {
            true => Vec::from([self.clone()]),
            false => each,
        }
    }

    /// The server that they lead to, if it is named.
    pub(crate) fn pathway(&self) -> Option<&Pathway> {
        self.to.as_ref()
    }

    /// What names of groups in an HLS playlist end in: each pathway has its own.
    pub(crate) fn group_suffix(&self) -> String {
        let name = self.to.iter().map(|pathway| format!("@{}", pathway.name));
        name.collect()
    }

    /// Bytes that it adds to each link.
    pub(crate) fn bytes(&self) -> usize {
        self.query.len()
    }

    /// The link to a resource of this name.
    pub(crate) fn to(&self, name: impl Display) -> String {
        let folder = self.to.as_ref().map_or("", |to| &to.folder);
        format!("{folder}{name}{}", self.query)
    }

    /// The same in XML.
    pub(crate) fn in_xml(&self, name: impl Display) -> String {
        self.to(name).replace('&', "&amp;")
    }

    /// The query as part of a template of DASH in XML.
    pub(crate) fn query_in_template(&self) -> String {
        self.query.replace('&', "&amp;").replace('$', "$$")
    }
}

/// A part of a link, without characters that would end it in a playlist or in XML.
pub(crate) fn encoded(part: &str) -> String {
    let mut written = String::new();
    for byte in part.bytes() {
        match byte {
            b'!' | b'$' | b'%' | b'('..=b';' | b'=' | b'?'..=b'[' | b']' | b'_' | b'&' => {
                written.push(byte.into());
            }
            b'a'..=b'z' | b'~' => written.push(byte.into()),
            _ => {
                let _ = write!(written, "%{byte:02X}");
            }
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Resource;

    #[test]
    fn query_cannot_end_its_link() {
        let links = Links::new("token=a-b_c~&x=\"><\u{e4}\n'$1#");
        assert_eq!(
            links.to(Resource::Master),
            "master.m3u8?token=a-b_c~&x=%22%3E%3C%C3%A4%0A%27$1%23"
        );
        assert_eq!(
            links.query_in_template(),
            "?token=a-b_c~&amp;x=%22%3E%3C%C3%A4%0A%27$$1%23"
        );
        assert_eq!(Links::new("").to(Resource::Manifest), "manifest.mpd");
    }
}
