//! WebDAV for reading (RFC 4918): the properties of files, and of folders with their entries.
//!
//! The body of a PROPFIND is not read, so it costs no memory: every reply has the same few
//! properties, which clients look for among those they asked for.

use headlong_http::{FieldList, Method, PlannedBody, ReplyPlan, Status, media_type};
use headlong_library::{FolderEntry, FolderEntryKind};
use http::HeaderMap;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use super::listing_page::{PAGE_BYTES_MAX, encoded, http_date};

/// Media type of replies.
pub(super) const MEDIA_TYPE: &str = "application/xml; charset=utf-8";

/// The scope of a request: the header field `depth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// The resource.
    Zero,
    /// The resource and, of a folder, its entries.
    One,
}

impl Depth {
    /// `None` for all levels, which is also meant by a request without the field.
    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
        match headers.get("depth")?.as_bytes() {
            b"0" => Some(Self::Zero),
            b"1" => Some(Self::One),
            _ => None,
        }
    }
}

/// Names PROPFIND where a reply names the methods of a path.
pub(super) fn announce(plan: &mut ReplyPlan, method: Method) {
    for (name, value) in &mut plan.fields {
        if *name == "allow" {
            *value = Method::ALLOWED_WITH_LISTING.into();
        }
    }
    if method == Method::Options {
        plan.fields.push(("dav", "1".into()));
    }
}

/// The reply to a request for all levels below a folder, which may be any number.
pub(super) fn refuse_depth() -> ReplyPlan {
    let text = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
                <D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";
    plan(Status::Forbidden, text.to_owned())
}

/// A reply with properties.
pub(super) fn reply(text: String) -> ReplyPlan {
    plan(Status::MultiStatus, text)
}

fn plan(status: Status, text: String) -> ReplyPlan {
    let fields: FieldList = vec![
        ("content-type", MEDIA_TYPE.into()),
        ("content-length", text.len().to_string().into()),
        ("cache-control", "no-store".into()),
    ];
    ReplyPlan {
        status,
        fields,
        body: PlannedBody::text(text),
    }
}

/// The properties of a folder, by its path as requested; `None` if they need too much memory.
pub(super) fn folder(target: &str, depth: Depth, entries: &[FolderEntry]) -> Option<String> {
    let mut document = Document::begin();
    document.resource(target, None);
    let entries = entries.iter().filter(|_| depth == Depth::One);
    for entry in entries {
        document.resource(&format!("{target}{}", encoded(entry)), Some(entry));
        if document.0.get_ref().len() > PAGE_BYTES_MAX {
            return None;
        }
    }
    Some(document.end())
}

/// The properties of a file, by its path as requested.
pub(super) fn file(target: &str, entry: &FolderEntry) -> String {
    let mut document = Document::begin();
    document.resource(target, Some(entry));
    document.end()
}

/// A `multistatus` document that is being written to memory, which cannot fail.
struct Document(Writer<Vec<u8>>);

impl Document {
    fn begin() -> Self {
        let mut document = Self(Writer::new(Vec::new()));
        document.event(Event::Decl(BytesDecl::new("1.0", Some("utf-8"), None)));
        let root = BytesStart::new("D:multistatus").with_attributes([("xmlns:D", "DAV:")]);
        document.event(Event::Start(root));
        document
    }

    fn end(mut self) -> String {
        self.close("D:multistatus");
        String::from_utf8(self.0.into_inner()).unwrap_or_default()
    }

    /// The folder itself has no entry.
    fn resource(&mut self, href: &str, entry: Option<&FolderEntry>) {
        let size = entry.and_then(|entry| match entry.kind {
            FolderEntryKind::File(size) => Some(size),
            _ => None,
        });
        self.open("D:response");
        self.text("D:href", href);
        self.open("D:propstat");
        self.open("D:prop");
        match size {
            Some(_) => self.empty("D:resourcetype"),
            None => {
                self.open("D:resourcetype");
                self.empty("D:collection");
                self.close("D:resourcetype");
            }
        }
        if let (Some(entry), Some(size)) = (entry, size) {
            self.text("D:getcontentlength", &size.to_string());
            self.text("D:getcontenttype", media_type(&entry.name));
        }
        if let Some(entry) = entry {
            self.text("D:getlastmodified", &http_date(entry.mtime).to_string());
        }
        self.close("D:prop");
        self.text("D:status", "HTTP/1.1 200 OK");
        self.close("D:propstat");
        self.close("D:response");
    }

    fn open(&mut self, name: &str) {
        self.event(Event::Start(BytesStart::new(name)));
    }

    fn close(&mut self, name: &str) {
        self.event(Event::End(BytesEnd::new(name)));
    }

    fn empty(&mut self, name: &str) {
        self.event(Event::Empty(BytesStart::new(name)));
    }

    fn text(&mut self, name: &str, text: &str) {
        self.open(name);
        self.event(Event::Text(BytesText::new(text)));
        self.close(name);
    }

    fn event(&mut self, event: Event<'_>) {
        let _ = self.0.write_event(event);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn properties_are_those_of_files_and_folders() {
        let entry = |name: &str, kind| FolderEntry {
            name: name.to_owned(),
            kind,
            mtime: UNIX_EPOCH + Duration::from_secs(784_111_777),
        };
        let entries = [
            entry("a&b", FolderEntryKind::Folder),
            entry("ä.mp4", FolderEntryKind::File(7)),
        ];
        let zero = folder("/films/", Depth::Zero, &entries).expect("small");
        assert_eq!(
            zero,
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><D:multistatus xmlns:D=\"DAV:\">\
             <D:response><D:href>/films/</D:href><D:propstat><D:prop><D:resourcetype>\
             <D:collection/></D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status>\
             </D:propstat></D:response></D:multistatus>"
        );
        let one = folder("/films/", Depth::One, &entries).expect("small");
        for part in [
            "<D:href>/films/a%26b/</D:href>",
            "<D:href>/films/%C3%A4.mp4</D:href>",
            "<D:resourcetype/><D:getcontentlength>7</D:getcontentlength>\
             <D:getcontenttype>video/mp4</D:getcontenttype>\
             <D:getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</D:getlastmodified>",
        ] {
            assert!(one.contains(part), "{part} in {one}");
        }
        let many = vec![entry(&"x".repeat(255), FolderEntryKind::File(0)); 30_000];
        assert_eq!(folder("/", Depth::One, &many), None);
    }
}
