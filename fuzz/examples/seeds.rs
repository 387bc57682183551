//! Writes seeds for all targets to `corpus/`. It builds small indexes and extracts the bodies of
//! their files.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use warpseek_codec::CodecId;
use warpseek_dictionary::Dictionary;
use warpseek_index::container::{Kind, SealedFile, SealedWriter};
use warpseek_index::log::{Durability, Log, Operation};
use warpseek_index::{
    AttributeValue, AttributesWriter, BuildConfig, Progress, Snapshot, StoreMode, add, create,
    delete,
};
use warpseek_text::{GramConfig, ReaderConfig, Schema};

/// Maximum length of a seed. libFuzzer would truncate longer seeds.
const MAX_LEN: usize = 65_536;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result {
    let corpus = Path::new("corpus");
    for (name, documents, vectors) in
        [("empty", 0, false), ("few", 5, false), ("many", 700, false), ("vectors", 300, true)]
    {
        let lines: String = (0..documents).map(|i| line(i, vectors)).collect();
        index(corpus, name, &lines, documents)?;
        lists(corpus, &lines)?;
        if !vectors {
            map_lists(corpus, &lines)?;
        }
        if documents < 100 {
            texts(corpus, name, lines.as_bytes())?;
        }
    }
    texts(corpus, "vector", line(1, true).as_bytes())?;
    let deep = ["[".repeat(200), "]".repeat(200)].concat();
    let odd = format!(
        r#"{{"id":1,"x":1e999}} {{"id":2,"x":"\ud800"}} {{"id":3,"x":{deep}}} {{"id":4,"score":1e300}}"#
    );
    dictionaries(corpus)?;
    index_with_schema(corpus)?;
    chains_and_schemas(corpus)?;
    syntax(corpus)?;
    requests(corpus)?;
    hosts(corpus)?;
    parquet_files(corpus)?;
    let fields = r#"{"id":1,"title":"Café","text":["a","b"],"tags":["x",7],"year":2020,"price":1.5,"open":true,"meta":{"text":"c","day":"2020-01-31T10:15:30+01:00","z":1},"y":{}}"#;
    texts(corpus, "fields", fields.as_bytes())?;
    columns(corpus)?;
    logs(corpus)?;
    texts(corpus, "odd", odd.replace(' ', "\n").as_bytes())?;
    let trec = "<DOC>\n<DOCNO> A-1 </DOCNO>\n<FILEID>x</FILEID>\n<HEAD>A &amp; b</HEAD>\n<TEXT>\nOne &lt;two&gt; \
                <!-- no --> three\n</TEXT>\n</DOC>\njunk\n<doc id=2><docno>b</docno><title>t</title>y</doc>\n<DOC>\nlost";
    texts(corpus, "trec", trec.as_bytes())?;
    texts(corpus, "tsv", "1\tsome text\r\n\n2\tTitle\tmore\ttabs\nno tab\n3\t".as_bytes())?;
    let csv = "id,title,text,score,year\r\n1,\"A, \"\"b\"\"\",\"two\nlines\",0.5,1999\r\n\r\n2,,c,,\n3,x\n4;t,u,v,w,x\n5,\"open";
    texts(corpus, "csv", csv.as_bytes())?;
    let topics = "<top>\n<num> Number: 051\n<title> Topic: A &amp; b\n\n<desc> Description:\nWho?\n<narr> Narrative: Long.\n</top>\n<top><num>52<title>c</top>";
    texts(corpus, "topics", topics.as_bytes())?;
    let topics = "<?xml version=\"1.0\"?>\n<topics>\n<topic number=\"1\"><query>a</query>\n<question>why?</question></topic>\n<topic number='2'>b</topic></topics>";
    texts(corpus, "topics-xml", topics.as_bytes())?;
    let queries = "query_id\ttext\nq1\tapple pie\nalone\n{\"_id\":\"a\",\"text\":\"b\"}\n{\"id\":7,\"vector\":{\"c\":1.5}}\n{\"d\":2}";
    texts(corpus, "queries", queries.as_bytes())?;
    texts(corpus, "words", "\u{feff}a\nb\r\nc\r\n\r\n \n\nd\n\ne".as_bytes())?;
    let scripts = "It's the cats' naïve 3.14 e-mail, İstanbul ’tis 東京は大きい都市です किमपि 👩‍👩‍👧 e\u{301}a ﬁre Ⅷ x_y a.b:c";
    texts(corpus, "scripts", scripts.as_bytes())?;
    texts(corpus, "weights", "apple^2.5 pie^1e3 a^b ^2 x^nan".as_bytes())?;
    texts(corpus, "map", r###"{"##s": 0.5, "Big": 2, "x": 0}"###.as_bytes())
}

/// Writes queries with every part of the syntax.
fn syntax(corpus: &Path) -> Result {
    let queries = [
        "t:rust^2 +memory -unsafe i:>=2020 k:(a \"b c\")",
        "k:ab* d:[2020-01-31 TO *] f:{-1.5 TO 1e3] b:true _id:(1 2)",
        "(a (b t:(c -d)))^1.5 \\+x u:* *",
    ];
    for (i, query) in queries.iter().enumerate() {
        seed(corpus, "query_syntax", &format!("syntax{i}"), query.as_bytes())?;
    }
    Ok(())
}

/// Writes requests to the server.
fn requests(corpus: &Path) -> Result {
    let bodies = [
        r#"{"query":{"bool":{"must":[{"match":{"t":"a b"}}],"filter":{"range":{"n":{"gte":1}}},"must_not":{"term":{"k":"x"}}}},"size":3,"sort":[{"n":"desc"}],"aggs":{"a":{"terms":{"field":"k"}}}}"#,
        r#"{"query":{"multi_match":{"query":"a","fields":["t^2","o.*"],"tie_breaker":0.5}},"highlight":{"fields":{"*":{}}},"_source":["t*"]}"#,
        r#"{"query":{"query_string":{"query":"t:(a OR -b) n:[1 TO *} \"c d\"~2^3"}},"search_after":[1],"sort":"n"}"#,
        r#"{"mappings":{"dynamic_templates":[{"x":{"match":"*_t","mapping":{"type":"text"}}}],"properties":{"a":{"type":"keyword"}}},"settings":{"analysis":{}}}"#,
        r#"{"t":"text","n":"7","d":"2020-01-31","o":{"t":["a",1]},"new":{"x":[{"y":null}]}}"#,
    ];
    for (i, body) in bodies.iter().enumerate() {
        seed(corpus, "request_body", &format!("body{i}"), body.as_bytes())?;
        let lines = format!(
            "{{\"index\":{{\"_id\":{i}}}}}\n{body}\n{{\"delete\":{{\"_id\":\"a\"}}}}\n{{}}\n{body}\n"
        );
        seed(corpus, "request_lines", &format!("lines{i}"), lines.as_bytes())?;
    }
    let options = "q=t:a+%22b%22&df=t&default_operator=and&size=3&sort=n:desc,_score&_source=t&timeout=1d&scroll=1m";
    seed(corpus, "request_options", "options", options.as_bytes())
}

/// Writes hosts and origins.
fn hosts(corpus: &Path) -> Result {
    let texts = [
        "LocalHost.:80",
        "127.0.0.1:9200",
        "[::1]:9200",
        "[::ffff:127.0.0.1]",
        "a-b_c.example:",
        "localhost:80@evil.example",
        "https://example.org:443",
    ];
    for (i, text) in texts.iter().enumerate() {
        seed(corpus, "host", &format!("host{i}"), text.as_bytes())?;
    }
    Ok(())
}

/// Writes Parquet files with two documents. The second lacks a text and a number in a group.
fn parquet_files(corpus: &Path) -> Result {
    let message = "message documents {
        required binary id (UTF8);
        optional binary text (UTF8);
        required int64 year;
        optional group meta { optional double score; }
    }";
    let zstd = Compression::ZSTD(ZstdLevel::try_new(3)?);
    let compressions =
        [("plain", Compression::UNCOMPRESSED), ("snappy", Compression::SNAPPY), ("zstd", zstd)];
    for (name, compression) in compressions {
        let schema = Arc::new(parse_message_type(message)?);
        let properties = WriterProperties::builder().set_compression(compression).build();
        let mut file = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut file, schema, Arc::new(properties))?;
        let mut rows = writer.next_row_group()?;
        let mut number = 0;
        while let Some(mut column) = rows.next_column()? {
            match number {
                0 => {
                    let ids = [ByteArray::from("a"), ByteArray::from("b")];
                    column.typed::<ByteArrayType>().write_batch(&ids, None, None)?
                }
                1 => {
                    let texts = [ByteArray::from("an apple")];
                    column.typed::<ByteArrayType>().write_batch(&texts, Some(&[1, 0]), None)?
                }
                2 => column.typed::<Int64Type>().write_batch(&[1999, 2020], None, None)?,
                _ => column.typed::<DoubleType>().write_batch(&[0.5], Some(&[2, 1]), None)?,
            };
            column.close()?;
            number += 1;
        }
        rows.close()?;
        writer.close()?;
        for flags in [0, 1, 2, 4, 6] {
            let name = format!("{name}-{flags}");
            seed(corpus, "reader_parquet", &name, &[&[flags], &file[..]].concat())?;
        }
    }
    Ok(())
}

