//! A server inside a program: `cargo run -p warpseek-server --example serve DIR ADDRESS`.

use std::collections::BTreeMap;

use warpseek_server::{Config, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let data = arguments.next().ok_or("expected the folder to serve")?;
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:9200".into());
    let flags =
        BTreeMap::from([("data".to_owned(), data.into()), ("listen".to_owned(), listen.into())]);
    let server = Server::start(Config::load(None, std::env::vars(), flags)?)?;
    eprintln!("listening on http://{}", server.address());
    eprintln!("the page is at http://{}/ui", server.address());
    server.run()?;
    Ok(())
}
