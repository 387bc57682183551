//! The list of nodes: given addresses, or a file with addresses that is read repeatedly.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::error::ClusterError;

/// Time limit for reading the file. A network disk may hang, and the aggregator keeps calling
/// nodes with the previous list until the file is read.
const READ: Duration = Duration::from_millis(100);

/// Parses a list of node addresses: one per line; lines that begin with `#` are comments.
pub fn addresses(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// Parses a setting that names nodes: addresses separated by commas, or the path of a file that
/// lists them.
pub fn nodes(text: &str) -> (Vec<String>, Option<PathBuf>) {
    let file = PathBuf::from(text);
    // Addresses have a port after a colon.
    match text.contains(':') && !file.exists() {
        true => (addresses(&text.replace(',', "\n")), None),
        false => (Vec::new(), Some(file)),
    }
}

/// Reads the addresses in a file.
pub(crate) fn read(file: &Path) -> Result<Vec<String>, ClusterError> {
    let text = std::fs::read_to_string(file);
    let named = |error: std::io::Error| {
        let name = file.display();
        ClusterError::Setup(match error.kind() {
            ErrorKind::NotFound => format!(
                "{name}: no such file of nodes; if this is the address of a node, add its port, such as {name}:9300"
            ),
            _ => format!("{name}: {error}"),
        })
    };
    Ok(addresses(&text.map_err(named)?))
}

/// Reads a file on a thread that may block.
#[derive(Default)]
pub(crate) struct Reader(Option<JoinHandle<Result<Vec<String>, ClusterError>>>);

impl Reader {
    /// Returns the addresses that are in the file now. If reading takes too long, it returns an
    /// error, and the next call waits for the same attempt.
    pub(crate) async fn read(&mut self, file: &Path) -> Result<Vec<String>, ClusterError> {
        let begin = || {
            let file = file.to_owned();
            tokio::task::spawn_blocking(move || read(&file))
        };
        let attempt = self.0.get_or_insert_with(begin);
        let done = tokio::time::timeout(READ, attempt).await.map_err(|_| {
            ClusterError::Setup(format!(
                "{}: the file was not read within {READ:?}",
                file.display()
            ))
        })?;
        self.0 = None;
        done.unwrap_or_else(|error| Err(ClusterError::Setup(error.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::runtime;

    #[test]
    fn addresses_are_told_from_files() {
        let (found, file) = nodes("host1:9300, host2:9300");
        assert_eq!((found, file), (vec!["host1:9300".into(), "host2:9300".into()], None));
        assert_eq!(nodes("nodes.txt").1, Some("nodes.txt".into()));
        let error = read(Path::new("host1")).unwrap_err().to_string();
        assert!(error.contains("host1:9300"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_cannot_be_read_soon_is_waited_for_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("nodes");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let runtime = runtime().unwrap();
        let mut reader = Reader::default();
        for _ in 0..2 {
            let error = runtime.block_on(reader.read(&pipe)).unwrap_err().to_string();
            assert!(error.contains("not read within"), "{error}");
        }
        // One thread has opened the pipe and reads what is written now.
        std::fs::write(&pipe, "host1:9300\n").unwrap();
        let found = loop {
            if let Ok(found) = runtime.block_on(reader.read(&pipe)) {
                break found;
            }
        };
        assert_eq!(found, ["host1:9300"]);
    }
}
