//! Options that several commands share.

use std::num::NonZero;
use std::str::FromStr;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use warpseek::index::Manifest;
use warpseek::options::{Algorithm, CpuAlgorithm, OptionsError};
use warpseek::query::RankingParameters;
use warpseek::{Ranking, RankingFunction};

use crate::failure::Failure;

/// Returns a parser of arguments for a type whose `FromStr` accepts these names.
pub fn named<T>(names: impl Into<PossibleValuesParser>) -> impl TypedValueParser<Value = T>
where
    T: FromStr + Clone + Send + Sync + 'static,
    T::Err: std::fmt::Display + Send + Sync + 'static,
{
    names.into().try_map(|name| name.parse::<T>().map_err(|e| e.to_string()))
}

/// An option for the number of threads, for commands that use several.
#[derive(Args)]
pub struct Threads {
    /// Threads to use [default: one per core]
    #[arg(long, short = 'j', help_heading = "Device", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl Threads {
    /// Returns the number that the user set, or else the number of cores.
    pub fn get(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
        self.threads.map_or_else(cores, usize::from)
    }
}

/// Checks the duration of a measurement, in seconds.
pub fn check_seconds(seconds: f64) -> Result<(), Failure> {
    match seconds > 0.0 && seconds <= 3600.0 {
        true => Ok(()),
        false => Err(Failure::user("--seconds must be above 0 and at most 3600")),
    }
}

/// Parses a size in bytes such as 500M, 4G or 1048576. It must be at least 1.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    parse_bytes_from(text, 1.0)
}

/// Parses a size in bytes for an option that accepts 0.
pub fn parse_bytes_or_none(text: &str) -> Result<usize, String> {
    parse_bytes_from(text, 0.0)
}

/// The largest size that an option accepts. Every integer up to it is exact as a float.
const MOST_BYTES: f64 = (8u64 << 50) as f64;

fn parse_bytes_from(text: &str, least: f64) -> Result<usize, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let bad = || format!("`{text}` is not a size; try 500M or 4G");
    let value: f64 = number.parse().map_err(|_| bad())?;
    let shift = match text[number.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        unit => return Err(format!("unit `{unit}` is not one of K, M, G, T")),
    };
    let bytes = value * (1u64 << shift) as f64;
    match bytes == least || (1.0..=MOST_BYTES).contains(&bytes) {
        true => Ok(bytes as usize),
        false => Err(format!("{text} is out of range; give {least} to 8192T bytes")),
    }
}

/// Options for the ranking of documents.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Ranking")]
pub struct RankingChoice {
    /// Ranking function [default: bm25, impact for an index of vectors, bm25-by-field for one
    /// with a schema]
    #[arg(long, value_parser = PossibleValuesParser::new(RankingFunction::NAMES))]
    rank: Option<String>,
    /// Parameter of bm25, okapi and wakatsuki: how slowly term frequency saturates [default: 0.9,
    /// or the index's if quantized or with a schema]
    #[arg(long, value_name = "X", allow_negative_numbers = true, hide_short_help = true)]
    k1: Option<f64>,
    /// Parameter of bm25, okapi and wakatsuki: how much document length counts, 0 to 1 [default:
    /// 0.4, or the index's if quantized or with a schema]
    #[arg(long, value_name = "X", allow_negative_numbers = true, hide_short_help = true)]
    b: Option<f64>,
    /// Weight of the documents' static scores, which are added to the ranking score
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.0,
        allow_negative_numbers = true,
        hide_short_help = true
    )]
    static_weight: f64,
}

impl RankingChoice {
    /// Returns the weight of static scores.
    pub fn static_weight(&self) -> f64 {
        self.static_weight
    }

    /// Returns the ranking that the user chose, or else the one that suits the index.
    pub fn get(&self, manifest: &Manifest) -> Result<Ranking, Failure> {
        let suited = Ranking::suited(manifest).function;
        let name = self.rank.as_deref().unwrap_or(suited.name());
        let mut function: RankingFunction = name.parse().map_err(Failure::user)?;
        if name == suited.name() {
            function = suited;
        }
        // Explicit parameters apply to all fields and replace those of the individual fields.
        if function == RankingFunction::Bm25ByField && (self.k1.is_some() || self.b.is_some()) {
            function = Ranking::default().function;
        }
        match function.parameters_mut() {
            RankingParameters::Saturation { k1, b } => {
                *k1 = self.k1.unwrap_or(*k1);
                *b = self.b.unwrap_or(*b);
            }
            RankingParameters::None => {
                if self.k1.is_some() || self.b.is_some() {
                    let ranking = name.to_owned();
                    return Err(OptionsError::NoParameters { ranking }.into());
                }
            }
        }
        Ok(Ranking { function, static_weight: self.static_weight })
    }
}

/// Returns a parser of algorithm names. It accepts names of earlier versions without listing
/// them.
pub fn algorithms(names: Vec<&'static str>) -> impl TypedValueParser<Value = Algorithm> {
    let value = |name: &'static str| {
        let old = CpuAlgorithm::ALIASES.iter().filter(move |(_, new)| *new == name);
        PossibleValue::new(name).aliases(old.map(|(old, _)| *old))
    };
    named::<Algorithm>(names.into_iter().map(value).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_are_known_by_old_names_that_are_not_listed() {
        let parse = |name: &str| {
            let command = clap::Command::new("warpseek");
            let parser = algorithms(Algorithm::names());
            parser.parse_ref(&command, None, std::ffi::OsStr::new(name))
        };
        for (old, new) in CpuAlgorithm::ALIASES {
            assert_eq!(parse(old).ok(), parse(new).ok(), "{old}");
            assert!(parse(old).is_ok(), "{old}");
        }
        assert_eq!(parse("kept").ok(), "decoded".parse().ok());
        let listed = algorithms(Algorithm::names());
        let mut listed = listed.possible_values().into_iter().flatten();
        assert!(listed.all(|value| value.get_name() != "kept"));
    }

    #[test]
    fn sizes_are_parsed_with_and_without_units() {
        assert_eq!(parse_bytes("500M"), Ok(500 << 20));
        assert_eq!(parse_bytes("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse_bytes("12"), Ok(12));
        for bad in ["", "M", "5Q", "-1", "1e99"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_bytes("8192T"), Ok(8 << 50));
        for (bad, least) in [("0", 1), ("0.5", 1), ("-1", 1), ("8193T", 1), ("inf", 1), ("NaN", 1)]
        {
            let error = parse_bytes(bad).unwrap_err();
            assert!(!bad.ends_with('T') || error.contains("8192T"), "{error}");
            assert!(
                !bad.starts_with('0') || error.contains(&format!("give {least} to")),
                "{error}"
            );
        }
        assert_eq!(parse_bytes_or_none("0"), Ok(0));
        assert_eq!(parse_bytes_or_none("0M"), Ok(0));
        assert!(parse_bytes_or_none("-1").unwrap_err().contains("give 0 to 8192T bytes"));
        assert!(parse_bytes_or_none("0.5").is_err());
    }
}
