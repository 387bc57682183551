//! Files of Apache Parquet. A row becomes a line of JSON: groups become objects, lists arrays,
//! and dates text.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ::parquet::data_type::Decimal;
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::reader::RowIter;
use ::parquet::record::{Field, Row};
use serde_json::{Map, Value};

use super::batch::RawBatch;
use super::columns::Columns;
use super::config::ReaderConfig;
use super::input::Input;
use crate::TextError;
use crate::date::format_date;

const DAY: i64 = 24 * 60 * 60 * 1000;

/// The state of cutting a file into rows.
#[derive(Default)]
pub(super) struct Cutter {
    rows: Option<RowIter<'static>>,
}

impl Cutter {
    /// Appends the next row as a line of JSON.
    pub(super) fn cut(
        &mut self,
        input: &mut Input,
        batch: &mut RawBatch,
        config: &ReaderConfig,
    ) -> Result<bool, TextError> {
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => self.rows.insert(begin(input, config)?),
        };
        let Some(row) = guarded(input, || rows.next().transpose())? else { return Ok(false) };
        let start = batch.bytes.len();
        // A value always has a JSON form, and writing to a vector cannot fail.
        let columns = input.source.columns.get();
        let is_number = |name: &str| columns.is_some_and(|columns| columns.wants_numbers(name));
        let written = serde_json::to_writer(&mut batch.bytes, &row_object(&row, is_number));
        debug_assert!(written.is_ok());
        let end = batch.bytes.len();
        input.line += 1;
        if end - start > input.limits.line {
            return Err(input.too_long(Some(input.line)));
        }
        let line = input.line;
        batch.push(input, start, end, Some(line));
        Ok(true)
    }
}

fn begin(input: &Input, config: &ReaderConfig) -> Result<RowIter<'static>, TextError> {
    let is_file = input.source.size.is_some();
    let Some(path) = input.source.path.as_ref().filter(|_| is_file) else {
        let reason = "Parquet is read from its end, so it must be a file; save the data first";
        let path = input.source.error_path();
        return Err(TextError::BadTable { path, reason: reason.to_owned() });
    };
    let file = File::open(path).map_err(|source| TextError::Io { path: path.clone(), source })?;
    let reader = guarded(input, || SerializedFileReader::new(file))?;
    let schema = reader.metadata().file_metadata().schema();
    let names = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
    let columns = Columns::new(names, config).map_err(|reason| input.source.bad_table(reason))?;
    // Only this thread sets the columns.
    _ = input.source.columns.set(columns.noticed(&input.source.name, config, false));
    Ok(reader.into_iter())
}

/// Calls the Parquet reader. That reader does not expect hostile files and may panic on one; such
/// a file counts as damaged, too.
fn guarded<T>(
    input: &Input,
    read: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, TextError> {
    let read = catch_unwind(AssertUnwindSafe(read));
    let damaged =
        |reason| TextError::CorruptCompression { path: input.source.error_path(), reason };
    match read {
        Ok(read) => read.map_err(|error| damaged(error.to_string())),
        Err(_) => Err(damaged("its parts contradict each other".to_owned())),
    }
}

/// Converts a row to an object without nulls. Decimals become text, which preserves all digits,
/// unless a schema wants numbers.
fn row_object(row: &Row, is_number: impl Fn(&str) -> bool) -> Map<String, Value> {
    let value = |name: &str, field: &Field| match field {
        Field::Decimal(number) if is_number(name) => as_number(decimal(number)),
        field => value(field),
    };
    let fields = row.get_column_iter().map(|(name, field)| (name.clone(), value(name, field)));
    fields.filter(|(_, value)| !value.is_null()).collect()
}

/// Converts a group inside a row.
fn object(row: &Row) -> Map<String, Value> {
    let fields = row.get_column_iter().map(|(name, field)| (name.clone(), value(field)));
    fields.filter(|(_, value)| !value.is_null()).collect()
}

/// Converts a decimal number to the nearest number that an attribute can have.
fn as_number(digits: String) -> Value {
    match (digits.parse::<i64>(), digits.parse::<f64>()) {
        (Ok(whole), _) => whole.into(),
        (_, Ok(number)) => number.into(),
        _ => digits.into(),
    }
}

fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::Byte(number) => (*number).into(),
        Field::Short(number) => (*number).into(),
        Field::Int(number) => (*number).into(),
        Field::Long(number) => (*number).into(),
        Field::UByte(number) => (*number).into(),
        Field::UShort(number) => (*number).into(),
        Field::UInt(number) => (*number).into(),
        Field::ULong(number) => (*number).into(),
        Field::Float16(number) => f32::from(*number).into(),
        Field::Float(number) => (*number).into(),
        Field::Double(number) => (*number).into(),
        Field::Decimal(number) => decimal(number).into(),
        Field::Str(text) => text.as_str().into(),
        // Some writers do not declare strings as such.
        Field::Bytes(bytes) => str::from_utf8(bytes.data()).map_or(Value::Null, Value::from),
        Field::Date(days) => format_date(i64::from(*days) * DAY).into(),
        Field::TimeMillis(time) => (*time).into(),
        Field::TimeMicros(time) => (*time).into(),
        Field::TimestampMillis(time) => format_date(*time).into(),
        Field::TimestampMicros(time) => format_date(time.div_euclid(1000)).into(),
        Field::Group(row) => Value::Object(object(row)),
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        Field::MapInternal(map) => {
            let entry = |(key, item): &(Field, Field)| {
                let key = match value(key) {
                    Value::String(key) => key,
                    other => other.to_string(),
                };
                (key, value(item))
            };
            Value::Object(map.entries().iter().map(entry).collect())
        }
    }
}

