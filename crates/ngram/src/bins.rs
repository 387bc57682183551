//! The published algorithm in bins of 256 documents. The search leaves a bin as soon as all its
//! documents are pruned, or if it has none of the rare n-grams.

use std::ops::Range;

use warpseek_exec::Ticker;
use warpseek_index::{BIN, Result};

use crate::collector::Collector;
use crate::lists::{Cursor, Lists};
use crate::tally::Tally;

/// Searches a range of parts. Returns the end of what was searched, which is the end of the range
/// unless time ran out.
pub(crate) fn search(
    lists: &Lists<'_>,
    range: Range<u32>,
    collector: &mut Collector,
    ticker: &mut Ticker<'_>,
) -> Result<u32> {
    let mut cursors: Vec<Cursor> = Vec::new();
    cursors.resize_with(lists.lists.len(), Cursor::default);
    let mut bin = Bin::new(lists.window);
    let mut start = range.start;
    while start < range.end {
        if ticker.must_stop(BIN) {
            return Ok(start);
        }
        let end = range.end.min((start / BIN as u32 + 1) * BIN as u32);
        let least = collector.least(lists.segment, start);
        let Some(misses) = lists.len().checked_sub(least) else { return Ok(range.end) };
        bin.search(lists, &mut cursors, start..end, misses)?;
        for part in start..end {
            let (tally, alive) = &bin.documents[(part - start) as usize];
            if *alive {
                collector.offer(lists.segment, part, tally.max());
            }
        }
        start = end;
    }
    Ok(range.end)
}

struct Bin {
    empty: Tally,
    /// The counts of each document, and a flag that is set if it may still be a hit.
    documents: Vec<(Tally, bool)>,
    /// Number of documents that may still be hits.
    alive: usize,
}

impl Bin {
    fn new(window: u32) -> Self {
        let empty = Tally::new(window);
        Bin { documents: vec![(empty.clone(), false); BIN], empty, alive: 0 }
    }

    fn search(
        &mut self,
        lists: &Lists<'_>,
        cursors: &mut [Cursor],
        parts: Range<u32>,
        misses: u32,
    ) -> Result<()> {
        self.documents.iter_mut().for_each(|document| document.1 = false);
        self.alive = 0;
        for (i, (list, cursor)) in lists.lists.iter().zip(cursors).enumerate() {
            let gathers = i as u32 <= misses;
            if !gathers && self.alive == 0 {
                return Ok(());
            }
            cursor.seek(list, parts.start);
            loop {
                let entries = cursor.entries::<true>(list, parts.start, parts.end);
                let entries = lists.check(i, entries)?;
                if entries.is_empty() {
                    break;
                }
                for entry in entries {
                    let (part, map) = (cursor.docs[entry], cursor.maps[entry]);
                    let (tally, alive) = &mut self.documents[(part - parts.start) as usize];
                    if !*alive && gathers {
                        (*tally, *alive) = (self.empty.clone(), true);
                        self.alive += 1;
                    }
                    if *alive {
                        tally.add(map);
                    }
                }
            }
            let minimum = (i as u32 + 1).saturating_sub(misses);
            if minimum > 1 {
                for (tally, alive) in self.documents.iter_mut().filter(|document| document.1) {
                    if tally.max() < minimum {
                        *alive = false;
                        self.alive -= 1;
                    }
                }
            }
        }
        Ok(())
    }
}
