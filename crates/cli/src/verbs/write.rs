//! Single writes from standard input. One thread reads lines, so that Ctrl-C need not wait for the next one; one makes the writes, in order; one waits until they are durable and says so.

mod operation;

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use warpseek::{Durability, Error, Index, IndexError, LiveIndex, LiveOptions, WriteTicket};
use warpseek_console::options::{Threads, parse_bytes};
use warpseek_console::terminal::{count, counted, note, summary};
use warpseek_console::{Failure, Interrupt};

use operation::Operation;

/// Lines that are read ahead, and writes that wait for their acknowledgement.
const LINES: usize = 1 << 10;
const WRITES: usize = 1 << 16;
/// How long Ctrl-C goes unnoticed.
const PATIENCE: Duration = Duration::from_millis(50);

/// Write single documents, durably, as they come
///
/// Reads operations from standard input, one JSON object per line, and makes them in this order:
///
///   {"put": DOCUMENT}     adds a document, or replaces the one with the same id
///   {"create": DOCUMENT}  adds a document, unless there is one with its id
///   {"update": FIELDS}    changes these fields of the document with the `id` in FIELDS; null removes a field
///   {"delete": "ID"}      deletes a document
///
/// As soon as a write is durable, `SEQUENCE ID` is printed. An operation that changes nothing prints `- ID exists` or `- ID missing`.
/// `search` and other readers see writes when they are brought into the index: at the end, when there are many, and as often as --refresh asks.
/// After a crash, every write that was printed is there. The first bad line ends the command; the writes before it are kept.
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
    /// What is to have happened to a write before it is printed: `synced`: it is on stable storage; `written`: the operating system has it; a number: it is written, and synced this many milliseconds
    /// later
    #[arg(long, value_name = "WHEN", default_value = "synced", value_parser = durability)]
    durability: Durability,
    /// How often other processes get to see the writes, in seconds [default: at the end, and when there are many]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    refresh: Option<Duration>,
    /// Memory for writes that are not on disk as a segment, such as 500M or 4G
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_bytes)]
    memory: usize,
    /// Print a line of JSON for each operation
    #[arg(long)]
    json: bool,
    /// Do not print what was written, nor a summary
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

/// What became of an operation.
enum Outcome {
    Written(WriteTicket),
    /// A document was to be created, and there is one.
    Exists,
    /// A document was to be changed or deleted, and there is none.
    Missing,
}

/// An operation that was made.
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
        note(format!("a flush or merge in the background failed and was made up for: {error}"));
    }
    let counts = match (acknowledged, closed) {
        (acknowledged, Ok(())) => acknowledged?,
        // What broke first says more.
        (Err(failure), Err(_)) => return Err(failure),
        (Ok(_), Err(error)) => return Err(error.into()),
    };
    if !options.quiet {
        let of = match counts.unchanged {
            0 => String::new(),
            n => format!(", {} that changed nothing", counted(n, "operation")),
        };
        let took = start.elapsed().as_secs_f64();
        summary(format!("{}{of} in {took:.1} s", counted(counts.written, "write")));
    }
    read?;
    if interrupt.is_set() {
        return Err(Failure::interrupted("interrupted; everything acknowledged is kept"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The lines of standard input.
fn lines() -> Result<Receiver<std::io::Result<Vec<u8>>>, Failure> {
    let (send, lines) = sync_channel(LINES);
    // It may wait for input for ever, so nobody waits for it.
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

/// Makes the writes of all lines, until there is an error or Ctrl-C.
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
            let kept =
                if number > 1 { "; the lines before it were taken and are kept" } else { "" };
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
            // Whoever acknowledges has failed, and says why.
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

/// Prints what was made, as soon as it is durable.
fn acknowledge(made: Receiver<Made>, options: &Options) -> Result<Counts, Failure> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut counts = Counts::default();
    loop {
        let next = match made.try_recv() {
            Ok(next) => next,
            Err(_) => {
                // Nobody should wait for a line that is in a buffer.
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
