//! Analyzers by Elasticsearch's names and definitions.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use warpseek::Analyzer;
use warpseek::text::{Chain, Language, StopWords, Tokens};

use crate::error::brief;

/// Returns the chain of an analyzer; the error names what is unsupported.
pub(super) fn chain(
    name: &str,
    settings: &Map<String, Value>,
    lenient: bool,
) -> Result<Chain, String> {
    let analysis = settings.get("analysis").unwrap_or(&Value::Null);
    match &analysis["analyzer"][name] {
        Value::Null => builtin(name),
        definition => custom(name, definition, analysis, lenient),
    }
}

/// Supported token filters by type, with the options that have an effect.
const FILTERS: [(&str, &[&str]); 8] = [
    ("lowercase", &[]),
    ("asciifolding", &[]),
    ("stop", &["stopwords"]),
    ("porter_stem", &[]),
    ("stemmer", &["language", "name"]),
    ("snowball", &["language", "name"]),
    ("english_possessive_stemmer", &[]),
    ("possessive_english", &[]),
];

/// Supported tokenizers by name and type.
const TOKENIZERS: [(&str, Tokens); 3] = [
    ("standard", Tokens::Unicode),
    ("whitespace", Tokens::Whitespace),
    ("keyword", Tokens::Keyword),
];

/// Checks all definitions of analyzers and of their parts, used or not. Errors would otherwise
/// surface only when the first field uses them.
pub(super) fn check(settings: &Map<String, Value>) -> Result<(), String> {
    let Some(analysis) = settings.get("analysis") else { return Ok(()) };
    let Value::Object(parts) = analysis else { return Err("[analysis] must be an object".into()) };
    let known = ["analyzer", "filter", "char_filter", "tokenizer", "normalizer"];
    if let Some(part) = parts.keys().find(|part| !known.contains(&part.as_str())) {
        return Err(format!("unknown setting [index.analysis.{}]", brief(part)));
    }
    let defined = |part: &str| parts.get(part).and_then(Value::as_object).into_iter().flatten();
    for (name, definition) in defined("tokenizer") {
        check_tokenizer(name, definition)?;
    }
    for part in ["char_filter", "normalizer"] {
        if let Some((name, _)) = defined(part).next() {
            return Err(format!("the {part} [{}] is not supported by warpseek", brief(name)));
        }
    }
    for (name, definition) in defined("filter") {
        let shown = brief(name);
        let kind = definition["type"].as_str();
        let kind = kind.ok_or_else(|| format!("the token filter [{shown}] must have a type"))?;
        let Some((_, options)) = FILTERS.iter().find(|(known, _)| *known == kind) else {
            return Err(no_filter(kind));
        };
        // Filters that also keep the original term add terms; the engine's filters do not.
        let keeps = ["preserve_original", "ignore_case", "remove_trailing"];
        let has_effect = |key: &str, value: &Value| match key {
            "type" | "version" => false,
            "remove_trailing" => *value != true && value != "true",
            key if keeps.contains(&key) => *value != false && value != "false",
            key => !options.contains(&key),
        };
        if kind == "stop" {
            stop_words(&definition["stopwords"])
                .map_err(|why| format!("token filter [{shown}]: {why}"))?;
        }
        let options = definition.as_object().into_iter().flatten();
        if let Some((key, _)) = options.into_iter().find(|(key, value)| has_effect(key, value)) {
            let key = brief(key);
            return Err(format!(
                "[{key}] of the token filter [{shown}] is not supported by warpseek"
            ));
        }
    }
    for (name, definition) in defined("analyzer") {
        let shown = brief(name);
        let Value::Object(options) = definition else {
            return Err(format!("the analyzer [{shown}] must be an object"));
        };
        let known =
            ["type", "tokenizer", "filter", "char_filter", "stopwords", "position_increment_gap"];
        if let Some(key) = options.keys().find(|key| !known.contains(&key.as_str())) {
            let key = brief(key);
            return Err(format!("[{key}] of the analyzer [{shown}] is not supported by warpseek"));
        }
        chain(name, settings, false).map_err(|why| format!("analyzer [{shown}]: {why}"))?;
    }
    Ok(())
}

