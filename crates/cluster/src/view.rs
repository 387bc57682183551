//! An aggregator's view of a collection: its version and shards, the nodes that serve each of
//! them, and the term statistics collected so far.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use warpseek::Searcher;
use warpseek::index::{Statistics, read_settings};

use crate::error::ClusterError;
use crate::peer::Peer;
use crate::repairs::DamagedShard;
use crate::{protocol, wire};

/// Maximum number of terms whose frequencies are kept. Beyond it, all are dropped; frequent terms
/// soon return.
const MAX_TERMS: usize = 1 << 20;

/// A version of the collection, with the nodes that serve each of its shards.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) epoch: Arc<Epoch>,
    /// Nodes that serve each shard.
    pub(crate) replicas: Arc<Vec<Vec<Arc<Peer>>>>,
    /// Shards on nodes that are not searched. They are determined again from each round of
    /// descriptions, so an entry disappears when its node describes something else or is gone.
    pub(crate) ignored: Arc<Vec<IgnoredShard>>,
    /// Shards that nodes do not serve because their files are damaged, with the addresses of the
    /// nodes.
    damaged: Arc<Vec<(String, DamagedShard)>>,
}

/// A shard of a node that is not searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct IgnoredShard {
    pub(crate) node: String,
    pub(crate) shard: u32,
    version: u64,
    reason: String,
}

impl IgnoredShard {
    pub(crate) fn log(&self) {
        let IgnoredShard { node, shard, version, reason } = self;
        tracing::warn!(node, shard, version, reason, "a shard is ignored");
    }
}

/// A shard that a node described, and whether the node was reachable when it was last called.
#[derive(Clone)]
struct KnownShard {
    peer: Arc<Peer>,
    reachable: bool,
    info: ShardInfo,
}

impl KnownShard {
    fn ignored(&self, reason: impl Into<String>) -> IgnoredShard {
        let (node, reason) = (self.peer.address.clone(), reason.into());
        let protocol::Shard { number, version, .. } = self.info.id;
        IgnoredShard { node, shard: number, version, reason }
    }
}

/// The documents of a collection. While they do not change, neither do statistics and answers.
pub(crate) struct Epoch {
    pub(crate) version: u64,
    /// Shards by number. `None` if no node has ever had the shard.
    pub(crate) shards: Vec<Option<ShardInfo>>,
    /// A searcher that reads and plans queries as the shards do.
    pub(crate) searcher: Searcher,
    terms: Mutex<HashMap<(u8, String), u64>>,
}

/// Description of a shard.
#[derive(Clone)]
pub(crate) struct ShardInfo {
    pub(crate) id: protocol::Shard,
    /// Number of documents, including deleted ones.
    pub(crate) documents: u64,
    /// Number of documents that are not deleted.
    pub(crate) live: u64,
    pub(crate) fields: Vec<Statistics>,
    settings: Vec<u8>,
}

impl ShardInfo {
    fn of(description: &protocol::ShardDescription) -> Option<Self> {
        let fields = wire::fields(&description.fields);
        Some(ShardInfo {
            id: description.shard?,
            documents: description.documents,
            live: description.live,
            fields,
            settings: description.settings.clone(),
        })
    }

    fn unread_settings(&self, what: &str) -> ClusterError {
        ClusterError::Setup(format!("the settings of shard {}: {what}", self.id.number))
    }

    fn other_settings(&self, other: u32) -> ClusterError {
        let protocol::Shard { number: shard, version, .. } = self.id;
        ClusterError::Settings { shard, other, version }
    }
}

