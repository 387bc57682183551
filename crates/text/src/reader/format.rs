//! The input formats, and how file names determine them.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::TextError;

/// The format of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// JSON lines: one object per line.
    Jsonl,
    /// Lines of the form `id<TAB>text` or `id<TAB>title<TAB>text`, or with other columns, which
    /// the first line names.
    Tsv,
    /// Rows of cells with separators between them, as in RFC 4180; the first row names the
    /// columns.
    Csv,
    /// A file of Apache Parquet.
    Parquet,
    /// TREC collections of `<DOC>` records.
    Trec,
    /// Text files: one document per file.
    Tree,
    /// Tokenised text: one word per line, with a blank line between documents.
    Words,
}

impl Format {
    /// Names that [`FromStr`] accepts and [`fmt::Display`] writes.
    pub const NAMES: &'static [&'static str] =
        &["jsonl", "tsv", "csv", "parquet", "trec", "tree", "words"];

    const ALL: [Self; 7] =
        [Self::Jsonl, Self::Tsv, Self::Csv, Self::Parquet, Self::Trec, Self::Tree, Self::Words];

    /// Returns true if each record is a line.
    pub(crate) fn is_lines(self) -> bool {
        matches!(self, Self::Jsonl | Self::Tsv)
    }

    /// Returns the format that a file's name indicates, ignoring a compression suffix.
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let (_, extension) = without_compression(&name).rsplit_once('.')?;
        match extension {
            "jsonl" | "ndjson" | "json" => Some(Self::Jsonl),
            "tsv" | "tab" => Some(Self::Tsv),
            "csv" => Some(Self::Csv),
            "parquet" => Some(Self::Parquet),
            "trec" | "sgml" | "sgm" => Some(Self::Trec),
            "txt" | "md" => Some(Self::Tree),
            "words" => Some(Self::Words),
            _ => None,
        }
    }
}

impl Format {
    /// Describes what a document is in a file of this format, for messages.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Jsonl | Self::Tsv => "one document per line",
            Self::Csv | Self::Parquet => "one document per row",
            Self::Trec => "one document per <DOC>",
            Self::Tree => "one document per file",
            Self::Words => "documents between blank lines",
        }
    }
}

/// Returns a file name without `.gz` or `.zst`.
pub(crate) fn without_compression(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, suffix))
            if !stem.is_empty()
                && (suffix.eq_ignore_ascii_case("gz") || suffix.eq_ignore_ascii_case("zst")) =>
        {
            stem
        }
        _ => name,
    }
}

impl FromStr for Format {
    type Err = TextError;

    fn from_str(name: &str) -> Result<Self, TextError> {
        let at = Self::NAMES.iter().position(|known| *known == name);
        at.map(|at| Self::ALL[at]).ok_or_else(|| TextError::UnknownFormatName {
            name: name.to_owned(),
            formats: Self::NAMES,
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Jsonl => "jsonl",
            Self::Tsv => "tsv",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Trec => "trec",
            Self::Tree => "tree",
            Self::Words => "words",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
        }
        let error = "xml".parse::<Format>().unwrap_err().to_string();
        assert_eq!(
            error,
            "no format named \"xml\"; the formats are jsonl, tsv, csv, parquet, trec, tree, words"
        );
    }

    #[test]
    fn a_name_tells_the_format() {
        for (name, format) in [
            ("a.jsonl", Some(Format::Jsonl)),
            ("a.b/c.NDJSON.gz", Some(Format::Jsonl)),
            ("c.json.zst", Some(Format::Jsonl)),
            ("c.tsv", Some(Format::Tsv)),
            ("c.sgm", Some(Format::Trec)),
            ("c.words.gz", Some(Format::Words)),
            ("README.md", Some(Format::Tree)),
            ("c.csv.gz", Some(Format::Csv)),
            ("c.parquet", Some(Format::Parquet)),
            ("c.xml", None),
            ("plain", None),
            (".gz", None),
        ] {
            assert_eq!(Format::of_name(Path::new(name)), format, "{name}");
        }
    }
}
