//! Runs a service that answers requests with deadlines from several threads.
//!
//!     cargo run -p warpseek --example service

use std::time::Duration;

use warpseek::{Document, Index, Request, ServiceError, ServiceOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let index = Index::create(folder.path().join("recipes"))?;
    let mut writer = index.writer()?;
    for (id, text) in [("pie", "apples butter flour"), ("bread", "flour water salt time")] {
        writer.add(Document::new(id, "", text))?;
    }
    writer.commit()?;

    // The index is temporary, so measurements are not worth saving.
    let options = ServiceOptions::new().cache(1 << 20).keep_calibration(false);
    let service = index.searcher()?.service(options)?;
    std::thread::scope(|scope| {
        for word in ["flour", "apples", "flour"] {
            let service = &service;
            scope.spawn(move || {
                let request = Request::new(word).deadline(Duration::from_millis(500));
                let ticket = match service.submit(&request) {
                    Ok(ticket) => ticket,
                    Err(ServiceError::Refused { wait }) => {
                        return println!("{word}: refused, it would have to wait for {wait:?}");
                    }
                    Err(error) => return println!("{word}: {error}"),
                };
                let served = ticket.wait();
                match served.answer {
                    Ok(response) => println!(
                        "{word}: {} hits of {} documents in {:?}{}",
                        response.hits().len(),
                        response.documents_searched().0,
                        served.took,
                        if served.shared { ", computed for another" } else { "" },
                    ),
                    Err(error) => println!("{word}: {error}"),
                }
            });
        }
    });
    println!("{:?}", service.status().counts);
    Ok(())
}
