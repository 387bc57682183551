//! Transfers of large objects in parts, several of which are in progress at once.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path as FilePath;

use futures_util::{StreamExt, stream};
use object_store::{Error, ObjectStoreExt, PutPayload, WriteMultipart};

use crate::error::{Result, StoreError};
use crate::store::Store;

/// Number of bytes of a part.
const PART_BYTES: usize = 8 << 20;
/// Maximum number of parts of a file in transfer at once.
const PARTS_AT_ONCE: usize = 4;

impl Store {
    /// Uploads a file, which appears in the store when it is complete, and returns its size.
    ///
    /// `on_part` receives each part after it was passed on, in order, for checksums and progress.
    /// If it fails, the upload ends with its error.
    pub async fn upload<E: From<StoreError>>(
        &self,
        file: &FilePath,
        object: &str,
        mut on_part: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut from = File::open(file).map_err(StoreError::io(file))?;
        let to = self.at(object);
        let (mut part, mut bytes) = (vec![0; PART_BYTES], 0);
        let mut parts: Option<WriteMultipart> = None;
        loop {
            let read = read_full(&mut from, &mut part).map_err(StoreError::io(file))?;
            bytes += read as u64;
            match &mut parts {
                None if read < PART_BYTES => {
                    let payload = PutPayload::from(part[..read].to_vec());
                    let put = self.objects.put(&to, payload).await;
                    put.map_err(StoreError::failed(object))?;
                }
                None => {
                    let upload = self.objects.put_multipart(&to).await;
                    let upload = upload.map_err(StoreError::failed(object))?;
                    parts.insert(WriteMultipart::new(upload)).write(&part);
                }
                Some(parts) => {
                    let ready = parts.wait_for_capacity(PARTS_AT_ONCE).await;
                    ready.map_err(StoreError::failed(object))?;
                    parts.write(&part[..read]);
                }
            }
            on_part(&part[..read])?;
            if read < PART_BYTES {
                break;
            }
        }
        if let Some(parts) = parts {
            parts.finish().await.map_err(StoreError::failed(object))?;
        }
        Ok(bytes)
    }

    /// Reads a range of an object and passes its parts to `on_part` in order. A part that is
    /// shorter than the others and not the last one means that the object ends there; nothing
    /// follows it. An object that does not exist is [`StoreError::Missing`].
    pub async fn read<E: From<StoreError>>(
        &self,
        object: &str,
        range: Range<u64>,
        mut on_part: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let from = self.at(object);
        let starts = range.clone().step_by(PART_BYTES);
        let parts = stream::iter(starts).map(|start| {
            let (objects, from) = (self.objects.clone(), from.clone());
            let end = range.end.min(start + PART_BYTES as u64);
            async move { (end - start, objects.get_range(&from, start..end).await) }
        });
        let mut parts = parts.buffered(PARTS_AT_ONCE);
        while let Some((requested, part)) = parts.next().await {
            let part = match part {
                Err(Error::NotFound { .. }) => {
                    return Err(StoreError::Missing { object: object.to_owned() }.into());
                }
                part => part.map_err(StoreError::failed(object))?,
            };
            on_part(&part)?;
            if (part.len() as u64) < requested {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Fills the buffer, unless the file ends earlier.
fn read_full(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
