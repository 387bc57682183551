//! Details of exceptions: the Python class, the name of the library's error, and its fields as
//! text.

use std::fmt::{self, Debug, Write};

use warpseek::Error;
use warpseek::devices::DeviceError;
use warpseek::eval::EvalError;
use warpseek::index::IndexError;
use warpseek::ngram::NgramError;
use warpseek::options::OptionsError;
use warpseek::plan::ExecError;
use warpseek::text::TextError;

/// An error in the form that Python sees.
pub(crate) struct Description {
    /// Name of a class in warpseek/errors.py.
    pub(crate) class: &'static str,
    /// Name of the library's error.
    pub(crate) kind: String,
    pub(crate) fields: Fields,
}

type Fields = Vec<(&'static str, String)>;

/// Collects fields by name, as text.
macro_rules! fields {
    ($($name:ident = $value:expr),* $(,)?) => {
        vec![$((stringify!($name), $value.to_string())),*]
    };
}

fn described(class: &'static str, error: &dyn Debug, fields: Fields) -> Description {
    Description { class, kind: variant(error), fields }
}

pub(crate) fn of_library(error: &Error) -> Description {
    match error {
        Error::Index(error) => of_index(error),
        Error::Query(error) => of_query(error),
        Error::Ngram(error) => of_ngrams(error),
        Error::Text(error) => of_text(error),
        Error::Device(error) => of_device(error),
        Error::Options(error) => of_options(error),
        Error::NoText => described("QueryError", error, vec![]),
        Error::Word { location, problem } => {
            described("DocumentError", error, fields![location = location, reason = problem])
        }
        Error::TooManyWords { most } => described("DocumentError", error, fields![most = most]),
        Error::Document { doc, problem } => {
            described("DamagedError", error, fields![document = doc, reason = problem])
        }
        Error::LiveDocument { id, problem } => {
            described("DamagedError", error, fields![id = id, reason = problem])
        }
        error => described("Error", error, vec![]),
    }
}

fn of_index(error: &IndexError) -> Description {
    let (class, fields) = match error {
        IndexError::Input(error) => return of_text(error),
        IndexError::NotAnIndex { dir } => ("NotFoundError", fields![path = dir.display()]),
        IndexError::Exists { dir } | IndexError::NotEmpty { dir } => {
            ("ExistsError", fields![path = dir.display()])
        }
        IndexError::Locked { dir } => ("LockedError", fields![path = dir.display()]),
        IndexError::Interrupted { dir } => ("StorageError", fields![path = dir.display()]),
        IndexError::Io { path, source } => {
            ("StorageError", fields![path = path.display(), reason = source])
        }
        IndexError::Log { path, source } => {
            ("StorageError", fields![path = path.display(), reason = source])
        }
        IndexError::Corrupt { path, what } => {
            ("DamagedError", fields![path = path.display(), reason = what])
        }
        IndexError::Version { path, found, known } => {
            ("DamagedError", fields![path = path.display(), found = found, known = known])
        }
        IndexError::Record(error) => {
            ("DocumentError", fields![location = error.location, reason = error.kind])
        }
        IndexError::DuplicateId { location, id }
        | IndexError::MixedContent { location, id, .. }
        | IndexError::QuantizedVector { location, id }
        | IndexError::PositionsOfVector { location, id }
        | IndexError::GramsOfVector { location, id } => {
            ("DocumentError", fields![location = location, id = id])
        }
        IndexError::Conflict { id } => ("DocumentError", fields![id = id]),
        IndexError::Attribute { column, what } => {
            ("DocumentError", fields![column = column, reason = what])
        }
        IndexError::Refused { what } => ("DocumentError", fields![reason = what]),
        IndexError::TooManyDocuments => {
            ("DocumentError", fields![most = warpseek::limits::MAX_DOCS])
        }
        IndexError::Impacts { what }
        | IndexError::Grams { what }
        | IndexError::Schema { what }
        | IndexError::Positions { what }
        | IndexError::Norms { what }
        | IndexError::StaticField { what } => ("OptionsError", fields![reason = what]),
        IndexError::Inverter { source } => ("DeviceError", fields![reason = source]),
        _ => ("Error", vec![]),
    };
    described(class, error, fields)
}

fn of_text(error: &TextError) -> Description {
    let (class, fields) = match error {
        TextError::NoSuchInput { path } => ("NotFoundError", fields![path = path.display()]),
        TextError::Io { path, source } => {
            ("StorageError", fields![path = path.display(), reason = source])
        }
        TextError::CorruptCompression { path, reason } => {
            ("DocumentError", fields![path = path.display(), reason = reason])
        }
        TextError::RecordTooLong { location, limit } => {
            ("DocumentError", fields![location = location, limit = limit])
        }
        TextError::UnknownFormat { path, .. } => ("OptionsError", fields![path = path.display()]),
        TextError::UnknownFormatName { name, .. } | TextError::UnknownAnalyzer { name, .. } => {
            ("OptionsError", fields![name = name])
        }
        TextError::BadChain { part, reason } => {
            ("OptionsError", fields![part = part, reason = reason])
        }
        TextError::BadSchema { place, reason } => {
            ("OptionsError", fields![place = place, reason = reason])
        }
        TextError::BadConfig { field, reason } => {
            ("OptionsError", fields![field = field, reason = reason])
        }
        _ => ("DocumentError", vec![]),
    };
    described(class, error, fields)
}

fn of_query(error: &ExecError) -> Description {
    let fields = match error {
        ExecError::Index(error) => return of_index(error),
        ExecError::Device { fault, source } => {
            let fields = fields![fault = format!("{fault:?}"), reason = source];
            return described("DeviceError", error, fields);
        }
        ExecError::Syntax(error) => {
            fields![query = error.query, column = error.column, reason = error.kind]
        }
        ExecError::UnknownField { name, near } => {
            let near = near.iter().map(|near| ("near", near.clone()));
            [("field", name.clone())].into_iter().chain(near).collect()
        }
        ExecError::NotText { name }
        | ExecError::NotAttribute { name }
        | ExecError::NoPositionsOf { name }
        | ExecError::Prefix { name } => fields![field = name],
        ExecError::Value { name, value, expected } => {
            fields![field = name, value = value, expected = expected]
        }
        ExecError::Weight { term, weight } => fields![term = term, weight = weight],
        ExecError::Field { term, field, last } => {
            fields![term = term, field = field, last = last]
        }
        ExecError::Parameter { name, value, expected } => {
            fields![name = name, value = value, expected = expected]
        }
        ExecError::Content { ranking, .. } => fields![ranking = ranking],
        ExecError::Quantized { k1, b, .. } => fields![k1 = k1, b = b],
        ExecError::WordsOfFields(mode) | ExecError::ModeOfTree(mode) => fields![mode = mode],
        ExecError::Boosts { smallest, largest } => {
            fields![smallest = smallest, largest = largest]
        }
        ExecError::TooManyTerms(terms) => fields![terms = terms],
        ExecError::Tree(reason)
        | ExecError::Sort(reason)
        | ExecError::Facet(reason)
        | ExecError::Json(reason) => fields![reason = reason],
        ExecError::Unsupported { engine, why } => fields![engine = engine, reason = why],
        _ => vec![],
    };
    described("QueryError", error, fields)
}

fn of_ngrams(error: &NgramError) -> Description {
    let fields = match error {
        NgramError::Index(error) => return of_index(error),
        NgramError::Device(error) => return of_device(error),
        NgramError::TooManyGrams(grams) => fields![ngrams = grams],
        NgramError::ManyGrams(grams) => fields![ngrams = grams],
        NgramError::Codec(codec) => fields![codec = codec],
        NgramError::Misses(reason) => fields![reason = reason],
        _ => vec![],
    };
    described("QueryError", error, fields)
}

fn of_device(error: &DeviceError) -> Description {
    let fields = match error {
        DeviceError::NoSuchDevice { ordinal, count } => fields![gpu = ordinal, gpus = count],
        DeviceError::TooLarge { needed, available, .. } => {
            fields![needed = needed, available = available]
        }
        DeviceError::OutOfMemory { asked, used, available, .. } => {
            fields![asked = asked, used = used, available = available]
        }
        _ => vec![],
    };
    described("DeviceError", error, fields)
}

fn of_options(error: &OptionsError) -> Description {
    let (class, fields) = match error {
        OptionsError::NeedsGpu { algorithm, .. } => ("DeviceError", fields![algorithm = algorithm]),
        OptionsError::NotOnGpu { algorithm }
        | OptionsError::ApproximateParts { algorithm }
        | OptionsError::NoPartitions { algorithm } => {
            ("OptionsError", fields![algorithm = algorithm])
        }
        OptionsError::NoEffect { option, when } => {
            ("OptionsError", fields![option = option, when = when])
        }
        OptionsError::NoParameters { ranking } => ("OptionsError", fields![ranking = ranking]),
        _ => ("OptionsError", vec![]),
    };
    described(class, error, fields)
}

pub(crate) fn of_evaluation(error: &EvalError) -> Description {
    let fields = match error {
        EvalError::Open { name, source } => fields![name = name, reason = source],
        EvalError::Read { name, line, source } => {
            fields![name = name, line = line, reason = source]
        }
        EvalError::Write { source } => fields![reason = source],
        EvalError::NotUtf8 { name, line } => fields![name = name, line = line],
        EvalError::Columns { name, line, found, expected } => {
            fields![name = name, line = line, found = found, expected = expected]
        }
        EvalError::Grade { name, line, text } | EvalError::Score { name, line, text } => {
            fields![name = name, line = line, text = text]
        }
        EvalError::DuplicateHit { name, line, qid, docid } => {
            fields![name = name, line = line, query = qid, document = docid]
        }
        EvalError::ConflictingGrade { name, line, qid, docid, first, second } => {
            let mut fields = fields![name = name, line = line, query = qid, document = docid];
            fields.extend(fields![first = first, second = second]);
            fields
        }
        EvalError::Field { field, text } => fields![field = field, text = text],
        EvalError::NotFinite { qid, docid, score } => {
            fields![query = qid, document = docid, score = score]
        }
        EvalError::UnknownMeasure { text, .. } | EvalError::MeasureCutoff { text } => {
            fields![measure = text]
        }
        _ => vec![],
    };
    described("EvaluationError", error, fields)
}

/// Returns the name of an error's variant, which is how its `Debug` output starts.
fn variant(error: &dyn Debug) -> String {
    struct Name(String);
    impl Write for Name {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let name = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            self.0.push_str(name);
            if name.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
        }
    }
    let mut name = Name(String::new());
    // Writing fails as soon as the name is known.
    let _ = write!(name, "{error:?}");
    name.0
}
