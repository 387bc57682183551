//! `warpseek dictionary lookup`: looks up words, or lists the words with a prefix.

use std::io::{BufRead, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use warpseek::vocabulary::Dictionary;
use warpseek_console::Failure;
use warpseek_console::terminal::{counted, note};

use crate::report::text::printable;

/// Look up words, or list the words with a prefix
///
/// Prints a line with each word and its id, or `unknown`. With --prefix, prints a line for each
/// word with the prefix, up to --limit.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek dictionary lookup docs.dictionary apple pie
  warpseek dictionary lookup docs.dictionary --prefix app --limit 20
  warpseek dictionary lookup docs.dictionary --json < words.txt     one word per line")]
pub(super) struct Options {
    /// File of the dictionary
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Words to look up [default: the lines of standard input]
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// List the words that start with each WORD
    #[arg(long)]
    prefix: bool,
    /// Maximum number of words to list per prefix
    #[arg(long, value_name = "N", default_value_t = 10, requires = "prefix")]
    limit: usize,
    /// Print a line of JSON for each WORD
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let dictionary = Dictionary::open(&options.file)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut print = |word: &[u8]| match options.prefix {
        true => options.list(&dictionary, word, &mut out),
        false => options.look_up(&dictionary, word, &mut out),
    };
    if options.words.is_empty() {
        let (mut input, mut line) = (std::io::stdin().lock(), Vec::new());
        while input.read_until(b'\n', &mut line)? > 0 {
            let word = line.strip_suffix(b"\n").unwrap_or(&line);
            print(word.strip_suffix(b"\r").unwrap_or(word))?;
            line.clear();
        }
    }
    for word in &options.words {
        print(word.as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

impl Options {
    fn look_up(
        &self,
        dictionary: &Dictionary,
        word: &[u8],
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let (id, word) = (dictionary.look_up(word), String::from_utf8_lossy(word));
        if self.json {
            writeln!(out, "{}", json!({ "word": word, "id": id }))?;
        } else {
            let id = id.map_or("unknown".to_owned(), |id| id.to_string());
            writeln!(out, "{}\t{id}", printable(&word))?;
        }
        Ok(())
    }

    fn list(
        &self,
        dictionary: &Dictionary,
        prefix: &[u8],
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let ids = dictionary.prefix(prefix);
        let word = |id: u32| dictionary.word(id).unwrap_or_default();
        let words = ids.clone().take(self.limit).map(|id| (id, word(id)));
        if self.json {
            let words: Vec<_> = words
                .map(|(id, word)| json!({ "word": String::from_utf8_lossy(&word), "id": id }))
                .collect();
            let prefix = String::from_utf8_lossy(prefix);
            writeln!(out, "{}", json!({ "prefix": prefix, "count": ids.len(), "words": words }))?;
            return Ok(());
        }
        for (id, word) in words {
            writeln!(out, "{}\t{id}", printable(&String::from_utf8_lossy(&word)))?;
        }
        if ids.len() > self.limit {
            let more = counted((ids.len() - self.limit) as u64, "more word");
            note(format!("{more}; `--limit` shows more"));
        }
        Ok(())
    }
}
