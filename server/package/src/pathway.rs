//! Servers that have the same title, among which a player chooses: pathways of HLS (RFC 8216bis,
//! 4.4.6.6), and service locations of DASH (ETSI TS 103 998). They have the same paths.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::link::{Links, encoded};
use crate::resource::Resource;

/// A server that has the title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pathway {
    /// Its name: letters, digits, hyphens, underscores and dots.
    pub(crate) name: String,
    /// URL of the folder of the title's resources, with a slash at its end.
    pub(crate) folder: String,
}

/// How the players of a title are steered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlayerSteering {
    /// The preferred server is the first.
    pub(crate) pathways: Vec<Pathway>,
    /// The one that answers with the order from then on.
    pub(crate) steered_by: Pathway,
}

impl Pathway {
    /// The server of a name and a URL without a path. `folder` is the path of the folder of the
    /// title's resources, as a client wrote it, with slashes at its beginning and end.
    pub fn new(name: &str, url: &str, folder: &str) -> Self {
        Self {
            name: name.into(),
            folder: format!("{url}{}", encoded(folder)),
        }
    }
}

impl PlayerSteering {
    /// Steering among `pathways`, the preferred one first, by the server `steered_by`.
    pub fn new(pathways: Vec<Pathway>, steered_by: Pathway) -> Self {
        Self {
            pathways,
            steered_by,
        }
    }

    /// Its URL. It is absolute: dash.js does not resolve a relative one.
    fn url(&self, links: &Links) -> String {
        let folder = &self.steered_by.folder;
        format!("{folder}{}", links.to(Resource::Steering))
    }

    /// The server that a player begins with.
    fn first(&self) -> &Pathway {
        self.pathways.first().unwrap_or(&self.steered_by)
    }

    /// Writes the tag of a multivariant playlist.
    pub(crate) fn write_hls(&self, text: &mut String, links: &Links) {
        let (url, first) = (self.url(links), &self.first().name);
        let _ = writeln!(
            text,
            "#EXT-X-CONTENT-STEERING:SERVER-URI=\"{url}\",PATHWAY-ID=\"{first}\""
        );
    }

    /// Writes the elements of a manifest.
    pub(crate) fn write_dash(&self, text: &mut String, links: &Links) {
        for Pathway { name, folder } in &self.pathways {
            let folder = folder.replace('&', "&amp;");
            let _ = writeln!(
                text,
                "<BaseURL serviceLocation=\"{name}\">{folder}</BaseURL>"
            );
        }
        let url = self.url(links).replace('&', "&amp;");
        let _ = writeln!(
            text,
            "<ContentSteering defaultServiceLocation=\"{}\">{url}</ContentSteering>",
            self.first().name
        );
    }
}
