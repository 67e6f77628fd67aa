//! The text of a listing: a page of HTML, or the JSON of nginx.
//!
//! Programs read the page, too: `wget -r` and rclone follow its links, and Kodi takes a row for a
//! file if the text of a link is its decoded target, on one line. Links are therefore relative and
//! encoded, those of folders end in a slash, and sorting uses forms, which no program follows.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use headlong_http::{HttpDate, query_value};
use headlong_library::{FolderEntry, FolderEntryKind};
use headlong_units::{path_bytes, shown_path};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use quick_xml::escape::escape;

/// Characters of a name that are encoded: all that RFC 3986 reserves. An unencoded colon would make
/// the beginning of a name a scheme.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Most entries of a page. Programs read only the first page, so usual folders fit on it.
const PAGE_ENTRIES: usize = 20_000;
/// Most bytes of a page, estimated from its names.
pub(super) const PAGE_BYTES_MAX: usize = 11 << 20;
/// Bytes of a row without its name, at most.
const ROW_BYTES: usize = 160;

const STYLE: &str = include_str!("listing.css");

/// Name of an entry as part of a URL, with a slash after a folder.
pub(super) fn encoded(entry: &FolderEntry) -> String {
    let mut name = percent_encode(&path_bytes(&entry.name), ENCODED).to_string();
    if entry.kind == FolderEntryKind::Folder {
        name.push('/');
    }
    name
}

/// A time as an HTTP date; the epoch for one before it.
pub(super) fn http_date(time: SystemTime) -> HttpDate {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).ok();
    let date = seconds.and_then(HttpDate::from_unix_seconds);
    date.unwrap_or(HttpDate::EPOCH)
}

headlong_units::names! {
    /// The column by which a listing is sorted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum SortColumn {
        /// Name, whatever the case of its letters.
        #[default]
        Name => "name",
        /// Size.
        Size => "size",
        /// Modification time.
        Time => "time"
    }
}

/// The order of a listing: `?sort=COLUMN&order=asc|desc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ListingOrder {
    column: SortColumn,
    is_descending: bool,
}

impl ListingOrder {
    /// Reads it from a query; values that have no meaning are ignored.
    pub(super) fn read(query: &str) -> Self {
        let column = query_value(query, "sort");
        let column = column.and_then(|name| {
            let mut all = SortColumn::ALL.iter();
            all.find(|column| column.name() == name).copied()
        });
        Self {
            column: column.unwrap_or_default(),
            is_descending: query_value(query, "order").as_deref() == Some("desc"),
        }
    }

    /// Sorts entries, folders first.
    pub(super) fn sort(self, entries: &mut [FolderEntry]) {
        entries.sort_by_cached_key(|entry| {
            let (is_file, size) = match entry.kind {
                FolderEntryKind::File(size) => (true, size),
                _ => (false, 0),
            };
            let time = || http_date(entry.mtime).unix_seconds().unsigned_abs();
            let number = match self.column {
                SortColumn::Name => 0,
                SortColumn::Size => size,
                SortColumn::Time => time(),
            };
            (
                is_file,
                number,
                entry.name.to_lowercase(),
                entry.name.clone(),
            )
        });
        if self.is_descending {
            let folders = entries.partition_point(|e| e.kind == FolderEntryKind::Folder);
            entries[..folders].reverse();
            entries[folders..].reverse();
        }
    }
}

/// A page of a sorted listing.
pub(super) struct ListingPage<'a> {
    folder: &'a str,
    entries: &'a [FolderEntry],
    order: ListingOrder,
    /// From one.
    number: usize,
    pages: usize,
    /// Entries on all pages.
    count: usize,
}

impl<'a> ListingPage<'a> {
    /// The page that a query names by `page=NUMBER`; the first or last one for a number beyond.
    pub(super) fn new(
        folder: &'a str,
        entries: &'a [FolderEntry],
        order: ListingOrder,
        query: &str,
    ) -> Self {
        let ends = page_ends(entries);
        let asked = query_value(query, "page").and_then(|page| page.parse().ok());
        let number = asked.unwrap_or(1).clamp(1, ends.len());
        let start = match number {
            1 => 0,
            _ => ends[number - 2],
        };
        Self {
            folder,
            entries: &entries[start..ends[number - 1]],
            order,
            number,
            pages: ends.len(),
            count: entries.len(),
        }
    }

    /// The query of the next page.
    pub(super) fn next(&self) -> Option<String> {
        (self.number < self.pages).then(|| self.query(self.number + 1))
    }

    fn query(&self, page: usize) -> String {
        let ListingOrder {
            column,
            is_descending,
        } = self.order;
        let order = if is_descending { "desc" } else { "asc" };
        format!("sort={}&order={order}&page={page}", column.name())
    }

