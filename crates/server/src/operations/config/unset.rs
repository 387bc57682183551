//! Output of the settings as TOML, with comments for unset ones.

use super::Config;

impl Config {
    /// Renders all settings as TOML. Unset ones are comments that show the syntax.
    pub fn to_toml(&self) -> String {
        let written = toml::to_string_pretty(self).unwrap_or_default();
        let unset: Vec<&Unset> = UNSET.iter().filter(|setting| (setting.is_unset)(self)).collect();
        let comments = |part: &str| {
            let settings = unset.iter().filter(|setting| setting.part == part);
            settings
                .map(|setting| format!("# {} = {}\n", setting.name, setting.example))
                .collect::<String>()
        };
        // Settings outside of tables precede the first table.
        let mut out = comments("");
        for line in written.lines() {
            out.push_str(line);
            out.push('\n');
            if let Some(part) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                out.push_str(&comments(part));
            }
        }
        out
    }
}

/// A setting that may be unset.
struct Unset {
    part: &'static str,
    name: &'static str,
    /// An example value in TOML.
    example: &'static str,
    is_unset: fn(&Config) -> bool,
}

/// Settings that may be unset.
const UNSET: [Unset; 12] = [
    Unset {
        part: "",
        name: "api_key_file",
        example: "\"keys.txt\"",
        is_unset: |config| config.api_key_file.is_none(),
    },
    Unset {
        part: "",
        name: "calibration",
        example: "\"calibration.json\"",
        is_unset: |config| config.calibration.is_none(),
    },
    Unset {
        part: "",
        name: "retrieve_index",
        example: "\"books\"",
        is_unset: |config| config.retrieve_index.is_none(),
    },
    Unset {
        part: "",
        name: "restore",
        example: "\"snapshot\"",
        is_unset: |config| config.restore.is_none(),
    },
    Unset {
        part: "tls",
        name: "certificate",
        example: "\"certificate.pem\"",
        is_unset: |config| config.tls.certificate.is_none(),
    },
    Unset {
        part: "tls",
        name: "key",
        example: "\"key.pem\"",
        is_unset: |config| config.tls.key.is_none(),
    },
    Unset {
        part: "snapshots",
        name: "url",
        example: "\"file:///folder\"",
        is_unset: |config| config.snapshots.url.is_none(),
    },
    Unset {
        part: "cluster",
        name: "nodes",
        example: "\"host1:9300,host2:9300\"",
        is_unset: |config| config.cluster.nodes.is_none(),
    },
    Unset {
        part: "cluster",
        name: "token_file",
        example: "\"token.txt\"",
        is_unset: |config| config.cluster.token_file.is_none(),
    },
    Unset {
        part: "cluster",
        name: "certificate",
        example: "\"certificate.pem\"",
        is_unset: |config| config.cluster.certificate.is_none(),
    },
    Unset {
        part: "cluster",
        name: "key",
        example: "\"key.pem\"",
        is_unset: |config| config.cluster.key.is_none(),
    },
    Unset {
        part: "cluster",
        name: "authority",
        example: "\"authority.pem\"",
        is_unset: |config| config.cluster.authority.is_none(),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_without_a_value_are_comments() {
        let text = Config::default().to_toml();
        // With the comments turned into settings, every field has a value, and each is in its
        // table.
        let all: String =
            text.lines().map(|line| format!("{}\n", line.trim_start_matches("# "))).collect();
        let all: Config = toml::from_str(&all).unwrap();
        assert!(UNSET.iter().all(|setting| !(setting.is_unset)(&all)), "{all:?}");
        assert_eq!(all.to_toml().matches('#').count(), 0);
        assert_eq!(text.matches("# ").count(), UNSET.len(), "{text}");
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), Config::default());
    }
}