impl View {
    /// Combines the descriptions of all nodes. It chooses the newest version of which all shards
    /// are present. If there is none, it keeps the previous version, or else takes the one with
    /// the most shards. Nodes that do not match the others are left out, so that one wrong node
    /// cannot prevent searches.
    pub(crate) fn of(
        peers: &[Arc<Peer>],
        shards: u32,
        before: Option<&View>,
    ) -> Result<Self, ClusterError> {
        let mut all: Vec<KnownShard> = Vec::new();
        for peer in peers {
            let (described, reachable) = peer.described();
            let known = described.iter().filter_map(ShardInfo::of);
            all.extend(known.map(|info| KnownShard { peer: peer.clone(), reachable, info }));
        }
        let mut left_out = Exclusions::default();
        let mut all = left_out.of_other_collections(all, shards);
        let mut known: Vec<KnownShard> = Vec::new();
        let versions: BTreeSet<u64> = all.iter().map(|known| known.info.id.version).collect();
        for version in versions {
            let of_version: Vec<KnownShard> =
                all.extract_if(.., |known| known.info.id.version == version).collect();
            let before = before.filter(|before| before.epoch.version == version);
            known.extend(left_out.of_other_settings(of_version, before));
        }
        let Exclusions { mut ignored, error } = left_out;
        let Some(version) = version(&known, shards, before).filter(|_| !known.is_empty()) else {
            let reasons = peers.iter().map(|peer| match peer.reason() {
                Some(reason) => format!("{}: {reason}", peer.address),
                None => match peer.damaged().first() {
                    Some(DamagedShard { shard, reason, .. }) => {
                        format!("{}: shard {shard}: {reason}", peer.address)
                    }
                    None => format!("{}: the node has no shards", peer.address),
                },
            });
            let none = || ClusterError::NoNodes(reasons.collect::<Vec<_>>().join("; "));
            return Err(error.unwrap_or_else(none));
        };
        known.retain(|known| known.info.id.version == version);
        let before = before.filter(|before| before.epoch.version == version);
        let of_shard = |number: u32| {
            let last = before.and_then(|before| before.epoch.shards[number as usize].as_ref());
            shard(&known, number, last)
        };
        let infos: Vec<Option<ShardInfo>> = (0..shards).map(of_shard).collect();
        let replicas = infos.iter().map(|info| {
            let Some(info) = info else { return Vec::new() };
            let copies = known.iter().filter(|known| known.info.id == info.id);
            copies.map(|known| known.peer.clone()).collect()
        });
        let replicas = Arc::new(replicas.collect());
        let is_other = |known: &&KnownShard| {
            let taken = infos[known.info.id.number as usize].as_ref();
            taken.is_some_and(|taken| taken.id != known.info.id)
        };
        ignored.extend(known.iter().filter(is_other).map(|known| {
            known.ignored(
                "it has other documents than the copy that is searched, although the version is the same",
            )
        }));
        let ids = |infos: &[Option<ShardInfo>]| -> Vec<Option<protocol::Shard>> {
            infos.iter().map(|info| info.as_ref().map(|info| info.id)).collect()
        };
        let epoch = match before {
            Some(before) if ids(&before.epoch.shards) == ids(&infos) => before.epoch.clone(),
            _ => Arc::new(Epoch::new(version, infos)?),
        };
        let damaged = peers
            .iter()
            .flat_map(|peer| peer.damaged().into_iter().map(|shard| (peer.address.clone(), shard)));
        let damaged = Arc::new(damaged.collect());
        Ok(View { epoch, replicas, ignored: Arc::new(ignored), damaged })
    }

    /// Returns why no node is called for a shard.
    pub(crate) fn why_missing(&self, shard: u32) -> String {
        let is_it = |ignored: &&IgnoredShard| {
            ignored.shard == shard && ignored.version == self.epoch.version
        };
        let is_damaged = |(_, damaged): &&(String, DamagedShard)| {
            damaged.shard == shard && damaged.version == self.epoch.version
        };
        if let Some(IgnoredShard { node, reason, .. }) = self.ignored.iter().find(is_it) {
            return format!("the copy on {node} is ignored: {reason}");
        }
        match self.damaged.iter().find(is_damaged) {
            Some((node, DamagedShard { reason, .. })) => format!("{node}: {reason}"),
            None => "no node has the shard".to_owned(),
        }
    }
}

/// Nodes that do not match the others.
#[derive(Default)]
struct Exclusions {
    ignored: Vec<IgnoredShard>,
    /// The first problem, which is the error if no other nodes are left.
    error: Option<ClusterError>,
}

impl Exclusions {
    /// Removes nodes that have a shard beyond the number of shards: their other shards belong to
    /// another collection too.
    fn of_other_collections(&mut self, all: Vec<KnownShard>, shards: u32) -> Vec<KnownShard> {
        let wrong = |known: &KnownShard| (known.info.id.number >= shards).then_some(());
        self.nodes(all, wrong, |known, ()| {
            let (node, shard) = (known.peer.address.clone(), known.info.id.number);
            ClusterError::ShardNumber { node, shard, shards }
        })
    }

    /// Removes nodes whose settings differ from those of the others of a version, or cannot be
    /// read.
    fn of_other_settings(
        &mut self,
        mut all: Vec<KnownShard>,
        before: Option<&View>,
    ) -> Vec<KnownShard> {
        let last = before.and_then(|before| before.epoch.shards.iter().flatten().next());
        let last = last.map(|last| last.settings.clone());
        let others = all.iter().map(|known| &known.info.settings);
        let others: BTreeSet<&Vec<u8>> =
            others.filter(|settings| Some(*settings) != last.as_ref()).collect();
        let unread = |settings: &Vec<u8>| Some((settings.clone(), read_settings(settings).err()?));
        let unread: BTreeMap<Vec<u8>, String> = others.into_iter().filter_map(unread).collect();
        let why = |known: &KnownShard| unread.get(&known.info.settings).cloned();
        all = self.nodes(all, why, |known, what| known.info.unread_settings(&what));
        let firsts: BTreeMap<String, ShardInfo> = all
            .iter()
            .rev()
            .map(|known| (known.peer.address.clone(), known.info.clone()))
            .collect();
        let contradicts = |known: &KnownShard| {
            let first = &firsts[&known.peer.address];
            (first.settings != known.info.settings).then_some(first.id.number)
        };
        all = self.nodes(all, contradicts, |known, other| known.info.other_settings(other));
        let Some(chosen) = chosen(&all, last.as_ref()) else { return all };
        let (settings, number) = (chosen.info.settings.clone(), chosen.info.id.number);
        let differs = |known: &KnownShard| (known.info.settings != settings).then_some(number);
        self.nodes(all, differs, |known, other| known.info.other_settings(other))
    }

