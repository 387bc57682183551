//! CSV: rows of cells with separators between them, as in RFC 4180. Cells that contain
//! separators, quotes or line ends are quoted.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::batch::RawBatch;
use super::columns::Columns;
use super::config::ReaderConfig;
use super::input::Input;
use crate::{RecordErrorKind, TextError};

/// Possible separators. The one that is most frequent in the first line counts; without any, a
/// comma.
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Maximum number of bytes of the first line that are searched for separators.
const HEADER: usize = 1 << 16;

/// Maximum number of cells in a row. Even empty cells take memory.
const MAX_CELLS: usize = 1 << 16;

/// The state of cutting a file into rows, the first of which names the columns.
#[derive(Default)]
pub(super) struct Cutter {
    csv: Option<Box<Reader>>,
    /// Contents of the current row's cells.
    cells: Vec<u8>,
    /// End of each cell of the current row.
    ends: Vec<usize>,
}

/// A row of the file.
struct Row {
    line: u64,
    cells: usize,
    /// True if a quote is still open at its end.
    unclosed: bool,
}

impl Cutter {
    /// Appends the next row as a line of JSON.
    pub(super) fn cut(
        &mut self,
        input: &mut Input,
        batch: &mut RawBatch,
        config: &ReaderConfig,
    ) -> Result<bool, TextError> {
        if self.csv.is_none() && !self.begin(input, config)? {
            return Ok(false);
        }
        let Some(row) = self.next(input)? else { return Ok(false) };
        let start = batch.bytes.len();
        let written = match (row.unclosed, input.source.columns.get()) {
            (true, _) => Err(RecordErrorKind::UnclosedQuote),
            (false, Some(columns)) => columns.write_row(self.row(row.cells), &mut batch.bytes),
            (false, None) => Ok(()),
        };
        match written {
            Ok(()) => {
                let end = batch.bytes.len();
                batch.push(input, start, end, Some(row.line));
            }
            Err(fault) => {
                batch.bytes.truncate(start);
                batch.push_fault(input, Some(row.line), fault);
            }
        }
        Ok(true)
    }

    /// Reads the names of the columns. Returns false if the file is empty.
    fn begin(&mut self, input: &mut Input, config: &ReaderConfig) -> Result<bool, TextError> {
        skip_blank_lines(input)?;
        let separator = separator(&input.first_line(HEADER)?);
        self.csv = Some(Box::new(ReaderBuilder::new().delimiter(separator).build()));
        (self.cells, self.ends) = (vec![0; 1 << 12], vec![0; 64]);
        let Some(row) = self.next(input)? else { return Ok(false) };
        let names = self.row(row.cells).map(|cell| String::from_utf8(cell.to_vec()));
        let Ok(names) = names.collect::<Result<Vec<String>, _>>() else {
            return Err(input
                .source
                .bad_table("the first line is not UTF-8; convert the file to UTF-8"));
        };
        let columns =
            Columns::new(names, config).map_err(|reason| input.source.bad_table(reason))?;
        // Only this thread sets the columns.
        _ = input.source.columns.set(columns.noticed(&input.source.name, config, false));
        Ok(true)
    }

    fn row(&self, cells: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..cells).map(|i| {
            let start = if i == 0 { 0 } else { self.ends[i - 1] };
            &self.cells[start..self.ends[i]]
        })
    }

    fn next(&mut self, input: &mut Input) -> Result<Option<Row>, TextError> {
        skip_blank_lines(input)?;
        let Some(csv) = &mut self.csv else { return Ok(None) };
        let (line, limit) = (input.line + 1, input.limits.line);
        let (mut bytes, mut cells, mut length) = (0, 0, 0);
        let (mut is_ended, mut unclosed) = (false, false);
        loop {
            let buffer = input.peek()?;
            // After the last byte of the file, add a line end, which ends the row unless a quote
            // is open.
            let ends = buffer.is_empty() && !is_ended;
            let given = if ends { b"\n" } else { buffer };
            let (result, used, written, ended) =
                csv.read_record(given, &mut self.cells[bytes..], &mut self.ends[cells..]);
            if ends {
                (is_ended, unclosed) = (used > 0, written > 0);
            } else {
                let lines = memchr::memchr_iter(b'\n', &buffer[..used]).count() as u64;
                input.consume(used);
                input.line += lines;
                length += used;
            }
            bytes += written;
            cells += ended;
            if length > limit {
                return Err(input.too_long(Some(line)));
            }
            if cells > MAX_CELLS {
                let reason = format!("line {line} has more than {MAX_CELLS} cells");
                return Err(input.source.bad_table(reason));
            }
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.cells.resize(2 * self.cells.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                ReadRecordResult::End => return Ok(None),
                ReadRecordResult::Record => {
                    return Ok(Some(Row { line, cells, unclosed }));
                }
            }
        }
    }
}

