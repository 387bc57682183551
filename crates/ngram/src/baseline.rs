//! The published algorithm, which processes lists by length, shortest first. As long as a
//! document could still be a hit with the lists that are left, documents are gathered; then those
//! gathered are pruned with a minimum that rises by one with each list. Every list is read as a
//! whole.

use std::ops::Range;

use warpseek_exec::Ticker;
use warpseek_index::Result;

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
    let least = collector.least(lists.segment, range.start);
    let Some(misses) = lists.len().checked_sub(least) else { return Ok(range.end) };
    let mut gathered: Vec<(u32, Tally)> = Vec::new();
    for (i, list) in lists.lists.iter().enumerate() {
        let (gathers, mut at) = (i as u32 <= misses, 0);
        let (mut cursor, mut new) = (Cursor::default(), Vec::new());
        cursor.seek(list, range.start);
        loop {
            let entries = lists.check(i, cursor.entries::<true>(list, range.start, range.end))?;
            if entries.is_empty() {
                break;
            }
            if ticker.must_stop(entries.len()) {
                return Ok(range.start);
            }
            for entry in entries {
                let (part, map) = (cursor.docs[entry], cursor.maps[entry]);
                while gathered.get(at).is_some_and(|known| known.0 < part) {
                    if gathers {
                        new.push(gathered[at].clone());
                    }
                    at += 1;
                }
                match gathered.get_mut(at).filter(|known| known.0 == part) {
                    Some(known) => known.1.add(map),
                    None if gathers => {
                        let mut tally = Tally::new(lists.window);
                        tally.add(map);
                        new.push((part, tally));
                    }
                    None => {}
                }
            }
        }
        if gathers {
            new.extend_from_slice(&gathered[at..]);
            gathered = new;
        }
        let minimum = (i as u32 + 1).saturating_sub(misses);
        gathered.retain(|(_, tally)| tally.max() >= minimum);
    }
    for (part, tally) in gathered {
        collector.offer(lists.segment, part, tally.max());
    }
    Ok(range.end)
}