    /// Removes nodes with a shard for which `wrong` returns a problem, and returns the shards of
    /// the others.
    fn nodes<T>(
        &mut self,
        all: Vec<KnownShard>,
        wrong: impl Fn(&KnownShard) -> Option<T>,
        error: impl Fn(&KnownShard, T) -> ClusterError,
    ) -> Vec<KnownShard> {
        let mut reasons: BTreeMap<String, String> = BTreeMap::new();
        for known in &all {
            if !reasons.contains_key(&known.peer.address)
                && let Some(what) = wrong(known)
            {
                let error = error(known, what);
                reasons.insert(known.peer.address.clone(), error.to_string());
                self.error.get_or_insert(error);
            }
        }
        let keep = |known: KnownShard| match reasons.get(&known.peer.address) {
            Some(reason) => {
                self.ignored.push(known.ignored(reason));
                None
            }
            None => Some(known),
        };
        all.into_iter().filter_map(keep).collect()
    }
}

/// Returns a shard with the settings to use. These are the previous ones if a reachable node
/// still has them or no node is reachable. Otherwise they are those with the most shards on
/// reachable nodes, and among equals those with the most copies.
fn chosen<'a>(all: &'a [KnownShard], last: Option<&Vec<u8>>) -> Option<&'a KnownShard> {
    let nobody = all.iter().all(|known| !known.reachable);
    let is_last = |known: &&KnownShard| last == Some(&known.info.settings);
    let as_so_far = all.iter().filter(is_last).find(|known| known.reachable || nobody);
    as_so_far.or_else(|| {
        let mut weights: BTreeMap<&[u8], (BTreeSet<u32>, usize)> = BTreeMap::new();
        for known in all {
            let (numbers, copies) = weights.entry(&known.info.settings).or_default();
            if known.reachable {
                numbers.insert(known.info.id.number);
                *copies += 1;
            }
        }
        let weight = |known: &KnownShard| {
            weights.get(&known.info.settings[..]).map(|(numbers, copies)| (numbers.len(), *copies))
        };
        // Among equals, the first.
        all.iter().rev().max_by_key(|known| weight(known))
    })
}

/// Returns the version to search.
fn version(known: &[KnownShard], shards: u32, before: Option<&View>) -> Option<u64> {
    let mut there: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for KnownShard { reachable, info, .. } in known {
        let numbers = there.entry(info.id.version).or_default();
        if *reachable {
            numbers.insert(info.id.number);
        }
    }
    let whole = there.iter().rev().find(|(_, numbers)| numbers.len() == shards as usize);
    let so_far = before.map(|before| before.epoch.version);
    let most = there.iter().max_by_key(|(version, numbers)| (numbers.len(), **version));
    whole.map(|(version, _)| *version).or(so_far).or(most.map(|(version, _)| *version))
}

/// Returns the description of a shard to use: the previous one if a reachable node still has it
/// or no node is reachable, and otherwise the one that most reachable nodes have.
fn shard(known: &[KnownShard], number: u32, last: Option<&ShardInfo>) -> Option<ShardInfo> {
    let copies: Vec<_> = known.iter().filter(|known| known.info.id.number == number).collect();
    let there = |id: protocol::Shard| {
        copies.iter().filter(|known| known.reachable && known.info.id == id).count()
    };
    if let Some(last) = last
        && (there(last.id) > 0 || copies.iter().all(|known| !known.reachable))
    {
        return Some(last.clone());
    }
    copies
        .iter()
        .map(|known| &known.info)
        .max_by_key(|info| (there(info.id), info.id.snapshot))
        .cloned()
}

impl Epoch {
    fn new(version: u64, shards: Vec<Option<ShardInfo>>) -> Result<Self, ClusterError> {
        let Some(first) = shards.iter().flatten().next() else {
            return Err(ClusterError::NoNodes("no shard is known".to_owned()));
        };
        let settings =
            read_settings(&first.settings).map_err(|what| first.unread_settings(&what))?;
        let searcher = Searcher::without_documents(&settings)?;
        Ok(Epoch { version, shards, searcher, terms: Mutex::default() })
    }

    fn terms(&self) -> MutexGuard<'_, HashMap<(u8, String), u64>> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of live documents of the whole collection with each term, where it is
    /// known.
    pub(crate) fn frequencies(&self, wanted: &[(u8, String)]) -> Vec<Option<u64>> {
        let terms = self.terms();
        wanted.iter().map(|term| terms.get(term).copied()).collect()
    }

    /// Keeps frequencies over all shards.
    pub(crate) fn keep(&self, found: impl IntoIterator<Item = ((u8, String), u64)>) {
        let mut terms = self.terms();
        if terms.len() > MAX_TERMS {
            terms.clear();
        }
        terms.extend(found);
    }

    /// Returns the number that the first document of a shard has in the collection, or `None` if
    /// an earlier shard is not known.
    pub(crate) fn base(&self, shard: u32) -> Option<u64> {
        self.shards
            .get(..shard as usize)?
            .iter()
            .map(|info| info.as_ref().map(|info| info.documents))
            .sum()
    }
}