/// Writes chains with a text, and schemas.
fn chains_and_schemas(corpus: &Path) -> Result {
    let text = "It's the cats' naïve Straße 3.14 İstanbul 東京タワー ｶﾞｲﾄﾞ 한국어 e\u{301}a ﬁre";
    for (name, chain) in [
        ("english", r#"{"stop":"english","stem":"english"}"#),
        ("folded", r#"{"tokens":"whitespace","lower":false,"fold":true,"stop":["a","für"]}"#),
        ("keyword", r#"{"tokens":"keyword","fold":true}"#),
        ("cjk", r#"{"tokens":"cjk_bigrams","stem":"turkish"}"#),
        ("grams", r#"{"tokens":{"grams":{"least":2,"most":3,"edge":false}},"fold":true}"#),
    ] {
        seed(corpus, "chain", name, format!("{chain}\n{text}").as_bytes())?;
        let schema = format!(
            r#"{{"analyzers":{{"own":{chain}}},"text":[{{"name":"t","analyzer":"own","k1":1.2,"b":0.75}},{{"name":"u","source":"a.b"}}],
            "attributes":[{{"name":"k","type":"keyword","many":true}},{{"name":"d","source":"a.d","type":"date"}}],"unknown":"refuse"}}"#
        );
        seed(corpus, "schema", name, schema.as_bytes())?;
    }
    Ok(())
}

/// Writes the files of an index with a schema.
fn index_with_schema(corpus: &Path) -> Result {
    let home = tempfile::tempdir()?;
    let (input, dir) = (home.path().join("input.jsonl"), home.path().join("index"));
    let lines = (0..90).map(|i| {
        let (title, text) = ("a title ".repeat(i % 5), "some text ".repeat(i % 40));
        format!("{{\"id\":{i},\"title\":\"{title}\",\"text\":\"{text}\",\"year\":{}}}\n", i * i)
    });
    fs::write(&input, lines.collect::<String>())?;
    let schema = r#"{"text":[{"name":"title"},{"name":"text"},{"name":"none"}],"attributes":[{"name":"year","type":"integer"}]}"#;
    let reader =
        ReaderConfig { schema: Some(Arc::new(Schema::parse(schema)?)), ..ReaderConfig::default() };
    let config = BuildConfig { threads: 1, memory: 64 << 20, reader, ..BuildConfig::default() };
    create(&dir, &[input], &config, false, &Progress::default())?;
    delete(&dir, &["3".to_owned(), "50".to_owned()], 1, &Progress::default())?;
    files(corpus, "fields", &dir)
}

/// Writes dictionaries of words. Their buckets are small, so that there are nodes.
fn dictionaries(corpus: &Path) -> Result {
    let words: Vec<String> = (0..900u32).map(|i| format!("{:x}", i * i)).collect();
    for (name, words, bucket_words) in
        [("empty", &words[..0], 32), ("few", &words[..9], 1), ("many", &words[..], 8)]
    {
        let dictionary = Dictionary::build_with(words, bucket_words)?;
        seed(corpus, "words", name, &dictionary.to_bytes())?;
    }
    Ok(())
}

/// Writes columns of every kind: some with values for all documents, some with gaps.
fn columns(corpus: &Path) -> Result {
    let home = tempfile::tempdir()?;
    for documents in [0u16, 1, 70, 5000] {
        let mut writer = AttributesWriter::default();
        for doc in 0..i64::from(documents) {
            let word = |n: i64| AttributeValue::Keyword(format!("w{:x}", doc * doc % n).into());
            let mut values = vec![(0, word(40)), (1, AttributeValue::Integer(doc * 1000))];
            values.extend((doc % 3 == 0).then(|| (0, word(7))));
            values.extend((doc % 5 != 0).then(|| (2, word(900))));
            values.extend((doc % 7 != 0).then(|| (3, AttributeValue::Float(doc as f64 / -8.0))));
            values.extend((doc % 2 != 0).then(|| (4, AttributeValue::Boolean(doc % 4 == 1))));
            values.push((9, AttributeValue::Date(doc % 30 * 86_400_000)));
            writer.push(&values)?;
        }
        let path = home.path().join(documents.to_string());
        writer.write(None, SealedWriter::create(&path, Kind::Attributes)?)?;
        let file = SealedFile::open(&path, Kind::Attributes)?;
        let bytes = [&documents.to_le_bytes()[..], file.all()?].concat();
        seed(corpus, "attributes", &documents.to_string(), &bytes)?;
    }
    Ok(())
}

/// Writes the records of a log, with parameters that truncate the log or change one byte of it.
fn logs(corpus: &Path) -> Result {
    let home = tempfile::tempdir()?;
    let path = home.path().join("000001.log");
    drop(Log::create(&path, 0, Durability::Written)?);
    let log = Log::open(&path, 0, Durability::Written, |_| Ok(()))?;
    for i in 0..9 {
        let id = format!("doc-{}", i % 4);
        log.append(Operation::Put { id: &id, document: line(i, false).as_bytes() })?.wait()?;
        log.append(Operation::Delete { id: &id })?.wait()?;
    }
    log.close()?;
    let file = fs::read(&path)?;
    let mut records = Vec::new();
    let mut left = &file[24..];
    while let Some((prefix, rest)) = left.split_first_chunk::<12>() {
        let len = u16::from_le_bytes([prefix[0], prefix[1]]);
        let (record, later) = rest.split_at(len.into());
        records.extend(len.to_le_bytes());
        records.extend(record);
        left = later;
    }
    for (name, change) in [("cut", [200, 1, 0, 0]), ("changed", [100, 0, 0, 8])] {
        seed(corpus, "log", name, &[&change, &records[..]].concat())?;
    }
    Ok(())
}

/// Returns one document as a line of JSON.
fn line(i: usize, vectors: bool) -> String {
    let word = |n: usize| format!("w{}", (i * 7919 + n * n * 31) % (13 + n * n));
    if vectors {
        let weights: Vec<_> =
            (0..9).map(|n| format!("\"t{n}{}\": {}.5", i % (n + 1), n + 1)).collect();
        return format!("{{\"id\": \"v{i}\", \"vector\": {{{}}}}}\n", weights.join(", "));
    }
    let text: Vec<_> = (0..5 + i % 40).map(word).collect();
    let text = text.join(" ").repeat(1 + i % 3);
    format!(
        "{{\"id\": \"doc-{i}\", \"title\": \"T {}\", \"text\": \"the {text}\", \"score\": {}}}\n",
        i % 9,
        i % 4
    )
}

/// Writes the files of an index of these lines, before and after deletions.
fn index(corpus: &Path, name: &str, lines: &str, documents: usize) -> Result {
    let home = tempfile::tempdir()?;
    let (input, dir) = (home.path().join("input.jsonl"), home.path().join("index"));
    fs::write(&input, lines)?;
    let reader = ReaderConfig { static_field: Some("score".into()), ..ReaderConfig::default() };
    let mut config = BuildConfig { threads: 1, memory: 64 << 20, reader, ..BuildConfig::default() };
    create(&dir, std::slice::from_ref(&input), &config, false, &Progress::default())?;
    files(corpus, name, &dir)?;
    let gone: Vec<_> = (0..documents).step_by(3).map(|i| format!("doc-{i}")).collect();
    delete(&dir, &gone, 1, &Progress::default())?;
    config.reader.order_field = Some("text".into());
    fs::write(&input, lines.lines().take(3).map(|l| format!("{l}\n")).collect::<String>())?;
    add(&dir, std::slice::from_ref(&input), &config, &Progress::default())?;
    files(corpus, &format!("{name}-later"), &dir)?;
    // Vectors have no positions.
    let positions = !lines.contains("\"vector\"");
    let config = BuildConfig { store: StoreMode::Ids, positions, ..config };
    create(&dir, &[input], &config, true, &Progress::default())?;
    files(corpus, &format!("{name}-ids"), &dir)
}

/// Writes lists in every codec.
fn lists(corpus: &Path, lines: &str) -> Result {
    for (number, codec) in CodecId::ALL.into_iter().enumerate() {
        let home = tempfile::tempdir()?;
        let (input, dir) = (home.path().join("input.jsonl"), home.path().join("index"));
        fs::write(&input, lines)?;
        let config = BuildConfig {
            codec: Some(codec),
            threads: 1,
            memory: 64 << 20,
            ..BuildConfig::default()
        };
        create(&dir, &[input], &config, false, &Progress::default())?;
        for segment in Snapshot::open(&dir)?.segments() {
            let docs = segment.documents().count();
            let mut terms = segment.dictionary().iter();
            while let Some(info) = terms.next_term()? {
                if info.ordinal.is_multiple_of(16) || info.df > 100 {
                    let numbers = [info.df.to_le_bytes(), docs.to_le_bytes()].concat();
                    let list = segment.postings_file().bytes(info.offset, info.len)?;
                    let bytes = [&[number as u8], &numbers[..], list].concat();
                    seed(corpus, "postings", &format!("{codec}-{docs}-{}", info.ordinal), &bytes)?;
                }
            }
        }
    }
    Ok(())
}

/// Writes lists with maps in every codec.
fn map_lists(corpus: &Path, lines: &str) -> Result {
    for (number, codec) in CodecId::ALL.into_iter().enumerate() {
        let home = tempfile::tempdir()?;
        let (input, dir) = (home.path().join("input.jsonl"), home.path().join("index"));
        fs::write(&input, lines)?;
        let grams = Some(GramConfig::default());
        let config = BuildConfig {
            codec: Some(codec),
            grams,
            threads: 1,
            memory: 64 << 20,
            ..BuildConfig::default()
        };
        create(&dir, &[input], &config, false, &Progress::default())?;
        files(corpus, "grams", &dir)?;
        for segment in Snapshot::open(&dir)?.segments() {
            let docs = segment.parts().count() as u16;
            let mut terms = segment.dictionary().iter();
            while let Some(info) = terms.next_term()? {
                if info.ordinal.is_multiple_of(32) || info.df > 200 {
                    let (df, docs_bytes) = (info.df.to_le_bytes(), docs.to_le_bytes());
                    let list = segment.postings_file().bytes(info.offset, info.len)?;
                    let segments = segment.parts().all_segments(0);
                    let bytes =
                        [&[number as u8], &df[..], &docs_bytes[..], segments, list].concat();
                    seed(corpus, "map_list", &format!("{codec}-{docs}-{}", info.ordinal), &bytes)?;
                }
            }
        }
    }
    Ok(())
}

fn files(corpus: &Path, name: &str, dir: &Path) -> Result {
    let snapshot = Snapshot::open(dir)?;
    let manifest = dir.join("manifest");
    seed(corpus, "container", name, &fs::read(&manifest)?)?;
    let body = SealedFile::open(&manifest, Kind::Manifest)?.all()?.to_vec();
    seed(corpus, "manifest", name, &body)?;
    for (i, forged) in with_limits(&String::from_utf8(body)?).into_iter().enumerate() {
        seed(corpus, "manifest", &format!("{name}-limit-{i}"), forged.as_bytes())?;
    }
    for (entry, segment) in snapshot.manifest().segments.iter().zip(snapshot.segments()) {
        let name = &format!("{name}-{}", segment.number());
        let (docs, terms) = (segment.documents().count(), segment.dictionary().terms());
        let whole = |target, file: &SealedFile| seed(corpus, target, name, file.all()?);
        whole("dictionary", segment.dictionary().file())?;
        whole("documents", segment.documents().file())?;
        whole("ids", segment.ids().file())?;
        segment.store().map_or(Ok(()), |store| whole("store", store.file()))?;
        for (kind, file) in segment.files() {
            let (documents, fields) = (docs as u16, segment.text_fields() as u8 - 1);
            let head = [&documents.to_le_bytes()[..], &[fields]].concat();
            match kind {
                Kind::Lengths => seed(corpus, "lengths", name, &[&head, file.all()?].concat())?,
                Kind::Attributes => {
                    seed(corpus, "attributes", name, &[&head[..2], file.all()?].concat())?;
                }
                Kind::Positions => {
                    let terms = (terms as u16).to_le_bytes();
                    let head = [&terms[..], &[130, 0, 2, 0]].concat();
                    seed(corpus, "positions", name, &[&head, file.all()?].concat())?;
                }
                _ => {}
            }
        }
        seed(corpus, "container", &format!("{name}-ids"), &fs::read(segment.ids().file().path())?)?;
        if let Some(deletes) = &entry.deletes {
            let path = dir.join(format!("{:06}.{}.del", segment.number(), deletes.generation));
            let mut bytes = [docs.to_le_bytes(), terms.to_le_bytes()].concat();
            bytes.extend(SealedFile::open(&path, Kind::Deletes)?.all()?);
            seed(corpus, "deletes", name, &bytes)?;
        }
    }
    Ok(())
}

/// Returns copies of the text, in each of which one number is replaced by a limit.
fn with_limits(text: &str) -> Vec<String> {
    let (mut forged, mut end) = (Vec::new(), 0);
    while let Some(start) = text[end..].find(|c: char| c.is_ascii_digit()).map(|at| end + at) {
        let rest = &text[start..];
        end = start + rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        // Digits inside words are parts of checksums.
        if text[..start].ends_with(": ") {
            let limits = [0, u64::from(u32::MAX), u64::MAX];
            forged.extend(limits.map(|n| format!("{}{n}{}", &text[..start], &text[end..])));
        }
    }
    forged
}

/// Writes plain and compressed text for all targets that read text.
fn texts(corpus: &Path, name: &str, text: &[u8]) -> Result {
    seed(corpus, "query", name, text)?;
    seed(corpus, "query_syntax", name, text)?;
    seed(corpus, "analysis", name, &[&[40], text].concat())?;
    seed(corpus, "normalize", name, &[&[1, 130], text].concat())?;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text)?;
    let forms =
        [("plain", text.to_vec()), ("gzip", gzip.finish()?), ("zstd", zstd::encode_all(text, 3)?)];
    for (form, bytes) in forms {
        for flags in [0, 1, 2, 3, 31] {
            seed(
                corpus,
                "queries",
                &format!("{name}-{form}-{flags}"),
                &[&[flags], &bytes[..]].concat(),
            )?;
        }
        for format in ["jsonl", "tsv", "csv", "trec", "words", "tree"] {
            let target = format!("reader_{format}");
            for flags in [0, 1, 2, 4, 6] {
                let name = format!("{name}-{form}-{flags}");
                seed(corpus, &target, &name, &[&[flags], &bytes[..]].concat())?;
            }
        }
    }
    Ok(())
}

fn seed(corpus: &Path, target: &str, name: &str, bytes: &[u8]) -> Result {
    let dir = corpus.join(target);
    fs::create_dir_all(&dir)?;
    if bytes.len() <= MAX_LEN {
        fs::write(dir.join(name), bytes)?;
    }
    Ok(())
}