/// Skips empty lines, so that a row gets the number of its first line.
fn skip_blank_lines(input: &mut Input) -> Result<(), TextError> {
    loop {
        let (used, lines) = match input.peek()? {
            [b'\n', ..] => (1, 1),
            [b'\r', ..] => (1, 0),
            _ => return Ok(()),
        };
        input.consume(used);
        input.line += lines;
    }
}

fn separator(start: &[u8]) -> u8 {
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let count = |separator: u8| memchr::memchr_iter(separator, line).count();
    // Of several equally frequent separators, the first one counts.
    SEPARATORS.into_iter().rev().max_by_key(|&separator| count(separator)).unwrap_or(b',')
}

#[cfg(test)]
mod tests {
    use crate::reader::testing::{errors, ids, read, try_read};
    use crate::{FieldNames, Format, ReaderConfig, RecordErrorKind, Schema, TextError};

    fn fields(bytes: &[u8]) -> Vec<(String, String, String)> {
        let read = read(Format::Csv, bytes).into_iter().map(Result::unwrap);
        read.map(|d| (d.id.into_owned(), d.title.into_owned(), d.text.into_owned())).collect()
    }

    fn own(row: [&str; 3]) -> (String, String, String) {
        let [id, title, text] = row.map(str::to_owned);
        (id, title, text)
    }

    #[test]
    fn rows_with_quotes_and_line_ends() {
        let found = fields(
            b"\xef\xbb\xbfid,title,text,year\r\n\r\n7,\"A, B\",\"say \"\"x\"\"\nsecond\",1999\n08,,plain,\n",
        );
        assert_eq!(found, [own(["7", "A, B", "say \"x\"\nsecond"]), own(["08", "", "plain"])]);
        assert_eq!(fields(b"id;text\n1;a, b"), [own(["1", "", "a, b"])]);
        assert_eq!(fields(b"docno|Body\n1|12"), [own(["1", "", "12"])]);
        assert_eq!(fields(b"document_id;title;text\n1;a, b;c"), [own(["1", "a, b", "c"])]);
        assert_eq!(fields(b"\xef\xbb\xbfdocid;text\n1;a, b\n"), [own(["1", "", "a, b"])]);
        // A quote inside a cell is an ordinary character.
        assert_eq!(fields(b"id,text\n1,6\" nails"), [own(["1", "", "6\" nails"])]);
        assert!(fields(b"id,text\n").is_empty() && fields(b"").is_empty());
    }

    #[test]
    fn long_rows_need_several_buffers() {
        let (text, columns) = ("x".repeat(300_000), 200);
        let names: Vec<String> = (0..columns).map(|i| format!("c{i}")).collect();
        let cells: Vec<String> = (0..columns).map(|i| i.to_string()).collect();
        let bytes = format!(
            "id,text,{}\n1,\"{text}\",{}\n2,y,{}\n",
            names.join(","),
            cells.join(","),
            cells.join(",")
        );
        let found = fields(bytes.as_bytes());
        assert_eq!(found, [own(["1", "", &text]), own(["2", "", "y"])]);
        let config = ReaderConfig { max_record: 10_000, ..ReaderConfig::default() };
        let error = try_read(config, Format::Csv, bytes.as_bytes()).unwrap_err();
        let TextError::RecordTooLong { location, .. } = error else { panic!("{error}") };
        assert_eq!(location.line(), Some(2));
    }

