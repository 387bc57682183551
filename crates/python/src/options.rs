//! Options in the form in which Python passes them: dicts.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use pyo3::prelude::*;
use serde_json::Value;
use warpseek::index::Manifest;
use warpseek::options::{
    Algorithm, BuildDevice, CalibrationChoice, CodecId, OnError, OptionsError, Split, StoreMode,
};
use warpseek::query::{Facet, RankingParameters, SortKey};
use warpseek::text::{FieldNames, Format, GramConfig};
use warpseek::{
    Analyzer, DeviceChoice, IndexOptions, Mode, Ranking, RankingFunction, Request, Schema,
    Searcher, SearcherOptions,
};

use crate::error::{Failure, Result};

/// Options of a build.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Building {
    pub(crate) analyzer: Option<String>,
    pub(crate) codec: Option<String>,
    pub(crate) store: String,
    pub(crate) schema: Option<String>,
    pub(crate) positions: bool,
    pub(crate) norms: bool,
    pub(crate) quantize: Option<(f64, f64)>,
    pub(crate) ngrams: Option<u32>,
    pub(crate) ngram_unit: String,
    pub(crate) segment_words: Option<u32>,
    pub(crate) reorder: bool,
    pub(crate) order_by: Option<String>,
    pub(crate) static_field: Option<String>,
    pub(crate) vector_scale: u32,
    pub(crate) format: Option<String>,
    pub(crate) id_field: Option<String>,
    pub(crate) title_field: Option<String>,
    pub(crate) text_fields: Vec<String>,
    pub(crate) on_error: String,
    pub(crate) overwrite: bool,
    pub(crate) threads: Option<usize>,
    pub(crate) memory: Option<usize>,
    pub(crate) device: String,
    pub(crate) gpu: u32,
}

impl Building {
    pub(crate) fn options(&self) -> Result<IndexOptions> {
        let mut options = IndexOptions::new()
            .store(choice(
                &self.store,
                "store",
                [("all", StoreMode::All), ("ids", StoreMode::Ids)],
            )?)
            .positions(self.positions)
            .norms(self.norms)
            .reorder(self.reorder)
            .vector_scale(self.vector_scale)
            .on_error(choice(
                &self.on_error,
                "on_error",
                [("stop", OnError::Stop), ("skip", OnError::Skip)],
            )?)
            .overwrite(self.overwrite)
            .gpu(self.gpu)
            .device(choice(
                &self.device,
                "build_device",
                [
                    ("cpu", BuildDevice::Cpu),
                    ("cuda", BuildDevice::Cuda),
                    ("auto", BuildDevice::Auto),
                ],
            )?);
        if let Some(analyzer) = &self.analyzer {
            options = options.analyzer(named::<Analyzer>(analyzer)?);
        }
        if let Some(codec) = &self.codec {
            options = options.codec(named::<CodecId>(codec)?);
        }
        if let Some(schema) = &self.schema {
            options = options.schema(Schema::parse(schema)?);
        }
        if let Some((k1, b)) = self.quantize {
            options = options.quantize(k1, b);
        }
        if let Some(n) = self.ngrams {
            let usual = GramConfig::default();
            let (unit, words) = (named(&self.ngram_unit)?, self.segment_words);
            let segment_words = words.unwrap_or(usual.segment_words);
            options = options.grams(GramConfig { n, unit, segment_words, ..usual });
        }
        if let Some(field) = &self.order_by {
            options = options.order_by(field);
        }
        if let Some(field) = &self.static_field {
            options = options.static_field(field);
        }
        if let Some(format) = &self.format {
            options = options.format(named::<Format>(format)?);
        }
        options = options.fields(FieldNames {
            id: self.id_field.clone(),
            title: self.title_field.clone(),
            text: self.text_fields.clone(),
        });
        if let Some(threads) = threads(self.threads)? {
            options = options.threads(threads);
        }
        Ok(match self.memory {
            Some(bytes) => options.memory(bytes),
            None => options,
        })
    }
}

/// Options of an opened index.
#[derive(Clone, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Searching {
    pub(crate) device: String,
    pub(crate) gpus: Option<Vec<u32>>,
    pub(crate) gpu_memory: Option<u64>,
    pub(crate) calibration: Option<PathBuf>,
    pub(crate) split: String,
    pub(crate) algorithm: String,
    pub(crate) ranking: Option<String>,
    pub(crate) k1: Option<f64>,
    pub(crate) b: Option<f64>,
    pub(crate) static_weight: f64,
    pub(crate) threads: Option<usize>,
    pub(crate) mmap: bool,
}

