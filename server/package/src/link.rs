//! Links from one resource of a title to another: relative, with the arguments that open the title.

use alloc::format;
use alloc::string::String;
use core::fmt::{Display, Write as _};

/// How resources refer to each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Links {
    /// The query of every link, with its question mark; without characters that would end a link in
    /// a playlist or in XML.
    query: String,
}

impl Links {
    /// Links with a query, as a client wrote it; empty for none.
    pub fn new(query: &str) -> Self {
        let mut written = String::new();
        for byte in query.bytes() {
            if written.is_empty() {
                written.push('?');
            }
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
        Self { query: written }
    }

    /// Bytes that it adds to each link.
    pub(crate) fn bytes(&self) -> usize {
        self.query.len()
    }

    /// The link to a resource of this name.
    pub(crate) fn to(&self, name: impl Display) -> String {
        format!("{name}{}", self.query)
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
