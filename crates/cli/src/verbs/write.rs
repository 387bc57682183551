//! `warpseek write`: single writes from standard input. One thread reads lines, so that Ctrl-C need
//! not wait for the next one; a second applies the writes in order; a third waits until they are
//! durable and acknowledges them.

mod operation;

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use warpseek::index::{Durability, IndexError, WriteTicket};
use warpseek::{Error, Index, LiveIndex, LiveOptions};
use warpseek_console::options::{Threads, parse_bytes};
use warpseek_console::terminal::{count, counted, note, summary};
use warpseek_console::{Failure, Interrupt};

use operation::Operation;

/// Maximum number of lines that are read ahead.
const LINES: usize = 1 << 10;
/// Maximum number of writes that wait for their acknowledgement.
const WRITES: usize = 1 << 16;
/// Interval at which the command checks for Ctrl-C while it waits for input.
const PATIENCE: Duration = Duration::from_millis(50);

/// Write single documents durably
///
/// Reads operations from standard input, one JSON object per line, and applies them in order:
///
///   {"put": DOCUMENT}     adds a document, or replaces the one with the same id
///   {"create": DOCUMENT}  adds a document unless its id exists
///   {"update": FIELDS}    changes fields of the document with the `id` in FIELDS; null removes one
///   {"delete": "ID"}      deletes a document
///
/// As soon as a write is durable, the command prints `SEQUENCE ID`. An operation that changes
/// nothing prints `- ID exists` or `- ID missing`. Printed writes survive a crash. The first
/// invalid line ends the command; the writes before it are kept.
///
/// `search` and other readers see writes once they are flushed to the index: at the end, when there
/// are many, and at the interval of --refresh.
#[derive(Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "\
Examples:
  warpseek write idx --json < operations.jsonl > acknowledged.jsonl
  echo '{\"put\": {\"id\": \"doc17\", \"text\": \"a new text\"}}' | warpseek write idx
  tail -f changes.jsonl | warpseek write idx --refresh 1 --durability 100")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    /// State of a write that is printed: `synced` to stable storage; `written` to the operating
    /// system; or a number, written and synced within this many milliseconds
    #[arg(long, value_name = "WHEN", default_value = "synced", value_parser = durability)]
    durability: Durability,
    /// Interval in seconds at which writes become visible to other processes [default: only at the
    /// end and when there are many]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    refresh: Option<Duration>,
    /// Memory for writes that no segment has yet, e.g. 500M or 4G
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_bytes)]
    memory: usize,
    /// Print a line of JSON for each operation
    #[arg(long)]
    json: bool,
    /// Do not print writes or a summary
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    threads: Threads,
}

fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "synced" => Ok(Durability::Synced),
        "written" => Ok(Durability::Written),
        text => match text.parse() {
            Ok(ms @ 1..=3_600_000) => Ok(Durability::Every(Duration::from_millis(ms))),
            _ => Err("use `synced`, `written`, or milliseconds from 1 to 3600000".into()),
        },
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|s| (0.01..=86_400.0).contains(s));
    let refused = || "use a number of seconds from 0.01 to 86400".to_owned();
    seconds.map(Duration::from_secs_f64).ok_or_else(refused)
}

/// The outcome of an operation.
enum Outcome {
    /// The write was accepted and becomes durable.
    Written(WriteTicket),
    /// The document to create exists already.
    Exists,
    /// The document to change or delete does not exist.
    Missing,
}

/// An applied operation.
struct Made {
    what: &'static str,
    id: String,
    outcome: Outcome,
}

