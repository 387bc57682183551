//! The languages with a stemmer.

use std::borrow::Cow;
use std::fmt;

use rust_stemmers::{Algorithm, Stemmer};
use serde::{Deserialize, Serialize};

use super::porter;

/// A language with a Snowball stemmer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "each name says it all")]
pub enum Language {
    Arabic,
    Danish,
    Dutch,
    English,
    Finnish,
    French,
    German,
    Greek,
    Hungarian,
    Italian,
    Norwegian,
    Portuguese,
    Romanian,
    Russian,
    Spanish,
    Swedish,
    Tamil,
    Turkish,
}

impl Language {
    /// All languages.
    pub const ALL: [Self; 18] = [
        Self::Arabic,
        Self::Danish,
        Self::Dutch,
        Self::English,
        Self::Finnish,
        Self::French,
        Self::German,
        Self::Greek,
        Self::Hungarian,
        Self::Italian,
        Self::Norwegian,
        Self::Portuguese,
        Self::Romanian,
        Self::Russian,
        Self::Spanish,
        Self::Swedish,
        Self::Tamil,
        Self::Turkish,
    ];

    /// Returns the name in lower case, as used in schemas.
    pub fn name(self) -> &'static str {
        self.entry().0
    }

    /// Returns the stem of a lower-case word; it may be empty.
    pub(super) fn stem(self, word: &str) -> Cow<'_, str> {
        if self == Self::English
            && let Some(stem) = porter::stem(word)
        {
            return stem;
        }
        Stemmer::create(self.entry().1).stem(word)
    }

    fn entry(self) -> (&'static str, Algorithm) {
        match self {
            Self::Arabic => ("arabic", Algorithm::Arabic),
            Self::Danish => ("danish", Algorithm::Danish),
            Self::Dutch => ("dutch", Algorithm::Dutch),
            Self::English => ("english", Algorithm::English),
            Self::Finnish => ("finnish", Algorithm::Finnish),
            Self::French => ("french", Algorithm::French),
            Self::German => ("german", Algorithm::German),
            Self::Greek => ("greek", Algorithm::Greek),
            Self::Hungarian => ("hungarian", Algorithm::Hungarian),
            Self::Italian => ("italian", Algorithm::Italian),
            Self::Norwegian => ("norwegian", Algorithm::Norwegian),
            Self::Portuguese => ("portuguese", Algorithm::Portuguese),
            Self::Romanian => ("romanian", Algorithm::Romanian),
            Self::Russian => ("russian", Algorithm::Russian),
            Self::Spanish => ("spanish", Algorithm::Spanish),
            Self::Swedish => ("swedish", Algorithm::Swedish),
            Self::Tamil => ("tamil", Algorithm::Tamil),
            Self::Turkish => ("turkish", Algorithm::Turkish),
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tests two forms of a word in each language.
    #[test]
    fn forms_of_a_word_share_a_stem() {
        for (language, forms) in [
            (Language::Arabic, ["كتاب", "الكتاب"]),
            (Language::Danish, ["hunden", "hundene"]),
            (Language::Dutch, ["lichaam", "lichamen"]),
            (Language::English, ["running", "runs"]),
            (Language::Finnish, ["talossa", "talosta"]),
            (Language::French, ["continuellement", "continuelle"]),
            (Language::German, ["häuser", "häusern"]),
            (Language::Greek, ["άνθρωπος", "άνθρωποι"]),
            (Language::Hungarian, ["házak", "házban"]),
            (Language::Italian, ["abbandonata", "abbandonato"]),
            (Language::Norwegian, ["hund", "hundene"]),
            (Language::Portuguese, ["menino", "meninos"]),
            (Language::Romanian, ["copii", "copiilor"]),
            (Language::Russian, ["книга", "книгами"]),
            (Language::Spanish, ["hablando", "hablar"]),
            (Language::Swedish, ["flickor", "flickorna"]),
            (Language::Tamil, ["மரங்கள்", "மரங்களை"]),
            (Language::Turkish, ["kitaplar", "kitabım"]),
        ] {
            let stems = forms.map(|form| language.stem(form));
            assert_eq!(stems[0], stems[1], "{language}: {forms:?}");
        }
    }

    #[test]
    fn names_are_those_of_the_json() {
        for language in Language::ALL {
            let json = serde_json::to_string(&language).unwrap();
            assert_eq!(json, format!("\"{language}\""));
            assert_eq!(serde_json::from_str::<Language>(&json).unwrap(), language);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        /// The stemmers are generated code that moves over bytes; no word may make them panic.
        #[test]
        fn every_word_has_a_stem(
            word in "([a-z'ßäöüéèêçñåøæışğ]{0,12}|[а-яё]{0,9}|[α-ωάέήίόύώς]{0,9}|[ء-ي\u{64b}-\u{652}]{0,9}|[அ-்]{0,9}|\\PC{0,9}){1,3}"
        ) {
            for language in Language::ALL {
                let stem = language.stem(&word);
                prop_assert!(stem.len() <= word.len() + 8, "{}: {} {}", language, word, stem);
            }
        }
    }
}
