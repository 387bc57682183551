//! The contents and sizes of an index on disk, as text and as JSON.

use std::io::Write;

use serde_json::{Value, json};
use warpseek::inspect::Inspection;
use warpseek::options::Impacts;
use warpseek::text::GramConfig;
use warpseek_console::Failure;
use warpseek_console::terminal::{Theme, bytes, count, table};

/// Returns the contents and sizes as JSON.
pub(crate) fn as_json(found: &Inspection) -> Result<Value, Failure> {
    let mut report = serde_json::to_value(found)?;
    report["bytes"] = json!(found.sizes.total());
    report["searchable_bytes"] = json!(found.sizes.searchable());
    if found.manifest.grams.is_some() {
        report["bytes_per_entry"] = json!({
            "documents": found.bits_per_doc / 8.0,
            "maps": found.bits_per_freq / 8.0,
            "lists": bytes_per_entry(found),
            "raw": RAW_ENTRY,
        });
    }
    Ok(report)
}

/// Bytes of an uncompressed entry of a list of n-grams: a document and a map of 32 segments.
const RAW_ENTRY: u64 = 8;

/// Returns the bytes per entry of the lists of n-grams, including the data for skipping.
fn bytes_per_entry(found: &Inspection) -> f64 {
    let lists = found.sizes.payload + found.sizes.skips_and_bounds;
    lists as f64 / found.postings.max(1) as f64
}

/// Returns the first rows for an index of n-grams.
fn gram_rows(found: &Inspection, grams: &GramConfig) -> Vec<(&'static str, String)> {
    let manifest = &found.manifest;
    let each = |bits: f64| format!("{:.2}", bits / 8.0);
    vec![
        ("documents", count(found.documents)),
        ("deleted", count(found.deleted)),
        ("words", count(found.tokens)),
        // An n-gram has a list in each index segment in which it occurs.
        ("lists", count(found.terms)),
        ("entries of lists", count(found.postings)),
        ("index segments", manifest.segments.len().to_string()),
        ("generation", manifest.generation.to_string()),
        ("unit", grams.unit.to_string()),
        ("n", grams.n.to_string()),
        ("words in a segment", format!("{} or more", grams.segment_words)),
        ("long documents in parts", if grams.parts { "yes" } else { "no" }.to_owned()),
        ("codec", manifest.codec.to_string()),
        ("bytes per entry", format!("{:.2} (raw: {RAW_ENTRY})", bytes_per_entry(found))),
        ("  documents", each(found.bits_per_doc)),
        ("  maps", each(found.bits_per_freq)),
    ]
}

/// Returns the first rows for an index of words or vectors.
fn word_rows(found: &Inspection) -> Vec<(&'static str, String)> {
    let manifest = &found.manifest;
    let segments = match found.reordered.len() {
        0 => manifest.segments.len().to_string(),
        n => format!("{}, {n} of them reordered", manifest.segments.len()),
    };
    let (frequency, ranking) = match &manifest.impacts {
        Some(Impacts { k1, b, .. }) => (
            "bits per impact",
            format!("bm25 with k1 {k1} and b {b}, quantized to 8 bits: approximate"),
        ),
        None => ("bits per frequency", String::new()),
    };
    let analyzer = match &manifest.schema {
        Some(_) => "of each field".to_owned(),
        None => format!("{} v{}", manifest.analyzer, manifest.analyzer_version),
    };
    let mut rows = vec![
        ("documents", count(found.documents)),
        ("deleted", count(found.deleted)),
        ("tokens", count(found.tokens)),
        ("terms", count(found.terms)),
        ("postings", count(found.postings)),
        ("segments", segments),
        ("generation", manifest.generation.to_string()),
        ("analyzer", analyzer),
        ("codec", manifest.codec.to_string()),
        ("bits per docID", format!("{:.2}", found.bits_per_doc)),
        (frequency, format!("{:.2}", found.bits_per_freq)),
    ];
    rows.extend(manifest.impacts.map(|_| ("ranking", ranking)));
    if manifest.has_positions() {
        let schema = manifest.schema.iter();
        let fields = schema.flat_map(|schema| schema.text()).filter(|field| field.positions);
        let fields: Vec<&str> = fields.map(|field| field.name.as_str()).collect();
        let words = if fields.is_empty() { "of all words".to_owned() } else { fields.join(", ") };
        rows.push(("positions", words));
    }
    rows.extend(manifest.norms.then(|| ("norms", "stored, for cosine".to_owned())));
    let log = "single writes that no segment has yet; the next writer adds them";
    rows.extend(manifest.log.map(|_| ("log", log.to_owned())));
    rows
}

