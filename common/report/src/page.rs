//! Pages: sections of text, tables, charts and commands, as one HTML file.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use crate::chart::{Figure, STYLE, percent_encoded};
use crate::html::escape;
use crate::output::write_output;
use crate::table::Table;

const PAGE_STYLE: &str = include_str!("page.css");
/// Zoom, logarithmic axes and values at the pointer, if scripts are allowed.
const PAGE_SCRIPT: &str = include_str!("page.js");

/// A file that could not be written.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: the page could not be written: {source}; name a file in a folder that exists and can be \
     written to",
    path.display()
)]
pub struct WriteError {
    path: PathBuf,
    source: io::Error,
}

/// A block in a section.
#[derive(Debug, Clone, PartialEq)]
enum SectionBlock {
    Text(String),
    Note(String),
    Command(String),
    Tiles(Vec<(String, String)>),
    Table(Table),
    Figure(Box<Figure>),
}

/// A heading and its content.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    heading: String,
    blocks: Vec<SectionBlock>,
}

impl Section {
    /// An empty section.
    pub fn new(heading: impl Into<String>) -> Self {
        Self {
            heading: heading.into(),
            blocks: Vec::new(),
        }
    }

    fn with(mut self, block: SectionBlock) -> Self {
        self.blocks.push(block);
        self
    }

    /// Adds a paragraph.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.with(SectionBlock::Text(text.into()))
    }

    /// Adds a highlighted paragraph, for example for an invalid run or a limit of the machine.
    pub fn note(self, text: impl Into<String>) -> Self {
        self.with(SectionBlock::Note(text.into()))
    }

    /// Adds the command, or the file, from which the figures were generated.
    pub fn command(self, text: impl Into<String>) -> Self {
        self.with(SectionBlock::Command(text.into()))
    }

    /// Adds the most important numbers, each with its name.
    pub fn tiles(
        self,
        tiles: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Self {
        let tiles = tiles
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        self.with(SectionBlock::Tiles(tiles.collect()))
    }

    /// Adds a table.
    pub fn table(self, table: Table) -> Self {
        self.with(SectionBlock::Table(table))
    }

    /// Adds a chart.
    pub fn figure(self, figure: impl Into<Figure>) -> Self {
        self.with(SectionBlock::Figure(Box::new(figure.into())))
    }
}

/// A self-contained page.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    title: String,
    lead: String,
    sections: Vec<Section>,
    footer: String,
    has_contents: bool,
    is_interactive: bool,
}

impl Page {
    /// An empty page.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            lead: String::new(),
            sections: Vec::new(),
            footer: String::new(),
            has_contents: false,
            is_interactive: false,
        }
    }

    /// Adds links to the sections below the title.
    pub fn contents(mut self) -> Self {
        self.has_contents = true;
        self
    }

    /// Makes charts interactive, with zoom and values at the pointer, and adds the numbers of every
    /// figure as a file. The script is part of the page; without it the charts remain static and
    /// the numbers are still available.
    pub fn interactive(mut self) -> Self {
        self.is_interactive = true;
        self
    }

    /// Adds a paragraph with the result below the title.
    pub fn lead(mut self, text: impl Into<String>) -> Self {
        self.lead = text.into();
        self
    }

    /// Adds a section.
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// Adds a line at the end: version, machine, date.
    pub fn footer(mut self, text: impl Into<String>) -> Self {
        self.footer = text.into();
        self
    }

    /// The complete page.
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        // Writing to a String cannot fail, here and below.
        let mut html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{title}</h1>\n"
        );
        if !self.lead.is_empty() {
            let _ = writeln!(html, "<p class=\"lead\">{}</p>", escape(&self.lead));
        }
        if self.has_contents {
            html.push_str("<nav><ol>\n");
            for (index, section) in self.sections.iter().enumerate() {
                let heading = escape(&section.heading);
                let _ = writeln!(html, "<li><a href=\"#section-{index}\">{heading}</a></li>");
            }
            html.push_str("</ol></nav>\n");
        }
        let mut figures = 0;
        for (index, section) in self.sections.iter().enumerate() {
            let heading = escape(&section.heading);
            let _ = match self.has_contents {
                true => writeln!(html, "<section id=\"section-{index}\">\n<h2>{heading}</h2>"),
                false => writeln!(html, "<section>\n<h2>{heading}</h2>"),
            };
            for block in &section.blocks {
                write_block(&mut html, block, &mut figures, self.is_interactive);
            }
            html.push_str("</section>\n");
        }
        html.push_str("</main>\n");
        if !self.footer.is_empty() {
            let _ = writeln!(html, "<footer>{}</footer>", escape(&self.footer));
        }
        if self.is_interactive {
            let _ = write!(html, "<script>\n{PAGE_SCRIPT}</script>\n");
        }
        html.push_str("</body>\n</html>\n");
        html
    }

    /// Writes the page to a file. The existing file remains until the new page is complete.
    ///
    /// # Errors
    /// If that fails.
    pub fn write(&self, path: &Path) -> Result<(), WriteError> {
        write_output(path, self.to_html().as_bytes()).map_err(|source| WriteError {
            path: path.to_path_buf(),
            source,
        })
    }
}

