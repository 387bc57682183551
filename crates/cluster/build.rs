//! Compiles the protocol without requiring `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto/cluster.proto");
    let protocol = protox::compile(["cluster.proto"], ["proto"])?;
    tonic_prost_build::configure().compile_fds(protocol)?;
    Ok(())
}