#[derive(Default)]
struct Counts {
    written: u64,
    unchanged: u64,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let settings = LiveOptions::new()
        .durability(options.durability)
        .threads(options.threads.get())
        .memory(options.memory);
    let live = Index::at(&options.index).live(settings)?;
    let interrupt = Interrupt::listen(None)?;
    let start = Instant::now();
    let lines = lines()?;
    let (send, made) = sync_channel(WRITES);
    let (read, acknowledged) = std::thread::scope(|scope| {
        let acknowledging = scope.spawn(|| acknowledge(made, options));
        let read = write_all(&live, &lines, &send, options, &interrupt);
        drop(send);
        let panicked = |_| Err(Failure::broken("the thread that acknowledges writes has panicked"));
        (read, acknowledging.join().unwrap_or_else(panicked))
    });
    let trouble = live.trouble();
    let closed = live.close();
    if let Some(error) = trouble.filter(|_| closed.is_ok()) {
        note(format!("a background flush or merge failed and was retried successfully: {error}"));
    }
    let counts = match (acknowledged, closed) {
        (acknowledged, Ok(())) => acknowledged?,
        // The first failure is the more specific one.
        (Err(failure), Err(_)) => return Err(failure),
        (Ok(_), Err(error)) => return Err(error.into()),
    };
    if !options.quiet {
        let unchanged = match counts.unchanged {
            0 => String::new(),
            n => format!(", {} that changed nothing", counted(n, "operation")),
        };
        let took = start.elapsed().as_secs_f64();
        summary(format!("{}{unchanged} in {took:.1} s", counted(counts.written, "write")));
    }
    read?;
    if interrupt.is_set() {
        return Err(Failure::interrupted("interrupted; everything acknowledged is kept"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts a thread that reads the lines of standard input.
fn lines() -> Result<Receiver<std::io::Result<Vec<u8>>>, Failure> {
    let (send, lines) = sync_channel(LINES);
    // The thread is not joined, because it may wait for input forever.
    let read = move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = input.read_until(b'\n', &mut line);
            let is_end = !matches!(read, Ok(1..));
            if matches!(read, Ok(0)) || send.send(read.map(|_| line)).is_err() || is_end {
                return;
            }
        }
    };
    std::thread::Builder::new().name("warpseek-stdin".into()).spawn(read)?;
    Ok(lines)
}

/// Applies the operations of all lines until there is an error or Ctrl-C.
fn write_all(
    live: &LiveIndex,
    lines: &Receiver<std::io::Result<Vec<u8>>>,
    made: &SyncSender<Made>,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let (mut number, mut flushed) = (0, Instant::now());
    loop {
        if interrupt.is_set() {
            return Ok(());
        }
        if options.refresh.is_some_and(|period| flushed.elapsed() >= period) {
            live.flush()?;
            flushed = Instant::now();
        }
        let line = match lines.recv_timeout(PATIENCE.min(options.refresh.unwrap_or(PATIENCE))) {
            Ok(line) => line.map_err(|e| Failure::broken(format!("standard input: {e}")))?,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        number += 1;
        let bad = |what: &dyn std::fmt::Display| {
            let kept = if number > 1 { "; the writes of the lines before it are kept" } else { "" };
            Failure::user(format!("standard input, line {}: {what}{kept}", count(number)))
        };
        let text = std::str::from_utf8(&line).map_err(|e| bad(&e))?;
        if text.trim().is_empty() {
            continue;
        }
        let operation = Operation::parse(text).map_err(|what| bad(&what))?;
        let outcome = match make(live, &operation) {
            Ok(outcome) => outcome,
            Err(Error::Index(
                error @ (IndexError::Refused { .. } | IndexError::TooManyDocuments),
            )) => {
                return Err(bad(&error));
            }
            Err(error) => return Err(error.into()),
        };
        let done = Made { what: operation.name(), id: operation.id(), outcome };
        if made.send(done).is_err() {
            // The acknowledging thread has failed and reports the reason.
            return Ok(());
        }
    }
}

fn make(live: &LiveIndex, operation: &Operation<'_>) -> Result<Outcome, Error> {
    let or_missing =
        |ticket: Option<WriteTicket>| ticket.map_or(Outcome::Missing, Outcome::Written);
    match operation {
        Operation::Put { document, .. } => live.put_json(document).map(Outcome::Written),
        Operation::Create { document, .. } => match live.create_json(document) {
            Err(Error::Index(IndexError::Conflict { .. })) => Ok(Outcome::Exists),
            created => created.map(Outcome::Written),
        },
        Operation::Update { id, patch } => live.update(id, patch).map(or_missing),
        Operation::Delete { id } => live.delete(id).map(or_missing),
    }
}

/// Prints each operation as soon as it is durable.
fn acknowledge(made: Receiver<Made>, options: &Options) -> Result<Counts, Failure> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut counts = Counts::default();
    loop {
        let next = match made.try_recv() {
            Ok(next) => next,
            Err(_) => {
                // Readers of the output must not wait for a line that is in the buffer.
                out.flush()?;
                let Ok(next) = made.recv() else { return Ok(counts) };
                next
            }
        };
        let (id, what) = (&next.id, next.what);
        let (sequence, result) = match next.outcome {
            Outcome::Written(ticket) => {
                let sequence = ticket.sequence();
                if !ticket.is_done() {
                    out.flush()?;
                }
                ticket.wait()?;
                counts.written += 1;
                (Some(sequence), "written")
            }
            Outcome::Exists => (None, "exists"),
            Outcome::Missing => (None, "missing"),
        };
        counts.unchanged += u64::from(sequence.is_none());
        match sequence {
            _ if options.quiet => {}
            _ if options.json => {
                let line = json!({
                    "sequence": sequence, "operation": what, "id": id, "result": result,
                });
                writeln!(out, "{line}")?;
            }
            Some(sequence) => writeln!(out, "{sequence} {id}")?,
            None => writeln!(out, "- {id} {result}")?,
        }
    }
}
