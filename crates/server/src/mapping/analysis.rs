//! Analyzers by the names and definitions of Elasticsearch.

use serde_json::{Map, Value};
use warpseek::{Analyzer, Chain, Language, StopWords, Tokens};

/// The chain of an analyzer; the error says what is not there.
pub(super) fn chain(name: &str, settings: &Map<String, Value>) -> Result<Chain, String> {
    let analysis = settings.get("analysis").unwrap_or(&Value::Null);
    match &analysis["analyzer"][name] {
        Value::Null => builtin(name),
        definition => custom(name, definition, analysis),
    }
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

fn custom(name: &str, definition: &Value, analysis: &Value) -> Result<Chain, String> {
    let mut chain = match definition["type"].as_str() {
        None | Some("custom") => Chain { lower: false, ..tokens(definition)? },
        Some(known) => builtin(known)?,
    };
    if definition.get("char_filter").is_some_and(|filters| filters != &Value::Array(Vec::new())) {
        return Err(format!(
            "analyzer [{name}] has a char_filter, which warpseek does not support"
        ));
    }
    for filter in one_or_many(&definition["filter"]) {
        let filter = filter.as_str().ok_or("a filter of an analyzer must be named")?;
        let defined = &analysis["filter"][filter];
        let kind = defined["type"].as_str().unwrap_or(filter);
        match kind {
            "lowercase" => chain.lower = true,
            "asciifolding" => chain.fold = true,
            "stop" => chain.stop = stop_words(&defined["stopwords"])?,
            "porter_stem" => chain.stem = Some(Language::English),
            "stemmer" | "snowball" => {
                let language = defined["language"].as_str().or(defined["name"].as_str());
                let language = language.unwrap_or("english").to_lowercase();
                let found = Language::ALL.into_iter().find(|known| known.name() == language);
                let missing = || format!("the stemmer [{language}] is not supported by warpseek");
                chain.stem = Some(found.ok_or_else(missing)?);
            }
            // Our stemmer for English does both.
            "english_possessive_stemmer" | "possessive_english" => {}
            other => {
                return Err(format!("the token filter [{other}] is not supported by warpseek"));
            }
        }
    }
    if definition.get("stopwords").is_some() {
        chain.stop = stop_words(&definition["stopwords"])?;
    }
    chain.check().map_err(|error| error.to_string())?;
    Ok(chain)
}

fn tokens(definition: &Value) -> Result<Chain, String> {
    let tokens = match definition["tokenizer"].as_str() {
        None | Some("standard") => Tokens::Unicode,
        Some("whitespace") => Tokens::Whitespace,
        Some("keyword") => Tokens::Keyword,
        Some(other) => return Err(format!("the tokenizer [{other}] is not supported by warpseek")),
    };
    Ok(Chain { tokens, ..Chain::default() })
}

fn stop_words(words: &Value) -> Result<StopWords, String> {
    match words {
        Value::Null => Ok(StopWords::English),
        Value::String(name) if name == "_english_" => Ok(StopWords::English),
        Value::String(name) if name == "_none_" => Ok(StopWords::None),
        Value::Array(words) => {
            let word =
                |word: &Value| word.as_str().map(str::to_owned).ok_or("a stop word is a string");
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
        let chain = |name| chain(name, settings);
        assert_eq!(chain("standard").unwrap(), Chain::default());
        assert_eq!(chain("english").unwrap(), Analyzer::English.into());
        assert_eq!(chain("folded").unwrap(), Chain { fold: true, ..Chain::default() });
        let mine = chain("mine").unwrap();
        assert_eq!(
            (mine.tokens, mine.stop),
            (Tokens::Whitespace, StopWords::List(vec!["und".into()]))
        );
        assert_eq!(chain("std").unwrap().stop, StopWords::English);
        for missing in ["grams", "html", "simple", "nothing"] {
            assert!(chain(missing).is_err(), "{missing}");
        }
    }
}