    #[test]
    fn bad_rows_are_located_and_leave_the_rest() {
        let read = read(
            Format::Csv,
            b"id,text\n1,a\n2\n\n3,\"b\nc\"\n4,\xff\n5,x,y\n6,d\n7,\"open\n8,e\n",
        );
        assert_eq!(ids(&read), ["1", "3", "6"]);
        assert_eq!(
            errors(&read),
            [
                (3, RecordErrorKind::Cells { found: 1, expected: 2 }),
                (7, RecordErrorKind::InvalidUtf8 { offset: 2 }),
                (8, RecordErrorKind::Cells { found: 3, expected: 2 }),
                (10, RecordErrorKind::UnclosedQuote),
            ]
        );
    }

    #[test]
    fn a_quote_that_is_not_closed_is_a_fault_wherever_the_file_ends() {
        for end in ["\"open", "\"open\n", "\"", "\"say \"\"x", "\"say \"\"x\"\""] {
            let read = read(Format::Csv, format!("id,text\n1,abc\n2,{end}").as_bytes());
            assert_eq!(ids(&read), ["1"], "{end}");
            assert_eq!(errors(&read), [(3, RecordErrorKind::UnclosedQuote)], "{end}");
        }
        assert_eq!(ids(&read(Format::Csv, b"id,text\n1,\"closed\"")), ["1"]);
        assert_eq!(ids(&read(Format::Csv, b"id,text\n1,\"closed\"\n")), ["1"]);
    }

    #[test]
    fn cells_without_content_are_counted() {
        let read = |bytes: &[u8]| try_read(ReaderConfig::default(), Format::Csv, bytes);
        let row = format!("id,text\n1,{}\n", ",".repeat(65_600));
        let error = read(row.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("line 2 has more than 65536 cells"), "{error}");
        assert!(read(",".repeat(65_600).as_bytes()).is_err());
        assert_eq!(
            read(format!("id,text\n1,{}\n", ",".repeat(60_000)).as_bytes()).unwrap().len(),
            1
        );
    }

    #[test]
    fn columns_must_have_ids_and_text() {
        let error = |bytes: &[u8], fields: FieldNames| {
            let config = ReaderConfig { fields, ..ReaderConfig::default() };
            try_read(config, Format::Csv, bytes).unwrap_err().to_string()
        };
        let none = FieldNames::default;
        let seen = error(b"key,text\n1,a\n", none());
        assert!(
            seen.contains("no column `id`; the columns are key, text")
                && seen.contains("--id-field"),
            "{seen}"
        );
        let seen = error(b"id,words\n1,a\n", none());
        assert!(seen.contains("no column `text`") && seen.contains("--text-field"), "{seen}");
        let seen = error(b"id,body\n", FieldNames { text: vec!["bdy".to_owned()], ..none() });
        assert!(
            seen.contains("no column `bdy`") && seen.contains("did you mean `body`?"),
            "{seen}"
        );
        assert!(error(b"id,a,a\n", none()).contains("two columns are called `a`"));
    }

    #[test]
    fn cells_have_the_types_that_a_schema_wants() {
        let schema = Schema::parse(
            r#"{"text": [{"name": "t"}], "attributes": [{"name": "year", "type": "integer"},
                {"name": "zip", "type": "keyword"}, {"name": "at", "type": "date"}]}"#,
        );
        let config =
            ReaderConfig { schema: Some(schema.unwrap().into()), ..ReaderConfig::default() };
        let same = config.clone();
        let bytes = b"id,t,year,zip,at\n1,1984,1999,12345,2020-01-01\n2,x,many,1,\n";
        let read = try_read(config, Format::Csv, bytes).unwrap();
        let number = b"id,t\n12e34,x\n1.50,y\ntrue,z\n99999999999999999999,u\n";
        assert_eq!(
            ids(&try_read(same, Format::Csv, number).unwrap()),
            ["12e34", "1.50", "true", "99999999999999999999"]
        );
        let first = read[0].as_ref().unwrap();
        assert_eq!((first.fields[0].1.as_ref(), first.attributes.len()), ("1984", 3));
        assert!(
            matches!(&errors(&read)[..], [(3, RecordErrorKind::BadField { field, .. })] if field == "year")
        );
    }
}
