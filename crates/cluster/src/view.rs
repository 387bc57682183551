//! What an aggregator knows of a collection: its version, shards, who has them, and the statistics that were gathered.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use warpseek::{Searcher, Statistics, read_settings};

use crate::error::ClusterError;
use crate::guard::DamagedShard;
use crate::peer::Peer;
use crate::{proto, wire};

/// Terms whose frequencies are kept. When there are more, all are forgotten, and the frequent ones soon come back.
const MAX_TERMS: usize = 1 << 20;

/// One version of the collection, and who answers for each of its shards now.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) epoch: Arc<Epoch>,
    /// By shard.
    pub(crate) replicas: Arc<Vec<Vec<Arc<Peer>>>>,
    /// What nodes have that is not searched. It comes from all that they say, so it ends when they say something else, or are no longer there.
    pub(crate) ignored: Arc<Vec<Ignored>>,
    /// Shards that nodes do not serve since their files are damaged, with the address of the node.
    damaged: Arc<Vec<(String, DamagedShard)>>,
}

/// A shard of a node that is not searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Ignored {
    pub(crate) node: String,
    pub(crate) shard: u32,
    version: u64,
    reason: String,
}

impl Ignored {
    pub(crate) fn log(&self) {
        let Ignored { node, shard, version, reason } = self;
        tracing::warn!(node, shard, version, reason, "a shard is ignored");
    }
}

/// A shard that a node has, and whether the node was there when it was last asked.
#[derive(Clone)]
struct Known {
    peer: Arc<Peer>,
    reachable: bool,
    info: ShardInfo,
}

impl Known {
    fn ignored(&self, reason: impl Into<String>) -> Ignored {
        let (node, reason) = (self.peer.address.clone(), reason.into());
        let proto::Shard { number, version, .. } = self.info.id;
        Ignored { node, shard: number, version, reason }
    }
}

/// The documents of a collection: as long as they are the same, so are statistics and answers.
pub(crate) struct Epoch {
    pub(crate) version: u64,
    /// By number; none is known of shards that no node ever had.
    pub(crate) shards: Vec<Option<ShardInfo>>,
    /// Reads and plans queries as the shards do.
    pub(crate) searcher: Searcher,
    terms: Mutex<HashMap<(u8, String), u64>>,
}

/// What is known of a shard.
#[derive(Clone)]
pub(crate) struct ShardInfo {
    pub(crate) id: proto::Shard,
    /// Documents, deleted ones included.
    pub(crate) documents: u64,
    /// Those that are not deleted.
    pub(crate) live: u64,
    pub(crate) fields: Vec<Statistics>,
    settings: Vec<u8>,
}

impl ShardInfo {
    fn of(description: &proto::ShardDescription) -> Option<Self> {
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
        let proto::Shard { number: shard, version, .. } = self.id;
        ClusterError::Settings { shard, other, version }
    }
}