    /// As of nginx's `autoindex_format json`.
    pub(super) fn json(&self) -> String {
        let mut text = String::from("[");
        for (index, entry) in self.entries.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let name = serde_json::Value::from(&*shown_path(&entry.name));
            let date = http_date(entry.mtime);
            let _ = match entry.kind {
                FolderEntryKind::File(size) => write!(
                    text,
                    "{comma}\n{{ \"name\":{name}, \"type\":\"file\", \"mtime\":\"{date}\", \
                     \"size\":{size} }}"
                ),
                _ => write!(
                    text,
                    "{comma}\n{{ \"name\":{name}, \"type\":\"directory\", \"mtime\":\"{date}\" }}"
                ),
            };
        }
        text.push_str("\n]\n");
        text
    }

    /// A page for people, and for programs that follow its links.
    pub(super) fn html(&self) -> String {
        let title = shown(&format!("/{}", self.folder));
        let mut text = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>"
        );
        self.path(&mut text);
        text.push_str("</h1>\n");
        if self.entries.is_empty() {
            text.push_str("<p>This folder is empty.</p>\n");
        } else {
            self.table(&mut text);
        }
        self.links_to_pages(&mut text);
        text.push_str("</body>\n</html>\n");
        text
    }

    /// The path, with links to the folders above.
    fn path(&self, text: &mut String) {
        let names: Vec<&str> = self.folder.split('/').filter(|n| !n.is_empty()).collect();
        let up = |levels: usize| match levels {
            0 => "./".to_owned(),
            levels => "../".repeat(levels),
        };
        let _ = write!(text, "<a href=\"{}\">Files</a>", up(names.len()));
        for (index, name) in names.iter().enumerate() {
            let (href, name) = (up(names.len() - 1 - index), shown(name));
            let _ = write!(text, " / <a href=\"{href}\">{name}</a>");
        }
    }

    fn table(&self, text: &mut String) {
        text.push_str("<table>\n<thead>\n<tr>");
        for column in SortColumn::ALL {
            self.heading(*column, text);
        }
        text.push_str("</tr>\n</thead>\n<tbody>\n");
        for entry in self.entries {
            let (href, name) = (encoded(entry), shown(&entry.name));
            let (slash, size) = match entry.kind {
                FolderEntryKind::File(size) => ("", readable(size)),
                _ => ("/", "-".to_owned()),
            };
            let date = http_date(entry.mtime).to_string();
            // `Sun, 06 Nov 1994 08:49:37 GMT` as nginx shows it: `06-Nov-1994 08:49`.
            let day = date.get(5..16).unwrap_or_default().replace(' ', "-");
            let time = date.get(17..22).unwrap_or_default();
            let _ = writeln!(
                text,
                "<tr><td><a href=\"{href}\">{name}{slash}</a></td><td>{size}</td>\
                 <td>{day} {time}</td></tr>"
            );
        }
        text.push_str("</tbody>\n</table>\n");
    }

    fn heading(&self, column: SortColumn, text: &mut String) {
        let is_sorted = self.order.column == column;
        let (sort, next) = match (is_sorted, self.order.is_descending) {
            (true, false) => (" aria-sort=\"ascending\"", "desc"),
            (true, true) => (" aria-sort=\"descending\"", "asc"),
            (false, _) if column == SortColumn::Name => ("", "asc"),
            (false, _) => ("", "desc"),
        };
        let (name, label) = (
            column.name(),
            match column {
                SortColumn::Name => "Name",
                SortColumn::Size => "Size",
                SortColumn::Time => "Changed (UTC)",
            },
        );
        let _ = write!(
            text,
            "<th{sort}><form><input type=\"hidden\" name=\"order\" value=\"{next}\">\
             <button name=\"sort\" value=\"{name}\">{label}</button></form></th>"
        );
    }

    fn links_to_pages(&self, text: &mut String) {
        if self.pages == 1 {
            return;
        }
        let _ = write!(
            text,
            "<nav>{} names, page {} of {}",
            self.count, self.number, self.pages
        );
        let pages = [
            (self.number > 1).then(|| (self.number - 1, "prev", "Previous page")),
            (self.number < self.pages).then(|| (self.number + 1, "next", "Next page")),
        ];
        for (page, rel, label) in pages.into_iter().flatten() {
            let query = self.query(page).replace('&', "&amp;");
            let _ = write!(text, " <a rel=\"{rel}\" href=\"?{query}\">{label}</a>");
        }
        text.push_str("</nav>\n");
    }
}

/// The index after the last entry of each page.
fn page_ends(entries: &[FolderEntry]) -> Vec<usize> {
    let (mut ends, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, entry) in entries.iter().enumerate() {
        let row = row_bytes(entry);
        if index - start == PAGE_ENTRIES || bytes + row > PAGE_BYTES_MAX {
            ends.push(index);
            (start, bytes) = (index, 0);
        }
        bytes += row;
    }
    ends.push(entries.len());
    ends
}

/// At least the size of a row: a name is encoded once, and escaped once.
fn row_bytes(entry: &FolderEntry) -> usize {
    let both = |byte: u8| match byte {
        b'"' | b'\'' | b'&' | b'<' | b'>' => 9,
        byte if byte.is_ascii_alphanumeric() => 2,
        _ => 6,
    };
    ROW_BYTES + entry.name.bytes().map(both).sum::<usize>()
}