/// Prints the contents and sizes as tables.
pub(crate) fn print(found: &Inspection, out: &mut impl Write) -> std::io::Result<()> {
    let theme = Theme::stdout();
    let (head, parts) = match &found.manifest.grams {
        Some(grams) => (gram_rows(found, grams), ["n-grams", "documents and maps", "lengths"]),
        None => {
            let parts = ["dictionary", "documents and frequencies", "tables of documents"];
            (word_rows(found), parts)
        }
    };
    let head: Vec<_> = head.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    table(&head, out)?;
    print_fields(found, out)?;

    writeln!(out, "\n{}", theme.paint(theme.strong, "sizes"))?;
    let s = &found.sizes;
    let total = s.total();
    let size = |name: &str, n: u64| {
        vec![name.to_owned(), bytes(n), format!("{:.1}%", 100.0 * n as f64 / total.max(1) as f64)]
    };
    let mut sizes = vec![
        size(parts[0], s.dictionary),
        size(parts[1], s.payload),
        size("skips and bounds", s.skips_and_bounds),
        size(parts[2], s.documents),
        size("ids", s.ids),
        size("store", s.store),
        size("deletions", s.deletes),
        size("all", total),
        size("all but ids and store", s.searchable()),
    ];
    if found.manifest.has_positions() {
        sizes.insert(4, size("positions", s.positions));
        sizes.pop();
        sizes.push(size("all but positions, ids and store", s.searchable()));
    }
    if found.manifest.schema.is_some() {
        sizes.insert(4, size("attributes", s.attributes));
        sizes.pop();
        let positions = if found.manifest.has_positions() { "positions, " } else { "" };
        let rest = format!("all but attributes, {positions}ids and store");
        sizes.push(size(&rest, s.searchable()));
    }
    table(&sizes, out)?;

    writeln!(out, "\n{}", theme.paint(theme.strong, "lists by length"))?;
    let mut rows =
        vec![["postings in list", "lists", "postings", "share"].map(String::from).to_vec()];
    for (i, &(lists, postings)) in found.histogram.iter().enumerate() {
        let (from, to) = (1u64 << i, (2u64 << i) - 1);
        let range = if i == 0 { "1".to_owned() } else { format!("{}-{}", count(from), count(to)) };
        let share = format!("{:.1}%", 100.0 * postings as f64 / found.postings.max(1) as f64);
        rows.push(vec![range, count(lists), count(postings), share]);
    }
    table(&rows, out)
}

/// Prints the text fields and attributes of an index with a schema.
fn print_fields(found: &Inspection, out: &mut impl Write) -> std::io::Result<()> {
    let (theme, Some(schema)) = (Theme::stdout(), &found.manifest.schema) else { return Ok(()) };
    writeln!(out, "\n{}", theme.paint(theme.strong, "text fields"))?;
    let head = ["name", "analyzer", "k1", "b", "documents", "tokens", "terms", "postings"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for (field, found) in schema.text().iter().zip(&found.fields) {
        let settings = [field.name.clone(), field.analyzer.clone(), field.k1.to_string()];
        let counts = [found.documents, found.tokens, found.terms, found.postings].map(count);
        rows.push([&settings[..], &[field.b.to_string()], &counts].concat());
    }
    table(&rows, out)?;
    if found.attributes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", theme.paint(theme.strong, "attributes"))?;
    let mut rows = vec![["name", "type", "documents", "values", "size"].map(String::from).to_vec()];
    for field in &found.attributes {
        let values = field.values.map_or("-".to_owned(), count);
        let (name, kind) = (field.name.clone(), field.kind.name().to_owned());
        rows.push(vec![name, kind, count(field.documents), values, bytes(field.bytes)]);
    }
    table(&rows, out)
}