impl View {
    /// Puts together what nodes say of themselves. The newest version of which all shards are there is taken; until there is one, the version so far, or else the one with the most shards. What does not fit to the rest is
    /// left out: one wrong node must not keep the others from being searched.
    pub(crate) fn of(
        peers: &[Arc<Peer>],
        shards: u32,
        before: Option<&View>,
    ) -> Result<Self, ClusterError> {
        let mut all: Vec<Known> = Vec::new();
        for peer in peers {
            let (described, reachable) = peer.described();
            let known = described.iter().filter_map(ShardInfo::of);
            all.extend(known.map(|info| Known { peer: peer.clone(), reachable, info }));
        }
        let mut left_out = LeftOut::default();
        let mut all = left_out.of_other_collections(all, shards);
        let mut known: Vec<Known> = Vec::new();
        let versions: BTreeSet<u64> = all.iter().map(|known| known.info.id.version).collect();
        for version in versions {
            let of_version: Vec<Known> =
                all.extract_if(.., |known| known.info.id.version == version).collect();
            let before = before.filter(|before| before.epoch.version == version);
            known.extend(left_out.of_other_settings(of_version, before));
        }
        let LeftOut { mut ignored, error } = left_out;
        let Some(version) = version(&known, shards, before).filter(|_| !known.is_empty()) else {
            let reasons = peers.iter().map(|peer| match peer.reason() {
                Some(reason) => format!("{}: {reason}", peer.address),
                None => match peer.damaged().first() {
                    Some(DamagedShard { shard, reason, .. }) => {
                        format!("{}: shard {shard}: {reason}", peer.address)
                    }
                    None => format!("{}: it has no shards", peer.address),
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
            let of = known.iter().filter(|known| known.info.id == info.id);
            of.map(|known| known.peer.clone()).collect()
        });
        let replicas = Arc::new(replicas.collect());
        let is_other = |known: &&Known| {
            let taken = infos[known.info.id.number as usize].as_ref();
            taken.is_some_and(|taken| taken.id != known.info.id)
        };
        ignored.extend(known.iter().filter(is_other).map(|known| {
            known.ignored(
                "it has other documents than the copy that is searched, under the same version",
            )
        }));
        let ids = |infos: &[Option<ShardInfo>]| -> Vec<Option<proto::Shard>> {
            infos.iter().map(|info| info.as_ref().map(|info| info.id)).collect()
        };
        let epoch = match before {
            Some(before) if ids(&before.epoch.shards) == ids(&infos) => before.epoch.clone(),
            _ => Arc::new(Epoch::new(version, infos)?),
        };
        let damaged = peers
            .iter()
            .flat_map(|peer| peer.damaged().into_iter().map(|of| (peer.address.clone(), of)));
        let damaged = Arc::new(damaged.collect());
        Ok(View { epoch, replicas, ignored: Arc::new(ignored), damaged })
    }

    /// Why no node is asked for a shard.
    pub(crate) fn why_missing(&self, shard: u32) -> String {
        let is_it = |of: &&Ignored| of.shard == shard && of.version == self.epoch.version;
        let is_damaged = |(_, of): &&(String, DamagedShard)| {
            of.shard == shard && of.version == self.epoch.version
        };
        if let Some(Ignored { node, reason, .. }) = self.ignored.iter().find(is_it) {
            return format!("that of {node} is ignored: {reason}");
        }
        match self.damaged.iter().find(is_damaged) {
            Some((node, DamagedShard { reason, .. })) => format!("{node}: {reason}"),
            None => "no node has it".to_owned(),
        }
    }
}

/// Nodes that do not fit to the others.
#[derive(Default)]
struct LeftOut {
    ignored: Vec<Ignored>,
    /// What is wrong if there are no others.
    error: Option<ClusterError>,
}

impl LeftOut {
    /// Takes nodes away that have a shard which the collection should not have: whatever else they have is of another collection too.
    fn of_other_collections(&mut self, all: Vec<Known>, shards: u32) -> Vec<Known> {
        let wrong = |known: &Known| (known.info.id.number >= shards).then_some(());
        self.nodes(all, wrong, |of, ()| {
            let (node, shard) = (of.peer.address.clone(), of.info.id.number);
            ClusterError::ShardNumber { node, shard, shards }
        })
    }

    /// Takes nodes away that read queries in another way than the others of a version do, or in one that is not understood.
    fn of_other_settings(&mut self, mut all: Vec<Known>, before: Option<&View>) -> Vec<Known> {
        let last = before.and_then(|before| before.epoch.shards.iter().flatten().next());
        let last = last.map(|last| last.settings.clone());
        let others = all.iter().map(|known| &known.info.settings);
        let others: BTreeSet<&Vec<u8>> = others.filter(|of| Some(*of) != last.as_ref()).collect();
        let unread = |of: &Vec<u8>| Some((of.clone(), read_settings(of).err()?));
        let unread: BTreeMap<Vec<u8>, String> = others.into_iter().filter_map(unread).collect();
        let why = |known: &Known| unread.get(&known.info.settings).cloned();
        all = self.nodes(all, why, |of, what| of.info.unread_settings(&what));
        let firsts: BTreeMap<String, ShardInfo> =
            all.iter().rev().map(|of| (of.peer.address.clone(), of.info.clone())).collect();
        let contradicts = |known: &Known| {
            let first = &firsts[&known.peer.address];
            (first.settings != known.info.settings).then_some(first.id.number)
        };
        all = self.nodes(all, contradicts, |of, other| of.info.other_settings(other));
        let Some(chosen) = chosen(&all, last.as_ref()) else { return all };
        let (settings, number) = (chosen.info.settings.clone(), chosen.info.id.number);
        let differs = |known: &Known| (known.info.settings != settings).then_some(number);
        self.nodes(all, differs, |of, other| of.info.other_settings(other))
    }

    /// Takes nodes away of which a shard is wrong, and returns the others.
    fn nodes<T>(
        &mut self,
        all: Vec<Known>,
        wrong: impl Fn(&Known) -> Option<T>,
        error: impl Fn(&Known, T) -> ClusterError,
    ) -> Vec<Known> {
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
        let keep = |known: Known| match reasons.get(&known.peer.address) {
            Some(reason) => {
                self.ignored.push(known.ignored(reason));
                None
            }
            None => Some(known),
        };
        all.into_iter().filter_map(keep).collect()
    }
}

/// A shard with the settings to take: those so far, if a node that is there still has them or none is there; else those of the most shards on nodes that are there, and of the most copies.
fn chosen<'a>(all: &'a [Known], last: Option<&Vec<u8>>) -> Option<&'a Known> {
    let nobody = all.iter().all(|known| !known.reachable);
    let is_last = |known: &&Known| last == Some(&known.info.settings);
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
        let weight = |of: &Known| {
            weights.get(&of.info.settings[..]).map(|(numbers, copies)| (numbers.len(), *copies))
        };
        // Of equal ones the first.
        all.iter().rev().max_by_key(|known| weight(known))
    })
}