/// Checks the definition of a tokenizer, which gives a supported one another name.
fn check_tokenizer(name: &str, definition: &Value) -> Result<(), String> {
    let shown = brief(name);
    let kind = definition["type"].as_str();
    let kind = kind.ok_or_else(|| format!("the tokenizer [{shown}] must have a type"))?;
    if !TOKENIZERS.iter().any(|(known, _)| *known == kind) {
        return Err(no_tokenizer(kind));
    }
    let mut keys = definition.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    match keys.find(|key| !["type", "version"].contains(key)) {
        Some(key) => {
            Err(format!("[{}] of the tokenizer [{shown}] is not supported by warpseek", brief(key)))
        }
        None => Ok(()),
    }
}

fn no_tokenizer(name: &str) -> String {
    format!("the tokenizer [{}] is not supported by warpseek", brief(name))
}

fn no_filter(name: &str) -> String {
    format!("the token filter [{}] is not supported by warpseek", brief(name))
}

/// Returns warnings about analyzers in mappings or settings that differ from Elasticsearch's of
/// the same name.
pub(crate) fn differences(
    mappings: &Map<String, Value>,
    settings: &Map<String, Value>,
) -> Vec<String> {
    let analysis = settings.get("analysis").unwrap_or(&Value::Null);
    let defined = analysis["analyzer"].as_object();
    let mut names = BTreeSet::new();
    let mut languages = BTreeSet::new();
    let mut named = Vec::new();
    named_analyzers(mappings, &mut named);
    let of_mappings =
        named.into_iter().filter(|name| defined.is_none_or(|defined| !defined.contains_key(*name)));
    let definitions = || defined.into_iter().flatten().map(|(_, definition)| definition);
    let of_types = definitions().filter_map(|definition| definition["type"].as_str());
    for name in of_mappings.chain(of_types) {
        match Language::ALL.into_iter().find(|language| language.name() == name) {
            Some(Language::English) => drop(names.insert(name)),
            Some(_) => drop(languages.insert(name)),
            None => {}
        }
    }
    for filter in definitions().flat_map(|definition| one_or_many(&definition["filter"])) {
        let Some(filter) = filter.as_str() else { continue };
        let defined = &analysis["filter"][filter];
        let language = defined["language"].as_str().or(defined["name"].as_str());
        let language = language.map(str::to_lowercase);
        match (defined["type"].as_str().unwrap_or(filter), language.as_deref()) {
            ("porter_stem", _)
            | ("stemmer", None | Some("english" | "porter"))
            | ("snowball", Some("porter")) => drop(names.insert(filter)),
            _ => {}
        }
    }
    let join = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
    let mut warnings = Vec::new();
    if !names.is_empty() {
        warnings.push(format!(
            "[{}] stems by Porter's second algorithm, which Elasticsearch calls [porter2], not by his first",
            join(names)
        ));
    }
    if !languages.is_empty() {
        warnings.push(format!(
            "the analyzers [{}] stem by Snowball's algorithms and have no stop words",
            join(languages)
        ));
    }
    warnings
}

/// Collects the names of all analyzers in mappings. A field named `analyzer` has an object as its
/// value and is not mistaken for one.
fn named_analyzers<'a>(mapping: &'a Map<String, Value>, names: &mut Vec<&'a str>) {
    for (key, value) in mapping {
        match value {
            Value::String(name) if key == "analyzer" => names.push(name),
            Value::Object(inner) => named_analyzers(inner, names),
            Value::Array(values) => {
                let inner = values.iter().filter_map(Value::as_object);
                inner.for_each(|inner| named_analyzers(inner, names));
            }
            _ => {}
        }
    }
}

/// Returns the name of the analyzer for text fields that name none.
pub(super) fn default_name(settings: &Map<String, Value>) -> &'static str {
    let has_default = settings.get("analysis").is_some_and(|a| !a["analyzer"]["default"].is_null());
    if has_default { "default" } else { "standard" }
}

fn builtin(name: &str) -> Result<Chain, String> {
    match name {
        "standard" | "default" => Ok(Analyzer::Plain.into()),
        "whitespace" => Ok(Analyzer::Raw.into()),
        "plain" | "raw" => Err(format!("analyzer [{name}] has not been configured in mappings")),
        name => Chain::predefined(name)
            .ok_or_else(|| format!("analyzer [{name}] is not supported by warpseek")),
    }
}

