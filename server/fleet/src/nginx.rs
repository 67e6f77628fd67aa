//! The configuration of nginx before a fleet.

use alloc::format;
use alloc::string::String;
use core::fmt::Write as _;

use crate::fleet::{Fleet, TitleRule};

impl Fleet {
    /// A complete `http` section for nginx; `source` is the name of the description.
    ///
    /// nginx has no bounded loads and no active health checks: a title with more viewers than a box
    /// bears is moved by refusals only, and a box that is down is found by requests.
    pub fn nginx(&self, source: &str) -> String {
        let mut text = format!(
            "# Made from {source} by `headlong fleet config`; change that file, not this one.\n\
             # A title's path without a token before it, and what of it names the title.\n\
             map $uri $fleet_path {{\n    \
                 default $uri;\n    \
                 ~^/t/[^/]+(?<fleet_rest>/.*)$ $fleet_rest;\n\
             }}\n\
             map $fleet_path $fleet_title {{\n    \
                 default $fleet_path;\n"
        );
        let rule = match self.title {
            TitleRule::File => None,
            TitleRule::Folder => Some("~^(?<fleet_folder>/.*/)[^/]*$ $fleet_folder".into()),
            TitleRule::Names(count) => Some(format!(
                "\"~^(?<fleet_names>(?:/[^/]+){{1,{count}}})\" $fleet_names"
            )),
        };
        // Writing to a string cannot fail, here and below.
        if let Some(rule) = rule {
            let _ = writeln!(text, "    {rule};");
        }
        text.push_str("}\nupstream headlong_fleet {\n    hash $fleet_title consistent;\n");
        for one in &self.boxes {
            let _ = writeln!(
                text,
                "    server {} weight={} max_fails=2 fail_timeout=10s;  # {}",
                one.address, one.weight, one.name
            );
        }
        text.push_str("    keepalive 64;\n}\nserver {\n");
        for address in &self.listen {
            let _ = writeln!(text, "    listen {address};");
        }
        let _ = write!(
            text,
            "    location / {{\n        \
                 proxy_pass http://headlong_fleet;\n        \
                 proxy_http_version 1.1;\n        \
                 proxy_set_header Connection \"\";\n        \
                 proxy_set_header Host $host;\n        \
                 proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n        \
                 proxy_buffering off;\n        \
                 # Another box is asked before the viewer learns that one is down or full (503).\n        \
                 proxy_next_upstream error timeout http_500 http_503 http_504;\n        \
                 proxy_next_upstream_tries {};\n        \
                 proxy_next_upstream_timeout 10s;\n    \
             }}\n\
             }}\n",
            self.tries
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_maps_titles_without_tokens() {
        let of = |title: &str| {
            let text = format!(
                "title = {title}\n[box.a]\naddress = \"10.0.0.1:80\"\nadmin = \"10.0.0.1:81\"\n"
            );
            Fleet::read("", &text).expect("right").nginx("fleet.toml")
        };
        assert!(of("3").contains("(?:/[^/]+){1,3}"), "{}", of("3"));
        assert!(of("\"folder\"").contains("$fleet_folder;"));
        let file = of("\"file\"");
        assert!(file.contains("default $fleet_path;\n}\n"), "{file}");
        assert!(file.contains("server 10.0.0.1:80 weight=100"), "{file}");
    }
}