impl Searching {
    pub(crate) fn options(&self, manifest: &Manifest) -> Result<SearcherOptions> {
        let devices = [
            ("cpu", DeviceChoice::Cpu),
            ("cuda", DeviceChoice::Cuda),
            ("auto", DeviceChoice::Auto),
            ("both", DeviceChoice::Both),
        ];
        let splits = [("documents", Split::Documents), ("queries", Split::Queries)];
        let ranking = RankingChoice {
            name: self.ranking.clone(),
            k1: self.k1,
            b: self.b,
            static_weight: self.static_weight,
        };
        let mut options = SearcherOptions::new()
            .device(choice(&self.device, "device", devices)?)
            .split(choice(&self.split, "split", splits)?)
            .algorithm(named::<Algorithm>(&self.algorithm)?)
            .ranking(ranking.get(manifest)?)
            .mmap(self.mmap);
        if let Some(gpus) = &self.gpus {
            options = options.gpus(gpus.clone());
        }
        if let Some(bytes) = self.gpu_memory {
            options = options.gpu_memory(bytes);
        }
        if let Some(file) = &self.calibration {
            if !matches!(self.device.as_str(), "auto" | "both") {
                let problem =
                    "[calibration] has no effect unless times decide how devices are used";
                return Err(Failure::Argument(format!(
                    "{problem}; set [device] to \"auto\" or \"both\""
                )));
            }
            options = options.calibration(CalibrationChoice::File(file.clone()));
        }
        Ok(match threads(self.threads)? {
            Some(threads) => options.threads(threads),
            None => options,
        })
    }

    /// Returns the number of search threads.
    pub(crate) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.threads.unwrap_or_else(cores)
    }
}

/// A ranking function by name, with its parameters.
#[derive(Default)]
pub(crate) struct RankingChoice {
    pub(crate) name: Option<String>,
    pub(crate) k1: Option<f64>,
    pub(crate) b: Option<f64>,
    pub(crate) static_weight: f64,
}

impl RankingChoice {
    /// Returns the ranking with this name, or else the one that suits the index.
    pub(crate) fn get(&self, manifest: &Manifest) -> Result<Ranking> {
        let suited = Ranking::suited(manifest).function;
        let name = self.name.as_deref().unwrap_or(suited.name());
        let mut function = named::<RankingFunction>(name)?;
        if name == suited.name() {
            function = suited;
        }
        let given = self.k1.is_some() || self.b.is_some();
        // Given parameters apply to all fields and replace those of each field.
        if function == RankingFunction::Bm25ByField && given {
            function = Ranking::default().function;
        }
        match function.parameters_mut() {
            RankingParameters::Saturation { k1, b } => {
                *k1 = self.k1.unwrap_or(*k1);
                *b = self.b.unwrap_or(*b);
            }
            RankingParameters::None if given => {
                return Err(OptionsError::NoParameters { ranking: name.to_owned() }.into());
            }
            RankingParameters::None => {}
        }
        Ok(Ranking { function, static_weight: self.static_weight })
    }
}

/// Options that all queries of a call share.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asking {
    pub(crate) k: usize,
    pub(crate) mode: String,
    pub(crate) count: bool,
    pub(crate) syntax: Option<bool>,
    pub(crate) filter: Option<String>,
    pub(crate) among: Option<Vec<String>>,
    /// Attributes, `_score` or `_doc`, with `-` before those in descending order.
    pub(crate) sort: Option<Vec<String>>,
    /// Sort values of the last hit of the previous page, as a JSON list.
    pub(crate) after: Option<String>,
    pub(crate) facets: Option<Vec<FacetChoice>>,
    pub(crate) ranking: Option<String>,
    pub(crate) k1: Option<f64>,
    pub(crate) b: Option<f64>,
    /// Weight of static scores, if it is not that of the opened index.
    pub(crate) static_weight: Option<f64>,
    /// Time limit in seconds.
    pub(crate) deadline: Option<f64>,
    /// Number of threads for a batch, if it is not that of the opened index.
    pub(crate) threads: Option<usize>,
}

/// A facet: the most frequent values of an attribute, or ranges of its values.
#[derive(FromPyObject)]
pub(crate) enum FacetChoice {
    Values(String, usize),
    Ranges(String, Vec<(Option<String>, Option<String>)>),
}

impl FacetChoice {
    fn get(&self) -> Facet {
        match self {
            FacetChoice::Values(field, top) => Facet::Values { field: field.clone(), top: *top },
            FacetChoice::Ranges(field, ranges) => {
                let range = |(from, to): &(Option<String>, Option<String>)| {
                    let from = from.clone().map_or(Bound::Unbounded, Bound::Included);
                    (from, to.clone().map_or(Bound::Unbounded, Bound::Excluded))
                };
                Facet::Ranges { field: field.clone(), ranges: ranges.iter().map(range).collect() }
            }
        }
    }
}