fn custom(
    name: &str,
    definition: &Value,
    analysis: &Value,
    lenient: bool,
) -> Result<Chain, String> {
    let mut chain = match definition["type"].as_str() {
        None | Some("custom") => Chain { lower: false, ..tokens(definition, analysis)? },
        Some(known) => builtin(known)?,
    };
    if definition.get("char_filter").is_some_and(|filters| filters != &Value::Array(Vec::new())) {
        return Err(format!(
            "analyzer [{name}] has a char_filter, which warpseek does not support"
        ));
    }
    let (mut takes_possessive, mut stems) = (false, Vec::new());
    for filter in one_or_many(&definition["filter"]) {
        let filter = filter.as_str().ok_or("a filter of an analyzer must be named")?;
        let defined = &analysis["filter"][filter];
        let kind = defined["type"].as_str().unwrap_or(filter);
        match kind {
            "lowercase" => chain.lower = true,
            "asciifolding" => chain.fold = true,
            "stop" => chain.stop = stop_words(&defined["stopwords"])?,
            "porter_stem" => stems.push(Language::English),
            "stemmer" | "snowball" => {
                let language = defined["language"].as_str().or(defined["name"].as_str());
                match language.unwrap_or("english").to_lowercase().as_str() {
                    "possessive_english" => takes_possessive = true,
                    language => stems.push(stemmer(language)?),
                }
            }
            "english_possessive_stemmer" | "possessive_english" => takes_possessive = true,
            other => {
                return Err(no_filter(other));
            }
        }
    }
    if let Some(pair) = stems.windows(2).find(|pair| pair[0] != pair[1])
        && !lenient
    {
        return Err(format!(
            "analyzer [{name}] has the stemmers [{}] and [{}], but warpseek supports only one",
            pair[0], pair[1]
        ));
    }
    chain.stem = stems.pop().or(chain.stem);
    // The engine's English stemmer also removes the possessive.
    if !lenient && takes_possessive && chain.stem != Some(Language::English) {
        return Err(format!(
            "analyzer [{name}] has the stemmer [possessive_english] without [english], which warpseek does not support; its English stemmer also removes the possessive"
        ));
    }
    if definition.get("stopwords").is_some() {
        chain.stop = stop_words(&definition["stopwords"])?;
    }
    chain.check().map_err(|error| error.to_string())?;
    Ok(chain)
}

/// Returns the stemmer that Elasticsearch knows by this name.
fn stemmer(name: &str) -> Result<Language, String> {
    let language = match name {
        // Both names select Porter's second stemmer here.
        "porter" | "porter2" => Some(Language::English),
        name => Language::ALL.into_iter().find(|known| known.name() == name),
    };
    language.ok_or_else(|| {
        let instead = match name {
            "light_english" | "minimal_english" | "kstem" | "lovins" => "; use [english]",
            _ => "",
        };
        format!("the stemmer [{name}] is not supported by warpseek{instead}")
    })
}

/// Returns a chain with the tokenizer of an analyzer, which is built in or defined in `analysis`.
fn tokens(definition: &Value, analysis: &Value) -> Result<Chain, String> {
    let name = definition["tokenizer"].as_str().unwrap_or("standard");
    let kind = analysis["tokenizer"][name]["type"].as_str().unwrap_or(name);
    let known = TOKENIZERS.into_iter().find(|(known, _)| *known == kind);
    let (_, tokens) = known.ok_or_else(|| no_tokenizer(kind))?;
    Ok(Chain { tokens, ..Chain::default() })
}

fn stop_words(words: &Value) -> Result<StopWords, String> {
    match words {
        Value::Null => Ok(StopWords::English),
        Value::String(name) if name == "_english_" => Ok(StopWords::English),
        Value::String(name) if name == "_none_" => Ok(StopWords::None),
        Value::Array(words) => {
            let word =
                |word: &Value| word.as_str().map(str::to_owned).ok_or("stop words must be strings");
            Ok(StopWords::List(words.iter().map(word).collect::<Result<_, _>>()?))
        }
        other => Err(format!("the stop words {other} are not supported by warpseek")),
    }
}

