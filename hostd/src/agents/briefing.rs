//! The briefing: instructions that every agent gets before its first prompt, about its sandbox. Pure.

use super::{
    invocation::{APP, HOME},
    template::{UnknownPlaceholder, check, fill},
};
use protocol::STATUS_URL;

const BUILT_IN: &str = include_str!("briefing.txt");
const NAMES: [&str; 8] = ["app", "home", "cwd", "network", "services", "ports", "preview", "status_url"];

/// The text of the briefing, with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Briefing {
    text: String,
}

/// The facts about one sandbox that a briefing names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BriefingContext<'a> {
    pub cwd: Option<&'a str>,
    /// `none`, `proxy` or `open`.
    pub network: &'a str,
    /// Existing services, with their ports.
    pub services: Vec<(&'a str, Option<u16>)>,
    /// Ports with the URLs of their previews.
    pub previews: Vec<(u16, String)>,
    /// The URL of a preview, with `N` for the port.
    pub preview: String,
}

impl Default for Briefing {
    fn default() -> Self {
        Self { text: BUILT_IN.to_owned() }
    }
}

impl Briefing {
    pub fn new(text: String) -> Result<Self, UnknownPlaceholder> {
        check(&text, &NAMES)?;
        Ok(Self { text })
    }

    pub fn render(&self, context: &BriefingContext<'_>) -> String {
        let cwd = match context.cwd {
            Some(cwd) if cwd.starts_with('/') => cwd.to_owned(),
            Some(cwd) => format!("{APP}/{cwd}"),
            None => APP.to_owned(),
        };
        let text = fill(&self.text, |name| {
            Some(match name {
                "app" => APP.into(),
                "home" => HOME.into(),
                "cwd" => cwd.clone().into(),
                "network" => network(context.network).into(),
                "services" => services(&context.services).into(),
                "ports" => ports(&context.previews).into(),
                "preview" => context.preview.clone().into(),
                "status_url" => STATUS_URL.into(),
                _ => return None,
            })
        });
        text.trim_end().to_owned()
    }
}

fn network(mode: &str) -> &'static str {
    match mode {
        "none" => "- There is none: nothing can be downloaded. Work with what is installed.",
        "proxy" => {
            "- Everything outside is reached through a proxy that HTTP_PROXY and HTTPS_PROXY name; npm, pip, \
             cargo, git and curl use it by themselves. Names are not resolved here. What is refused says why \
             in its answer: do not try to get around it."
        }
        _ => "- This sandbox has a network.",
    }
}

fn services(services: &[(&str, Option<u16>)]) -> String {
    let one = |(name, port): &(&str, Option<u16>)| match port {
        Some(port) => format!("{name} (port {port})"),
        None => (*name).to_owned(),
    };
    let named: Vec<String> = services.iter().map(one).collect();
    if named.is_empty() {
        String::new()
    } else {
        format!("- Services that run already: {}.\n", named.join(", "))
    }
}

fn ports(previews: &[(u16, String)]) -> String {
    let one = |(port, url): &(u16, String)| format!("- Port {port} is seen at {url}\n");
    previews.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES_MAX: usize = 40;

    fn place() -> BriefingContext<'static> {
        BriefingContext {
            cwd: None,
            network: "proxy",
            services: vec![("db", None), ("web", Some(5173))],
            previews: vec![(3000, "http://s-x-3000.preview.localhost".to_owned())],
            preview: "http://s-x-N.preview.localhost".to_owned(),
        }
    }

    #[test]
    fn it_says_where_the_agent_is_in_few_lines() {
        let text = Briefing::default().render(&place());
        assert!(text.lines().count() <= LINES_MAX, "{}", text.lines().count());
        for expected in [
            "You start in /home/sandbox/workspace/app.",
            "AGENTS.md",
            "sandbox.yaml",
            "HTTPS_PROXY",
            "db, web (port 5173)",
            "Port 3000 is seen at http://s-x-3000.preview.localhost",
            "http://s-x-N.preview.localhost",
            STATUS_URL,
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains('{'), "{text}");
    }

    #[test]
    fn it_tells_the_directory_and_the_network_there_are() {
        let table = [
            (Some("web"), "none", "You start in /home/sandbox/workspace/app/web.", "There is none"),
            (Some("/tmp/x"), "open", "You start in /tmp/x.", "has a network"),
        ];
        for (cwd, network, start, reach) in table {
            let text =
                Briefing::default().render(&BriefingContext { cwd, network, ..BriefingContext::default() });
            assert!(text.contains(start) && text.contains(reach), "{text}");
            assert!(!text.contains("Services that run already"), "{text}");
        }
    }

    #[test]
    fn the_service_it_shows_is_a_good_manifest() {
        let text = Briefing::default().render(&place());
        let from = text.find("version: 1").expect("it shows one");
        let shown: Vec<&str> = text[from..].lines().take_while(|line| !line.is_empty()).collect();
        assert_eq!(shown[1], "services:");
        assert!(shown.iter().any(|line| line.trim_start().starts_with("command: ")), "{shown:?}");
        assert!(shown.iter().any(|line| line.trim_start() == "port: 3000"), "{shown:?}");
    }

    #[test]
    fn another_text_has_the_same_names_and_no_others() {
        let own = Briefing::new("Work in {cwd}.".to_owned()).expect("good");
        assert_eq!(own.render(&place()), "Work in /home/sandbox/workspace/app.");
        let error = Briefing::new("{key}".to_owned()).expect_err("unknown");
        assert!(error.to_string().starts_with("there is no {key}; there are: {app}, "), "{error}");
    }
}