impl Asking {
    /// Returns the searcher with the requested number of threads.
    pub(crate) fn searcher(&self, searcher: &Searcher) -> Result<Searcher> {
        let threads = threads(self.threads)?;
        Ok(threads.map_or_else(|| searcher.clone(), |threads| searcher.with_threads(threads)))
    }

    /// Returns a request with these options and an empty query.
    pub(crate) fn request(&self, searcher: &Searcher) -> Result<Request> {
        let mut request = Request::new("").k(self.k).mode(named::<Mode>(&self.mode)?);
        request.count = self.count;
        if let Some(filter) = &self.filter {
            request = request.filter(searcher.parse(filter)?);
        }
        if let Some(ids) = &self.among {
            request = request.among(ids.iter().cloned());
        }
        request.sort = self.sort.iter().flatten().map(|key| sort_key(key)).collect();
        if let Some(after) = &self.after {
            let wrong = |error: serde_json::Error| {
                Failure::Argument(format!("after must be a value of Hits.after: {error}"))
            };
            let values: Vec<Value> = serde_json::from_str(after).map_err(wrong)?;
            request.after = Some(searcher.sort_values(&request.sort, &values)?);
        }
        request.facets = self.facets.iter().flatten().map(FacetChoice::get).collect();
        let static_weight = self.static_weight.unwrap_or(searcher.ranking().static_weight);
        if self.ranking.is_some() || self.k1.is_some() || self.b.is_some() {
            let (name, k1, b) = (self.ranking.clone(), self.k1, self.b);
            let choice = RankingChoice { name, k1, b, static_weight };
            request.ranking = Some(choice.get(searcher.snapshot().manifest())?);
        } else if self.static_weight.is_some() {
            request.ranking = Some(Ranking { static_weight, ..searcher.ranking() });
        }
        request.deadline = deadline(self.deadline)?;
        Ok(request)
    }
}

fn sort_key(key: &str) -> SortKey {
    let (name, descending) = key.strip_prefix('-').map_or((key, false), |name| (name, true));
    let mut key = match name {
        "_score" => SortKey::score(),
        "_doc" => SortKey::document(),
        name => SortKey::ascending(name),
    };
    key.descending = descending;
    key
}

/// Converts a time limit in seconds.
pub(crate) fn deadline(seconds: Option<f64>) -> Result<Option<Duration>> {
    let read = |seconds: f64| {
        Duration::try_from_secs_f64(seconds).map_err(|_| {
            Failure::Argument(format!(
                "deadline is {seconds}; it must be a number of seconds, 0 or more"
            ))
        })
    };
    seconds.map(read).transpose()
}

fn threads(threads: Option<usize>) -> Result<Option<usize>> {
    match threads {
        Some(threads) if !(1..=1024).contains(&threads) => {
            Err(Failure::Argument(format!("threads is {threads}; it must be 1 to 1024")))
        }
        threads => Ok(threads),
    }
}

/// Returns the value with this name. `option` is the name of the option in errors.
pub(crate) fn choice<T, const N: usize>(
    name: &str,
    option: &str,
    all: [(&str, T); N],
) -> Result<T> {
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let wrong = || {
        Failure::Argument(format!("{option} is `{name}`; it must be one of {}", names.join(", ")))
    };
    all.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value).ok_or_else(wrong)
}

/// Parses a name that the library knows.
pub(crate) fn named<T: FromStr<Err: std::fmt::Display>>(name: &str) -> Result<T> {
    name.parse().map_err(|error: T::Err| Failure::Argument(error.to_string()))
}

/// Returns the names that an option accepts.
#[pyfunction]
pub(crate) fn names(option: &str) -> PyResult<Vec<&'static str>> {
    Ok(match option {
        "algorithm" => Algorithm::names(),
        "analyzer" => Analyzer::NAMES.to_vec(),
        "codec" => CodecId::names(),
        "format" => Format::NAMES.to_vec(),
        "measure" => warpseek::eval::Measure::KNOWN.to_vec(),
        "mode" => Mode::NAMES.to_vec(),
        "ranking" => RankingFunction::NAMES.to_vec(),
        _ => {
            let known = "algorithm, analyzer, codec, format, measure, mode, ranking";
            let what = format!("there are no names for `{option}`; options with names are {known}");
            return Err(Failure::Argument(what).into());
        }
    })
}

/// Returns true if a string looks like the name of a file of documents: it has the extension of
/// one, and no white space.
#[pyfunction]
pub(crate) fn names_file(text: &str) -> bool {
    !text.contains(char::is_whitespace) && Format::of_name(Path::new(text)).is_some()
}
