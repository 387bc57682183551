//! Tests with real clients against a real server: each script of crates/server/tests/clients runs
//! in a separate virtual environment or npm folder, with a fresh server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::skips;
use crate::steps::Step;

/// A script, the packages that it needs, and the name of their environment.
struct Client {
    environment: &'static str,
    packages: &'static [&'static str],
    script: &'static str,
}

const CLIENTS: [Client; 7] = [
    Client {
        environment: "elasticsearch-7",
        packages: &["elasticsearch==7.17.13"],
        script: "elasticsearch_7.py",
    },
    Client {
        environment: "elasticsearch-8",
        packages: &["elasticsearch==8.19.3", "aiohttp", "opensearch-py==3.2.0"],
        script: "elasticsearch_8_9.py",
    },
    Client {
        environment: "elasticsearch-9",
        packages: &["elasticsearch==9.5.1", "aiohttp"],
        script: "elasticsearch_8_9.py",
    },
    Client {
        environment: "elasticsearch-8",
        packages: &["elasticsearch==8.19.3", "aiohttp", "opensearch-py==3.2.0"],
        script: "opensearch.py",
    },
    Client {
        environment: "frameworks",
        packages: &[
            "elasticsearch==8.19.3",
            "langchain-elasticsearch==1.0.0",
            "elasticsearch-haystack==7.1.0",
            "opensearch-haystack==9.0.0",
            "llama-index-vector-stores-elasticsearch==0.7.0",
        ],
        script: "frameworks.py",
    },
    Client {
        environment: "retrieval",
        packages: &["skyrl-gym==0.4.0", "requests"],
        script: "retrieval.py",
    },
    Client {
        environment: "documents",
        packages: &["openapi-spec-validator==0.9.0", "prometheus-client==0.26.0"],
        script: "documents.py",
    },
];

/// The wheel of verl. Only its client module is loaded, because the whole package needs much
/// more.
const VERL: &str = "verl==0.7.1";
const VERL_FILE: &str = "verl/tools/utils/search_r1_like_utils.py";

/// Packages of npm, two of which are versions of the same package. Their script is node.cjs.
const NODE_PACKAGES: [&str; 4] = [
    "elasticsearch-8@npm:@elastic/elasticsearch@8.19.2",
    "elasticsearch-9@npm:@elastic/elasticsearch@9.5.1",
    "@opensearch-project/opensearch@3.9.0",
    "@modelcontextprotocol/sdk@1.32.2",
];

/// Runs all clients that are available.
pub(crate) fn run(env: &[(&str, &str)]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let target = crate::target();
    let environments = target.join("clients");
    // The build has the same features as in tests, so that nothing is compiled twice.
    let built = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["build", "--workspace", "--locked", "--bins", "--examples"])
        .envs(env.iter().copied())
        .status()
        .map_err(|e| e.to_string())?;
    if !built.success() {
        return Err("building the server".into());
    }
    let program = target.join("debug").join("warpseek");
    for client in &CLIENTS {
        let name = format!("clients, {} in {}", client.script, client.environment);
        let _step = Step::begin(&name);
        let python = match environment(&environments.join(client.environment), client.packages) {
            Ok(python) => python,
            Err(why) => {
                skips::note(&name, &why)?;
                continue;
            }
        };
        let mut arguments = Vec::new();
        if client.environment == "retrieval" {
            match wheel_file(&python, &environments) {
                Ok(file) => arguments.push(file),
                Err(why) => {
                    skips::note(&name, &why)?;
                    continue;
                }
            }
        }
        let server = Server::start(&program, &environments.join("data"))?;
        let script = root.join("crates/server/tests/clients").join(client.script);
        let mut command = Command::new(&python);
        command.args(["-W", "ignore"]).arg(script).arg(&server.url).args(arguments);
        let done = command.status().map_err(|e| e.to_string())?;
        server.end()?;
        if !done.success() {
            return Err(name);
        }
    }
    node(root, &program, environments.join("node"))?;
    crate::browser::run(root, &program, &environments)
}