/// The version to take.
fn version(known: &[Known], shards: u32, before: Option<&View>) -> Option<u64> {
    let mut there: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for Known { reachable, info, .. } in known {
        let of = there.entry(info.id.version).or_default();
        if *reachable {
            of.insert(info.id.number);
        }
    }
    let whole = there.iter().rev().find(|(_, numbers)| numbers.len() == shards as usize);
    let so_far = before.map(|before| before.epoch.version);
    let most = there.iter().max_by_key(|(version, numbers)| (numbers.len(), **version));
    whole.map(|(version, _)| *version).or(so_far).or(most.map(|(version, _)| *version))
}

/// What a shard is: as so far, if a node that is there still has it, or else what most nodes have.
fn shard(known: &[Known], number: u32, last: Option<&ShardInfo>) -> Option<ShardInfo> {
    let of: Vec<_> = known.iter().filter(|known| known.info.id.number == number).collect();
    let there =
        |id: proto::Shard| of.iter().filter(|known| known.reachable && known.info.id == id).count();
    if let Some(last) = last
        && (there(last.id) > 0 || of.iter().all(|known| !known.reachable))
    {
        return Some(last.clone());
    }
    of.iter()
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

    /// The number of live documents of the whole collection with each term, as far as it is known.
    pub(crate) fn frequencies(&self, of: &[(u8, String)]) -> Vec<Option<u64>> {
        let terms = self.terms();
        of.iter().map(|term| terms.get(term).copied()).collect()
    }

    /// Keeps frequencies over all shards.
    pub(crate) fn keep(&self, of: impl IntoIterator<Item = ((u8, String), u64)>) {
        let mut terms = self.terms();
        if terms.len() > MAX_TERMS {
            terms.clear();
        }
        terms.extend(of);
    }

    /// The number that the first document of a shard has in the collection; none if a shard before it is not known.
    pub(crate) fn base(&self, shard: u32) -> Option<u64> {
        self.shards.get(..shard as usize)?.iter().map(|of| of.as_ref().map(|of| of.documents)).sum()
    }
}