/// Converts a decimal number to text, since JSON has no such numbers.
fn decimal(number: &Decimal) -> String {
    let mut digits: i128 = 0;
    let bytes = number.data();
    if bytes.first().is_some_and(|first| first & 0x80 != 0) {
        digits = -1;
    }
    // The last sixteen bytes hold the 38 digits that Parquet's writers use.
    for &byte in &bytes[bytes.len().saturating_sub(16)..] {
        digits = digits << 8 | i128::from(byte);
    }
    let scale = usize::try_from(number.scale()).unwrap_or(0);
    let sign = if digits < 0 { "-" } else { "" };
    let mut text = format!("{:0>width$}", digits.unsigned_abs(), width = scale + 1);
    if scale > 0 {
        text.insert(text.len() - scale, '.');
    }
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use ::parquet::basic::{Compression, ZstdLevel};
    use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
    use ::parquet::file::properties::WriterProperties;
    use ::parquet::file::writer::SerializedFileWriter;
    use ::parquet::schema::parser::parse_message_type;

    use crate::{FieldNames, Format, Reader, ReaderConfig, TextError};

    const SCHEMA: &str = "message documents {
        required binary docno (UTF8);
        optional binary body (UTF8);
        required binary raw;
        required int32 day (DATE);
        required int64 at (TIMESTAMP_MILLIS);
        required int32 price (DECIMAL(9,2));
        optional group meta { optional double score; }
    }";

    /// Writes two documents, the second without a body and a score.
    fn write(path: &Path, compression: Compression) {
        let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
        let properties = WriterProperties::builder().set_compression(compression).build();
        let file = std::fs::File::create(path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
        let mut rows = writer.next_row_group().unwrap();
        let bytes = |text: &[u8]| ByteArray::from(text.to_vec());
        let mut number = 0;
        while let Some(mut column) = rows.next_column().unwrap() {
            match number {
                0 => {
                    let values = [bytes(b"a"), bytes(b"b")];
                    column.typed::<ByteArrayType>().write_batch(&values, None, None)
                }
                1 => {
                    let values = [bytes("ü apple".as_bytes())];
                    column.typed::<ByteArrayType>().write_batch(&values, Some(&[1, 0]), None)
                }
                2 => {
                    let values = [bytes(b"text"), bytes(b"\xff")];
                    column.typed::<ByteArrayType>().write_batch(&values, None, None)
                }
                3 => column.typed::<Int32Type>().write_batch(&[1, 0], None, None),
                4 => column.typed::<Int64Type>().write_batch(&[1500, -1], None, None),
                5 => column.typed::<Int32Type>().write_batch(&[-1999, 5], None, None),
                _ => column.typed::<DoubleType>().write_batch(&[0.5], Some(&[2, 1]), None),
            }
            .unwrap();
            column.close().unwrap();
            number += 1;
        }
        rows.close().unwrap();
        writer.close().unwrap();
    }

    fn lines(path: PathBuf, fields: FieldNames) -> Result<Vec<String>, TextError> {
        let config = ReaderConfig { fields, batch_records: 1, ..ReaderConfig::default() };
        let mut reader = Reader::open(&[path], config)?;
        let mut lines = Vec::new();
        while let Some(batch) = reader.next_batch()? {
            for i in 0..batch.len() {
                let mut out = Vec::new();
                batch.record(i).unwrap().write_json(&mut out);
                lines.push(String::from_utf8(out).unwrap());
            }
        }
        Ok(lines)
    }

    #[test]
    fn rows_become_documents() {
        let dir = tempfile::tempdir().unwrap();
        let zstd = Compression::ZSTD(ZstdLevel::try_new(3).unwrap());
        for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd] {
            let path = dir.path().join("docs.parquet");
            write(&path, compression);
            let found = lines(path, FieldNames::default()).unwrap();
            assert_eq!(
                found,
                [
                    r#"{"id":"a","text":"ü apple","at":"1970-01-01T00:00:01.500Z","day":"1970-01-02T00:00:00.000Z","meta":{"score":0.5},"price":"-19.99","raw":"text"}"#,
                    r#"{"id":"b","text":"","at":"1969-12-31T23:59:59.999Z","day":"1970-01-01T00:00:00.000Z","meta":{},"price":"0.05"}"#,
                ]
            );
        }
    }

    #[test]
    fn what_is_no_parquet_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("docs.parquet");
        write(&path, Compression::SNAPPY);
        let named = FieldNames { text: vec!["bdy".to_owned()], ..FieldNames::default() };
        let error = lines(path.clone(), named).unwrap_err().to_string();
        assert!(error.contains("did you mean `body`?"), "{error}");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let error = lines(path, FieldNames::default()).unwrap_err();
        assert!(matches!(error, TextError::CorruptCompression { .. }), "{error}");
        let config = ReaderConfig { format: Some(Format::Parquet), ..ReaderConfig::default() };
        let error = Reader::open(&["-".into()], config).err().unwrap();
        assert!(error.to_string().contains("must be a file"), "{error}");
    }
}
