//! Tests with real clients against a real server: each script of crates/server/tests/clients runs
//! in a separate virtual environment or npm folder, with a fresh server.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environments::{environment, npm_environment};
use crate::programs::quietly;
use crate::server::Server;
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