/// Runs the clients from npm.
fn node(root: &Path, program: &Path, folder: PathBuf) -> Result<(), String> {
    const NAME: &str = "clients, node.cjs";
    let _step = Step::begin(NAME);
    if let Err(why) = npm_environment(&folder, &NODE_PACKAGES) {
        return skips::note(NAME, &why);
    }
    let server = Server::start(program, &folder.with_file_name("data"))?;
    let script = root.join("crates/server/tests/clients/node.cjs");
    let done = Command::new("node").arg(script).arg(&server.url).arg(&folder).status();
    server.end()?;
    match done.map_err(|e| e.to_string())?.success() {
        true => Ok(()),
        false => Err(NAME.to_owned()),
    }
}

/// Installs these packages of npm in a folder, unless they are there already.
pub(crate) fn npm_environment(folder: &Path, packages: &[&str]) -> Result<(), String> {
    let version = quietly(Command::new("node").arg("--version"));
    version.map_err(|why| format!("node: {why}"))?;
    let (stamp, wanted) = (folder.join("packages"), packages.join("\n"));
    if std::fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    std::fs::write(folder.join("package.json"), "{\"private\": true}")
        .map_err(|e| e.to_string())?;
    let mut install = Command::new("npm");
    install.current_dir(folder).args(["install", "--no-audit", "--no-fund"]).args(packages);
    quietly(&mut install).map_err(|why| format!("npm: {why}"))?;
    std::fs::write(stamp, wanted).map_err(|e| e.to_string())
}

/// Returns the Python of a virtual environment with these packages, and creates the environment
/// if necessary.
pub(crate) fn environment(folder: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    environment_of(Path::new("python3"), folder, packages)
}

/// Works like [`environment`], with a given Python.
pub(crate) fn environment_of(
    from: &Path,
    folder: &Path,
    packages: &[&str],
) -> Result<PathBuf, String> {
    let python = folder.join("bin/python");
    let (stamp, wanted) = (folder.join("packages"), packages.join("\n"));
    if std::fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(python);
    }
    quietly(Command::new(from).args(["-m", "venv", "--clear"]).arg(folder))?;
    quietly(
        Command::new(&python)
            .args(["-m", "pip", "install", "-q", "--disable-pip-version-check"])
            .args(packages),
    )?;
    std::fs::write(stamp, wanted).map_err(|e| e.to_string())?;
    Ok(python)
}

/// Returns verl's client, extracted from its wheel.
fn wheel_file(python: &Path, folder: &Path) -> Result<PathBuf, String> {
    let file = folder.join("verl").join(VERL_FILE);
    if !file.exists() {
        let wheels = folder.join("verl");
        quietly(
            Command::new(python)
                .args(["-m", "pip", "download", "-q", "--no-deps", "-d"])
                .arg(&wheels)
                .arg(VERL),
        )?;
        let unpack = "import glob, sys, zipfile\nzipfile.ZipFile(glob.glob(sys.argv[1] + '/verl-*.whl')[0]).extract(sys.argv[2], sys.argv[1])";
        quietly(Command::new(python).args(["-c", unpack]).arg(&wheels).arg(VERL_FILE))?;
    }
    Ok(file)
}

pub(crate) fn quietly(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(text.lines().last().unwrap_or("the command failed").to_owned())
        }
    }
}

/// A running server with an empty data folder.
pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(program: &Path, data: &Path) -> Result<Self, String> {
        let _ = std::fs::remove_dir_all(data);
        let mut process = Command::new(program)
            .arg("serve")
            .arg(data)
            .args(["--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let mut lines = BufReader::new(process.stderr.take().ok_or("no standard error")?).lines();
        let url = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let at = line.find("http://")?;
            Some(line[at..].trim().to_owned())
        });
        // The log must be read, or the server would block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let url = url.ok_or("the server did not start")?;
        let server = Server { process, url };
        while !server.is_ready() {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    fn is_ready(&self) -> bool {
        let host = self.url.trim_start_matches("http://");
        let Ok(mut stream) = TcpStream::connect(host) else { return false };
        let mut answer = String::new();
        let asked =
            write!(stream, "GET /readyz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.contains(" 200 ")
    }

    /// Tells the server to end, and checks that it ends properly.
    pub(crate) fn end(mut self) -> Result<(), String> {
        let asked = Command::new("kill").arg(self.process.id().to_string()).status();
        asked.map_err(|e| e.to_string())?;
        let status = self.process.wait().map_err(|e| e.to_string())?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("the server failed: {status}")),
        }
    }
}
