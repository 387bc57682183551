//! Addresses of stores: URLs, and paths of folders.

use std::ffi::OsString;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use url::Url;

use crate::error::{Result, StoreError};

/// An open store, the path of its root in the bucket, and its folder if it is one.
type Opened = (Arc<dyn ObjectStore>, Path, Option<PathBuf>);

/// Opens the store with a URL or the path of a folder. Creates a folder only with `create`.
pub(crate) fn open(url: &str, create: bool) -> Result<Opened> {
    match Url::parse(url) {
        // `c:\data` is a folder of Windows and not the scheme `c`.
        Ok(url) if url.scheme().len() > 1 => open_url(&url, create),
        _ => open_folder(FilePath::new(url), create),
    }
}

fn open_folder(folder: &FilePath, create: bool) -> Result<Opened> {
    if folder.as_os_str().is_empty() {
        return Err(StoreError::url("it is empty"));
    }
    if create {
        std::fs::create_dir_all(folder).map_err(StoreError::io(folder))?;
    } else if !folder.is_dir() {
        return Err(StoreError::url(format!("there is no folder {}", folder.display())));
    }
    let folder = folder.canonicalize().map_err(StoreError::io(folder))?;
    let local = LocalFileSystem::new_with_prefix(&folder).map_err(StoreError::url)?;
    let local = local.with_automatic_cleanup(true).with_fsync(true);
    Ok((Arc::new(local), Path::default(), Some(folder)))
}

fn open_url(url: &Url, create: bool) -> Result<Opened> {
    // In abfs://container@account.dfs.core.windows.net/prefix the user is the container.
    let is_container = matches!(url.scheme(), "abfs" | "abfss");
    let has_user = !url.username().is_empty() && !is_container;
    if has_user || url.password().is_some() || url.query().is_some() {
        let what = "it has a user, a password or parameters; set keys in the environment";
        return Err(StoreError::url(what));
    }
    let feature = match url.scheme() {
        "file" => {
            let not_a_folder = |()| StoreError::url("it is not a folder");
            return open_folder(&url.to_file_path().map_err(not_a_folder)?, create);
        }
        "s3" | "s3a" => ("s3", cfg!(feature = "s3")),
        "gs" => ("gcs", cfg!(feature = "gcs")),
        "az" | "azure" | "adl" | "abfs" | "abfss" => ("azure", cfg!(feature = "azure")),
        other => return Err(StoreError::url(format!("there is no store of kind `{other}`"))),
    };
    if let (name, false) = feature {
        let what = format!("this program was built without the feature `{name}`");
        return Err(StoreError::url(what));
    }
    let environment = settings(std::env::vars_os());
    let (store, prefix) =
        object_store::parse_url_opts(url, environment).map_err(StoreError::url)?;
    Ok((Arc::from(store), prefix, None))
}

/// Selects the environment variables meant for a store. The library would also accept names as
/// common as TOKEN and ENDPOINT, which are set for other programs.
fn settings(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (String, String)> {
    let text = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    text.filter(|(name, _)| {
        ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_for_stores_reach_them() {
        let all = [
            ("AWS_ENDPOINT", "http://minio:9000"),
            ("ENDPOINT", "http://other"),
            ("TOKEN", "secret"),
            ("PROXY_URL", "http://proxy"),
            ("aws_region", "other"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
            ("GOOGLE_SERVICE_ACCOUNT", "key.json"),
            ("MY_AWS_REGION", "other"),
        ];
        let all = all.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let names: Vec<String> = settings(all.into_iter()).map(|(name, _)| name).collect();
        assert_eq!(names, ["AWS_ENDPOINT", "AZURE_STORAGE_ACCOUNT_NAME", "GOOGLE_SERVICE_ACCOUNT"]);
    }

    #[cfg(unix)]
    #[test]
    fn variables_that_are_no_text_are_left_out() {
        use std::os::unix::ffi::OsStringExt;
        let bytes = || OsString::from_vec(vec![b'A', 0xff]);
        let all = [(bytes(), "x".into()), ("AWS_REGION".into(), bytes())];
        assert_eq!(settings(all.into_iter()).count(), 0);
    }

    #[test]
    fn keys_in_a_url_are_refused_and_not_repeated() {
        for url in ["s3://key:secret@bucket/x", "az://container/x?sig=secret"] {
            let error = open(url, false).err().unwrap().to_string();
            assert!(error.contains("environment") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn the_container_of_azure_is_no_user() {
        let error = |url: &str| match open(url, false) {
            // Without Azure in this build, or without its keys.
            Err(error) => error.to_string(),
            Ok(_) => String::new(),
        };
        let host = "account.dfs.core.windows.net/prefix";
        for url in [format!("abfs://box@{host}"), format!("abfss://box@{host}")] {
            assert!(!error(&url).contains("it has a user"), "{}", error(&url));
        }
        for url in [format!("abfs://box:secret@{host}"), format!("az://box@{host}")] {
            assert!(error(&url).contains("it has a user"), "{}", error(&url));
        }
    }

    #[test]
    fn what_is_no_store_is_refused() {
        for url in ["", "ftp://a/b", "file://host/x", "http://a/b"] {
            assert!(matches!(open(url, true), Err(StoreError::Url { .. })), "{url}");
        }
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let error = open(missing.to_str().unwrap(), false).err().unwrap();
        assert!(error.to_string().contains("there is no folder"), "{error}");
        assert!(!missing.exists());
        open(missing.to_str().unwrap(), true).unwrap();
        assert!(missing.exists());
    }
}