fn one_or_many(value: &Value) -> &[Value] {
    match value {
        Value::Null => &[],
        Value::Array(values) => values,
        one => std::slice::from_ref(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn stemmers_of_other_kinds_are_said() {
        let said = |mappings: Value, analysis: Value| {
            let settings = json!({"analysis": analysis});
            differences(mappings.as_object().unwrap(), settings.as_object().unwrap())
        };
        let field = |name: &str| json!({"properties": {"analyzer": {"type": "text", "fields": {"x": {"type": "text", "analyzer": name}}}}});
        assert!(
            said(field("english"), json!({}))[0].contains("[english] stems by Porter's second")
        );
        assert!(said(field("german"), json!({}))[0].contains("[german]"));
        assert!(said(field("standard"), json!({})).is_empty());
        let with = |filter: Value| json!({"analyzer": {"english": {"tokenizer": "standard", "filter": ["lowercase", "f"]}}, "filter": {"f": filter}});
        for (filter, differs) in [
            (json!({"type": "porter_stem"}), true),
            (json!({"type": "stemmer"}), true),
            (json!({"type": "stemmer", "language": "English"}), true),
            (json!({"type": "stemmer", "name": "porter2"}), false),
            (json!({"type": "snowball", "language": "English"}), false),
            (json!({"type": "snowball", "language": "Porter"}), true),
            (json!({"type": "stemmer", "language": "german"}), false),
        ] {
            // An analyzer of the index takes precedence over a built-in one.
            assert_eq!(
                !said(field("english"), with(filter.clone())).is_empty(),
                differs,
                "{filter}"
            );
        }
    }

    #[test]
    fn names_and_definitions() {
        let settings = json!({"analysis": {
            "analyzer": {
                "folded": {"tokenizer": "standard", "filter": ["lowercase", "asciifolding"]},
                "mine": {"type": "custom", "tokenizer": "whitespace", "filter": ["lowercase", "my_stop", "german_stemmer"]},
                "grams": {"tokenizer": "edge_ngram"},
                "html": {"tokenizer": "standard", "char_filter": ["html_strip"]},
                "std": {"type": "standard", "stopwords": "_english_"}
            },
            "filter": {"my_stop": {"type": "stop", "stopwords": ["und"]}, "german_stemmer": {"type": "stemmer", "language": "german"}}
        }});
        let settings = settings.as_object().unwrap();
        let chain = |name| chain(name, settings, false);
        assert_eq!(chain("standard").unwrap(), Chain::default());
        assert_eq!(chain("english").unwrap(), Analyzer::English.into());
        assert_eq!(chain("folded").unwrap(), Chain { fold: true, ..Chain::default() });
        let mine = chain("mine").unwrap();
        assert_eq!(
            (mine.tokens, mine.stop),
            (Tokens::Whitespace, StopWords::List(vec!["und".into()]))
        );
        assert_eq!(chain("std").unwrap().stop, StopWords::English);
        for (filter, wanted) in [
            (json!({"type": "stemmer", "language": "porter2"}), Ok(())),
            (json!({"type": "stemmer", "name": "english"}), Ok(())),
            (json!({"type": "stemmer", "language": "light_english"}), Err("use [english]")),
            (
                json!({"type": "stemmer", "language": "possessive_english"}),
                Err("without [english]"),
            ),
            (json!({"type": "stemmer", "language": "klingon"}), Err("[klingon]")),
        ] {
            let with = |names: Value| {
                let settings = json!({"analysis": {"analyzer": {"a": {"tokenizer": "standard", "filter": names}}, "filter": {"f": filter, "possessive": {"type": "stemmer", "language": "possessive_english"}}}});
                super::chain("a", settings.as_object().unwrap(), false)
            };
            let alone = with(json!(["lowercase", "f"]));
            match wanted {
                Ok(()) => {
                    assert_eq!(alone.unwrap().stem, Some(Language::English), "{filter}");
                    // With the English stemmer, the possessive is removed.
                    let both = with(json!(["lowercase", "possessive", "f"])).unwrap();
                    assert_eq!(both.compile().unwrap().term("dog's").unwrap(), "dog");
                }
                Err(part) => {
                    let reason = alone.unwrap_err();
                    assert!(reason.contains(part), "{reason}");
                }
            }
        }
        for missing in ["grams", "html", "simple", "nothing"] {
            assert!(chain(missing).is_err(), "{missing}");
        }
    }
}
