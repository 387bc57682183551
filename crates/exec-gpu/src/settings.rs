//! The settings of the engine.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::image::Policy;

/// Settings for the layout of work on the device. Hits do not depend on them.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Binary logarithm of the number of documents in a tile, 5 to 15. Lists can be entered at
    /// the start of each tile.
    pub tile_bits: u32,
    /// Binary logarithm of the number of documents that OR processes at once: at least
    /// `tile_bits` and 8, at most 15 or what fits into shared memory, where each document takes
    /// two bytes.
    pub or_bits: u32,
    /// Binary logarithm of the number of documents that AND processes at once: at least
    /// `tile_bits` and 10, at most 15 or what fits into shared memory, where each document takes
    /// three and a half bits.
    pub and_bits: u32,
    /// Maximum number of queries in one round.
    pub round: usize,
    /// Number of rounds of a batch that are in flight at the same time.
    pub in_flight: usize,
    /// True if documents that cannot become hits are skipped; otherwise every posting is scored.
    pub pruned: bool,
    /// Form of the lists on the device.
    pub lists: GpuLists,
    /// Policy that decides which lists stay on the device if they do not all fit.
    pub policy: Policy,
    /// Time that a piece of a round takes at most, as predicted, if the deadline is near: the
    /// deadline is checked between pieces. If it is zero, every round that may have to stop has
    /// the shortest pieces.
    pub piece: Duration,
}

/// The form of lists on the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GpuLists {
    /// Tiles if all lists fit as tiles, else compact.
    #[default]
    Auto,
    /// All lists as tiles. An index that does not fit is refused.
    Tiles,
    /// All lists compressed if they fit. Tiles are created when queries need them.
    Compact,
    /// Lists are copied only when a query needs them. Best for few queries.
    OnDemand,
}

/// Names of the forms, in the order of the enumeration.
const FORMS: [(GpuLists, &str); 4] = [
    (GpuLists::Auto, "auto"),
    (GpuLists::Tiles, "tiles"),
    (GpuLists::Compact, "compact"),
    (GpuLists::OnDemand, "on-demand"),
];

impl GpuLists {
    /// Names of all forms.
    pub const NAMES: [&str; 4] = [FORMS[0].1, FORMS[1].1, FORMS[2].1, FORMS[3].1];
}

impl fmt::Display for GpuLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = FORMS.iter().find(|(form, _)| form == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for GpuLists {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = FORMS.iter().find(|(_, other)| *other == name);
        let unknown = || format!("is not one of {}", GpuLists::NAMES.join(", "));
        found.map(|(form, _)| *form).ok_or_else(unknown)
    }
}

impl Settings {
    /// The usual settings.
    pub const USUAL: Settings = Settings {
        tile_bits: 11,
        or_bits: 12,
        and_bits: 14,
        round: 1 << 11,
        in_flight: 3,
        pruned: true,
        lists: GpuLists::Auto,
        policy: Policy::Worth,
        piece: Duration::from_micros(400),
    };
}

impl Default for Settings {
    fn default() -> Self {
        Settings::USUAL
    }
}
