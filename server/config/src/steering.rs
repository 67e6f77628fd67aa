//! Settings of content steering, and what they mean with the description of the fleet.

use std::path::PathBuf;

use headlong_fleet::Steering;
use headlong_settings::Document;

use crate::settings::Config;

/// `[steering]`: the fleet to whose boxes players are steered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SteeringSettings {
    /// Description of the fleet.
    pub fleet: Option<PathBuf>,
    /// Name of this server in it.
    pub of_box: Option<String>,
}

/// Reports a setting without the other one.
pub(crate) fn contradictions(document: &mut Document, config: &Config) {
    let SteeringSettings { fleet, of_box } = &config.steering;
    let (key, text) = match (fleet, of_box) {
        (Some(_), None) => (
            "steering.box",
            "is missing; add box, with the name of this server in the description of the fleet",
        ),
        (None, Some(_)) => (
            "steering.fleet",
            "is missing; add fleet, with the file that describes the fleet",
        ),
        _ => return,
    };
    if !document.mistakes.is_about(key) {
        document.wrong_too(key, text);
    }
}

impl Config {
    /// How players are steered; `None` if they are not. Reads the description of the fleet.
    ///
    /// # Errors
    /// The setting, and what is wrong with it or with the description.
    pub fn steering(&self) -> Result<Option<Steering>, (&'static str, String)> {
        let SteeringSettings {
            fleet: Some(file),
            of_box: Some(of_box),
        } = &self.steering
        else {
            return Ok(None);
        };
        let fleet = headlong_edge::read_fleet(file).map_err(|text| ("steering.fleet", text))?;
        let steering = Steering::new(&fleet, of_box).map_err(|text| ("steering.box", text))?;
        Ok(Some(steering))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Config, Flags};

    const FLEET: &str = "title = \"folder\"\n\
        [box.a]\naddress = \"10.0.0.1:80\"\nadmin = \"10.0.0.1:81\"\nurl = \"https://a.example\"\n\
        [box.b]\naddress = \"10.0.0.2:80\"\nadmin = \"10.0.0.2:81\"\nurl = \"https://b.example\"\n\
        [box.c]\naddress = \"10.0.0.3:80\"\nadmin = \"10.0.0.3:81\"\n";

    #[test]
    fn mistakes_of_the_description_are_named_with_their_setting() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("fleet.toml"), FLEET).expect("written");
        let wrong = FLEET.replace("https://b.example", "b.example/films/");
        std::fs::write(folder.path().join("wrong.toml"), wrong).expect("written");
        let file = folder.path().join("headlong.toml");
        let flags = Flags {
            roots: vec![folder.path().to_owned()],
            memory: Some("64MiB".to_owned()),
            ..Flags::default()
        };
        let load = |fleet: &str, of_box: &str| {
            let text = format!("[steering]\nfleet = {fleet:?}\nbox = {of_box:?}\n");
            std::fs::write(&file, text).expect("written");
            Config::load(Some(Path::new(&file)), &flags)
        };
        for (fleet, of_box, parts) in [
            ("none.toml", "a", ["steering.fleet", "none.toml"]),
            ("wrong.toml", "a", ["steering.fleet", "box.b.url"]),
            ("fleet.toml", "d", ["steering.box", "no box \"d\""]),
            ("fleet.toml", "c", ["steering.box", "box.c has no url"]),
        ] {
            let error = load(fleet, of_box).expect_err("wrong").to_string();
            for part in parts {
                assert!(error.contains(part), "{part} in {error}");
            }
        }
        let config = load("fleet.toml", "b").expect("right");
        assert!(config.steering().is_ok_and(|steering| steering.is_some()));
    }
}