/// Text for people: without markup, and without control characters, which could end a line.
fn shown(text: &str) -> String {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let text: String = shown_path(text).chars().map(visible).collect();
    escape(text.as_str()).into_owned()
}

/// A size with three digits.
fn readable(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let exponent = ((bytes.ilog2() / 10) as usize).min(UNITS.len());
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let number = bytes as f64 / (1_u64 << (10 * exponent)) as f64;
    let digits = if number < 99.95 { 1 } else { 0 };
    format!("{number:.digits$} {}", UNITS[exponent - 1])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entry(name: &str, kind: FolderEntryKind, age: u64) -> FolderEntry {
        FolderEntry {
            name: name.to_owned(),
            kind,
            mtime: UNIX_EPOCH + Duration::from_secs(784_111_777 - age),
        }
    }

    fn some() -> Vec<FolderEntry> {
        vec![
            entry("b.mp4", FolderEntryKind::File(27_997_123), 0),
            entry("A & <i>B</i>.mp4", FolderEntryKind::File(9), 60),
            entry("z:ä", FolderEntryKind::Folder, 0),
            entry("c", FolderEntryKind::Folder, 60),
        ]
    }

    fn sorted(query: &str) -> Vec<String> {
        let mut entries = some();
        ListingOrder::read(query).sort(&mut entries);
        entries.into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn folders_come_first_in_every_order() {
        let (a, b, c, z) = ("A & <i>B</i>.mp4", "b.mp4", "c", "z:ä");
        assert_eq!(sorted(""), [c, z, a, b]);
        assert_eq!(sorted("sort=size&order=desc"), [z, c, b, a]);
        assert_eq!(sorted("sort=time"), [c, z, a, b]);
        assert_eq!(sorted("order=desc&sort=name"), [z, c, b, a]);
        assert_eq!(sorted("sort=x&order=y"), [c, z, a, b]);
    }

    #[test]
    fn row_has_encoded_link_and_escaped_name_on_one_line() {
        let mut entries = some();
        entries.push(entry("a\n.mp4", FolderEntryKind::File(1), 0));
        ListingOrder::default().sort(&mut entries);
        let page = ListingPage::new("films/", &entries, ListingOrder::default(), "");
        let html = page.html();
        let rows = [
            "<tr><td><a href=\"z%3A%C3%A4/\">z:ä/</a></td><td>-</td><td>06-Nov-1994 08:49</td></tr>",
            "<tr><td><a href=\"A%20%26%20%3Ci%3EB%3C%2Fi%3E.mp4\">A &amp; &lt;i&gt;B&lt;/i&gt;.mp4</a>\
             </td><td>9 B</td><td>06-Nov-1994 08:48</td></tr>",
            "<td>26.7 MiB</td>",
            "<a href=\"../\">Files</a> / <a href=\"./\">films</a>",
            "<a href=\"a%0A.mp4\">a\u{fffd}.mp4</a>",
        ];
        for row in rows {
            assert!(html.contains(row), "{row} in {html}");
        }
        assert!(!html.contains("<nav>"));
    }

    #[test]
    fn json_is_that_of_nginx() {
        let page = some();
        let page = ListingPage::new("", &page[1..3], ListingOrder::default(), "");
        assert_eq!(
            page.json(),
            "[\n{ \"name\":\"A & <i>B</i>.mp4\", \"type\":\"file\", \
             \"mtime\":\"Sun, 06 Nov 1994 08:48:37 GMT\", \"size\":9 },\n\
             { \"name\":\"z:ä\", \"type\":\"directory\", \
             \"mtime\":\"Sun, 06 Nov 1994 08:49:37 GMT\" }\n]\n"
        );
        let empty = ListingPage::new("", &[], ListingOrder::default(), "page=9");
        assert_eq!(empty.json(), "[\n]\n");
        assert!(empty.html().contains("This folder is empty"));
    }

    #[test]
    fn pages_hold_each_entry_once_and_are_bounded() {
        let long = "\u{1}".repeat(255);
        let file = |index: usize| entry(&format!("{long}{index}"), FolderEntryKind::File(0), 0);
        let entries: Vec<_> = (0..PAGE_ENTRIES + 1).map(file).collect();
        let page = |number: usize| {
            let query = format!("page={number}&sort=size");
            ListingPage::new("", &entries, ListingOrder::read(&query), &query)
        };
        let pages = page(1).pages;
        assert!(pages > 2);
        let count: usize = (1..=pages).map(|number| page(number).entries.len()).sum();
        assert_eq!(count, entries.len());
        let first = page(1).html();
        assert!(first.len() < PAGE_BYTES_MAX + (64 << 10), "{}", first.len());
        assert!(first.contains("href=\"?sort=size&amp;order=asc&amp;page=2\">Next page"));
        assert_eq!(page(pages).next(), None);
        assert_eq!(page(pages + 9).number, pages);
    }
}