fn write_block(html: &mut String, block: &SectionBlock, figures: &mut usize, is_interactive: bool) {
    let _ = match block {
        SectionBlock::Text(text) => writeln!(html, "<p>{}</p>", escape(text)),
        SectionBlock::Note(text) => writeln!(html, "<p class=\"note\">{}</p>", escape(text)),
        SectionBlock::Command(text) => writeln!(html, "<pre>{}</pre>", escape(text)),
        SectionBlock::Tiles(tiles) => {
            html.push_str("<dl class=\"tiles\">\n");
            for (name, value) in tiles {
                let (name, value) = (escape(name), escape(value));
                let _ = writeln!(html, "<div><dt>{name}</dt><dd>{value}</dd></div>");
            }
            writeln!(html, "</dl>")
        }
        SectionBlock::Table(table) => {
            html.push_str(&table.to_html());
            Ok(())
        }
        SectionBlock::Figure(figure) => {
            *figures += 1;
            write_figure(html, figure, &format!("figure-{figures}"), is_interactive);
            Ok(())
        }
    };
}

fn write_figure(html: &mut String, figure: &Figure, id: &str, is_interactive: bool) {
    let plan = figure.plan().filter(|_| is_interactive);
    let plan = plan.map_or(String::new(), |plan| {
        format!(" data-chart=\"{}\"", escape(&plan))
    });
    let _ = writeln!(html, "<figure id=\"{id}\"{plan}>\n{}", figure.draw(id));
    let caption = figure.caption();
    if !caption.is_empty() {
        let _ = writeln!(html, "<figcaption>{}</figcaption>", escape(&caption));
    }
    if is_interactive {
        let _ = writeln!(
            html,
            "<div class=\"tools\"><a class=\"data\" download=\"{id}.csv\" \
             href=\"data:text/csv;charset=utf-8,{}\">data (CSV)</a></div>",
            percent_encoded(&figure.to_csv())
        );
    }
    if let Some(table) = figure.table() {
        let _ = writeln!(
            html,
            "<details><summary>The numbers</summary>\n{}</details>",
            table.to_html()
        );
    }
    html.push_str("</figure>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Chart, Series};

    fn page() -> Page {
        let chart = Chart::lines("Rate", Axis::new("x", ""), Axis::new("y", "MB/s"))
            .series(Series::new("ours", [(1.0, 2.0), (2.0, 3.0)]));
        Page::new("A & B")
            .lead("It is <fast>.")
            .section(
                Section::new("One")
                    .text("a<b")
                    .note("Invalid.")
                    .command("headlong bench run x.toml > y")
                    .figure(chart.clone())
                    .figure(chart),
            )
            .footer("headlong 0.1")
    }

    #[test]
    fn a_page_is_self_contained() {
        let html = page().to_html();
        for outside in ["<script", "<link", "@import", "url(", "src="] {
            assert!(!html.contains(outside), "{outside}");
        }
        let addresses: Vec<_> = html.matches("http").collect();
        let namespaces = html.matches("xmlns=\"http://www.w3.org/2000/svg\"").count();
        assert_eq!(addresses.len(), namespaces);
    }

    #[test]
    fn an_interactive_page_is_self_contained() {
        let html = page().interactive().contents().to_html();
        assert_eq!(html.matches("<script").count(), 1);
        assert!(!html.contains("src=") && !html.contains("url(") && !html.contains("import"));
        let links = html.matches("href=\"").count();
        let inside =
            html.matches("href=\"#section-").count() + html.matches("href=\"data:").count();
        assert_eq!((links, links), (inside, 3));
        assert_eq!(
            html.matches("data-chart=\"{&quot;kind&quot;:&quot;lines&quot;")
                .count(),
            2
        );
    }

    #[test]
    fn external_text_is_escaped_and_figures_have_unique_ids() {
        let html = page().to_html();
        assert!(html.contains("<title>A &amp; B</title>") && html.contains("It is &lt;fast&gt;."));
        assert!(html.contains("<pre>headlong bench run x.toml &gt; y</pre>"));
        assert_eq!(html.matches("id=\"figure-1-t\"").count(), 1);
        assert_eq!(html.matches("id=\"figure-2-t\"").count(), 1);
    }

    #[test]
    fn a_page_is_written_completely_or_the_old_one_remains() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("page.html");
        std::fs::write(&path, "old").expect("written");
        page().write(&path).expect("written");
        assert_eq!(
            std::fs::read_to_string(&path).expect("read"),
            page().to_html()
        );
        let wrong = folder.path().join("none/page.html");
        let error = page()
            .write(&wrong)
            .expect_err("no such folder")
            .to_string();
        assert!(
            error.contains("none/page.html") && error.contains("folder"),
            "{error}"
        );
        let names: Vec<_> = std::fs::read_dir(folder.path()).expect("read").collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }
}
