//! Searches on the GPU or on the CPU, whichever is faster, and reports events. On a machine
//! without a GPU the CPU answers, and a notice gives the reason.
//!
//!     cargo run --release -p warpseek --example gpu_with_fallback

use warpseek::{DeviceChoice, Document, Index, Request, SearcherOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let index = Index::create(folder.path().join("notes"))?;
    let mut writer = index.writer()?;
    for i in 0..1000 {
        let text = format!("note {i} on {}", if i % 3 == 0 { "warps" } else { "threads" });
        writer.add(Document::new(i.to_string(), "", text))?;
    }
    writer.commit()?;

    let options = SearcherOptions::new()
        .device(DeviceChoice::Auto)
        // Called when the GPU cannot be used, fails, or comes back. A server would log the
        // notice.
        .on_notice(|notice| println!("notice: {notice}"));
    let searcher = index.searcher_with(options)?;
    // Copies the index to the GPU now rather than with the first query.
    searcher.prepare()?;

    let request = Request::new("warps").k(3);
    let response = searcher.search(&request)?;
    let decision = searcher.decide(&[response.plan()]);
    let choice = &decision.choices[0];
    println!("such a query goes to {}, by {}: {}", choice.device, choice.algorithm, choice.why);

    // Hits are the same on every device, to the bit.
    let on_cpu = index.searcher()?.search(&request)?;
    assert_eq!(response.hits(), on_cpu.hits());
    Ok(())
}
