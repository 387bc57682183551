// OR and AND with pruning: a warp reads only those postings that can still become a hit, and
// looks their documents up in the other lists.
//
// Lists are ordered by length, shortest first. A document is found in the first list that
// contains it, so its score is at most what that list and those after it contribute. For each
// tile and list, `peaks` has the largest value: a posting is a candidate if its own contribution
// and the peaks of all lists after its own reach the threshold. The score of a candidate is found
// in two steps. Filters exclude most of the lists that do not contain it. If the peaks of the
// remaining lists still reach the threshold, it is searched for in them. With AND, only the
// shortest list yields candidates, in tiles in which all lists have postings.
//
// The threshold only rises, and a document is skipped only if an upper bound of its score is
// below it. Whatever other warps do at the same time, no hit is lost.
#pragma once

#include "tiles.cuh"
#include "topk.cuh"
#include "warp.cuh"

// Filters that are read at once.
constexpr uint32_t AHEAD = 4;

// Candidates that wait: up to a warp's worth from before, and four per lane.
constexpr uint32_t QUEUE = WARP + FOUR * WARP;

// Documents that wait to be scored: up to a warp's worth from before, and one per lane.
constexpr uint32_t HOPEFULS = WARP + WARP;

constexpr uint32_t NONE = 0xffffffffu;

// Larger than any rough value.
constexpr uint32_t NO_VALUE = 0x10000;

// Returns at least the contribution of any posting whose rough value is `peak`; a peak of 0 means
// that there is none.
__device__ __forceinline__ uint32_t bound(const Term& term, uint32_t peak) { return peak == 0 ? 0 : __umulhi(term.whole_weight, peak << 16) + 2; }

// Returns a rough value that is at most the smallest one whose bound is `units`.
__device__ __forceinline__ uint32_t rough_limit(const Term& term, uint32_t units) {
    uint32_t limit = units <= 2 ? 0 : __float2uint_rz(__fmul_rn(float(units - 2), term.rough_per_unit));
    return limit > 1 ? limit : 1;
}

// Finds the posting of a dense list at this position, in a tile of 2^bits documents.
__device__ __forceinline__ uint32_t find_dense(const Term& term, uint32_t tile, uint32_t position, uint32_t bits) {
    const uint32_t* starts = reinterpret_cast<const uint32_t*>(term.starts);
    const uint16_t* positions = reinterpret_cast<const uint16_t*>(term.docs);
    uint32_t low = starts[tile], high = starts[tile + 1];
    COUNTED(moved(&starts[tile]);)
    if (low == high) return NONE;
    // Find the last group of four that does not begin after the position. The guess is correct if
    // positions are evenly distributed.
    const uint32_t guess = low + ((position & ((1u << bits) - 1)) * (high - low) >> bits);
    uint32_t step = 1;
    if (positions[guess * FOUR] <= position) {
        low = guess;
        for (; low + step < high && positions[(low + step) * FOUR] <= position; step *= 2) low += step;
        if (low + step < high) high = low + step;
    } else {
        high = guess;
        for (; low + step < high && positions[(high - step) * FOUR] > position; step *= 2) high -= step;
        if (low + step < high) low = high - step;
    }
    COUNTED(moved(&positions[guess * FOUR], 1 + __ffs(step));)
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        COUNTED(moved(&positions[middle * FOUR]);)
        if (positions[middle * FOUR] <= position) low = middle;
        else high = middle;
    }
    const ushort4 four = reinterpret_cast<const ushort4*>(positions)[low];
    COUNTED(moved(reinterpret_cast<const ushort4*>(positions) + low);)
    const uint32_t at = four.x == position ? 0 : four.y == position ? 1 : four.z == position ? 2 : four.w == position ? 3 : NONE;
    return at == NONE ? NONE : low * FOUR + at;
}

__device__ __forceinline__ uint32_t find_sparse(const Term& term, uint32_t doc) {
    const uint32_t* docs = reinterpret_cast<const uint32_t*>(term.docs);
    uint32_t at = lower_bound(docs, 0, term.count, doc);
    COUNTED(if (at < term.count) moved(&docs[at]);)
    return at < term.count && docs[at] == doc ? at : NONE;
}

// Returns the filter bit that is not set if a dense list has no posting around a document.
__device__ __forceinline__ uint32_t filter_bit(const Term& term, uint32_t doc) {
    const uint32_t bit = doc >> term.filter_shift;
    COUNTED(moved(reinterpret_cast<const uint32_t*>(term.filter) + bit / 32);)
    return reinterpret_cast<const uint32_t*>(term.filter)[bit / 32] >> (bit % 32) & 1;
}

// A query being processed by a warp; with FEW it asks for at most 32 hits.
template <bool FEW>
struct Search {
    const Segment& segment;
    const Query& query;
    const Term* terms;
    KeysOfWarp<FEW> top;
    Histogram histogram;
    const uint32_t* bounds;  // maximum contribution of each dense list in each tile
    // a document, its first list, the posting there, and one bit for every other list that may
    // contain it
    uint4* hopefuls;
    uint32_t* sums;          // one per lane, followed by as many pending look-ups
    uint32_t waiting;        // number of hopefuls; the same in every lane

    // Takes over the threshold that all items of the query know; `counts` are the histogram's.
    __device__ void learn(uint32_t counts) {
        const uint64_t known = histogram.threshold(counts, query.k);
        if (known > top.threshold) top.threshold = known;
    }

    // Returns the score, without static scores, below which a document cannot become a hit.
    __device__ uint32_t needed() const {
        const uint32_t threshold = uint32_t(top.threshold >> 32);
        return threshold > query.static_most ? threshold - query.static_most : 1;
    }

    __device__ uint32_t find(uint32_t list, uint32_t doc) const {
        if (list < query.sparse) return find_sparse(terms[list], doc);
        return find_dense(terms[list], doc >> segment.bits, doc & 0x7fff, segment.bits);
    }

    // Returns true if a mask excludes a document. A mask excludes many, so it is tested first;
    // deletions are few, and are tested last.
    __device__ bool is_masked(uint32_t doc) const { return query.mask != 0 && is_out(segment, query, doc); }

    // Considers candidates, and queues those that may become hits. Called by all lanes. Lanes
    // that are `alive` have a posting of a list, its document, which is not masked, the tile in
    // the window, and `most`, the maximum contribution of this list and the sparse lists after
    // it.
    __device__ void consider(uint32_t list, bool alive, uint32_t posting, uint32_t doc, uint32_t tile, uint32_t most) {
        const uint32_t needed = this->needed();
        uint32_t in = 0;
        for (uint32_t j = list + 1; j < query.sparse; j++) in |= 1u << j;
        for (uint32_t first = list + 1 > query.sparse ? list + 1 : query.sparse; first < query.terms; first += AHEAD) {
            uint32_t bit[AHEAD];
#pragma unroll
            for (uint32_t j = 0; j < AHEAD; j++) bit[j] = alive && first + j < query.terms ? filter_bit(terms[first + j], doc) : 0;
#pragma unroll
            for (uint32_t j = 0; j < AHEAD; j++) {
                if (bit[j] == 0) continue;
                in |= 1u << (first + j);
                most += bounds[(first + j - query.sparse) * WARP + tile];
            }
        }
        if (most < needed || (query.all != 0 && in != all_but_first())) alive = false;
        const uint32_t takers = __ballot_sync(FULL_WARP, alive);
        if (takers == 0) return;
        if (alive) {
            // Include lists before this one: if they contain the document, it is considered
            // there.
            for (uint32_t j = 0; j < list; j++) {
                if (j < query.sparse || filter_bit(terms[j], doc) != 0) in |= 1u << j;
            }
            hopefuls[waiting + __popc(takers & ((1u << lane_id()) - 1))] = make_uint4(doc, list, posting, in);
        }
        waiting += __popc(takers);
        __syncwarp();
        if (waiting >= WARP) score_hopefuls();
    }

    __device__ uint32_t all_but_first() const { return (FULL_WARP >> (WARP - query.terms)) & ~1u; }

    // Scores up to a warp's worth of the waiting documents. Their look-ups in other lists are
    // distributed over all lanes.
    __device__ void score_hopefuls() {
        const uint32_t lane = lane_id(), rest = waiting > WARP ? waiting - WARP : 0;
        const bool has = lane < waiting - rest;
        const uint4 one = has ? hopefuls[rest + lane] : make_uint4(0, 0, 0, 0);
        waiting = rest;
        const float value = has ? reinterpret_cast<const float*>(terms[one.y].values)[one.z] : 0;
        COUNTED(if (has) moved(reinterpret_cast<const float*>(terms[one.y].values) + one.z);)
        uint32_t* lookups = sums + WARP;
        sums[lane] = 0;
        uint32_t next = __popc(one.w);
        const uint32_t end = warp_inclusive_sum(next);
        const uint32_t all = __shfl_sync(FULL_WARP, end, WARP - 1);
        next = end - next;
        uint32_t lists = one.w, dead = 0;
        for (uint32_t first = 0; first < all; first += WARP) {
            for (; lists != 0 && next < first + WARP; lists &= lists - 1) lookups[next++ - first] = lane | (__ffs(lists) - 1) << 8;
            __syncwarp();
            const bool takes = first + lane < all;
            const uint32_t lookup = takes ? lookups[lane] : lane, of = lookup & (WARP - 1), list = lookup >> 8;
            const uint32_t doc = __shfl_sync(FULL_WARP, one.x, of), first_list = __shfl_sync(FULL_WARP, one.y, of);
            const uint32_t at = takes && (dead >> of & 1) == 0 ? find(list, doc) : NONE;
            // If an earlier list contains the document, it was considered there; with AND, a
            // document must be in all lists.
            const bool ends = takes && (at == NONE ? query.all != 0 : list < first_list);
            COUNTED(if (at != NONE && !ends) moved(reinterpret_cast<const float*>(terms[list].values) + at);)
            if (at != NONE && !ends) atomicAdd(&sums[of], contribution(terms[list].weight, reinterpret_cast<const float*>(terms[list].values)[at]));
            dead |= warp_or(ends ? 1u << of : 0);
            __syncwarp();
        }
        uint64_t key = 0;
        if (has && (dead >> lane & 1) == 0 && (query.mask != 0 || !is_deleted(segment, one.x))) {
            const uint32_t score = contribution(terms[one.y].weight, value) + sums[lane];
            key = hit_key(segment, one.x, score + static_score(segment, query.static_weight, one.x));
        }
        if (key > top.threshold) histogram.add(key);
        top.offer(key);
        learn(histogram.read());
        __syncwarp();
    }
};

// Postings of one list that wait to be considered.
struct Queue {
    uint2* postings;  // number of a posting, its position, and its rough value in the upper bits
    uint32_t count;   // the same in every lane

    // Called by all lanes: adds a posting of each lane that `takes` part.
    __device__ void push(bool takes, uint32_t posting, uint32_t position, uint32_t rough) {
        const uint32_t takers = __ballot_sync(FULL_WARP, takes);
        if (takes) postings[count + __popc(takers & ((1u << lane_id()) - 1))] = make_uint2(posting, position | rough << 16);
        count += __popc(takers);
    }
};

// A window: up to 32 tiles, one per lane.
struct Window {
    uint32_t first;   // first tile
    uint32_t suffix;  // the most that the lists looked at so far contribute in the lane's tile
    uint32_t whole;   // not 0 if all of them have postings there

    // Returns the lane of the tile that contains a posting's position.
    __device__ uint32_t lane_of(uint32_t position, uint32_t bits) const { return ((position >> bits) - first) & ((1u << (15 - bits)) - 1) & (WARP - 1); }
};

// Considers the postings of a dense list in a window with rough values of at least the tile's
// `limit` and, if some were SEEN, below `seen`.
template <bool SEEN, bool FEW>
__device__ void drive_dense(Search<FEW>& search, Queue& queue, const Window& window, uint32_t list, uint32_t limit, uint32_t seen) {
    const Term& term = search.terms[list];
    const uint32_t lane = lane_id(), bits = search.segment.bits;
    const uint32_t active = __ballot_sync(FULL_WARP, limit < seen);
    if (active == 0) return;
    const uint32_t* starts = reinterpret_cast<const uint32_t*>(term.starts);
    const ushort4* positions = reinterpret_cast<const ushort4*>(term.docs);
    const ushort4* roughs = reinterpret_cast<const ushort4*>(term.roughs);
    const uint32_t begin = starts[window.first + __ffs(active) - 1], end = starts[window.first + WARP - __clz(active)];
    const ushort4 none = make_ushort4(0, 0, 0, 0);
    uint32_t at = begin + lane;
    COUNTED(moved(&starts[window.first + __ffs(active) - 1]), moved(&starts[window.first + WARP - __clz(active)]);)
    COUNTED(if (at < end) moved(&positions[at]), moved(&roughs[at]);)
    ushort4 position = at < end ? positions[at] : none, rough = at < end ? roughs[at] : none;
    for (uint32_t from = begin; from < end; from += WARP) {
        const uint32_t now = at;
        const ushort4 position_now = position, rough_now = rough;
        at += WARP;
        COUNTED(if (at < end) moved(&positions[at]), moved(&roughs[at]);)
        position = at < end ? positions[at] : none;
        rough = at < end ? roughs[at] : none;
        // All four postings belong to one tile.
        const uint32_t of = window.lane_of(position_now.x, bits), tile = (window.first + of) << bits;
        const uint32_t least = __shfl_sync(FULL_WARP, limit, of), most = SEEN ? __shfl_sync(FULL_WARP, seen, of) : NO_VALUE;
        // Masked postings do not wait, so that the warp considers as many documents at a time as
        // without a mask. The four bits are in flight together.
        const auto waits = [&](uint32_t position, uint32_t rough) {
            return rough >= least && rough < most && !search.is_masked(tile + (position & ((1u << bits) - 1)));
        };
        const bool x = waits(position_now.x, rough_now.x), y = waits(position_now.y, rough_now.y);
        const bool z = waits(position_now.z, rough_now.z), w = waits(position_now.w, rough_now.w);
        queue.push(x, now * FOUR, position_now.x, rough_now.x);
        queue.push(y, now * FOUR + 1, position_now.y, rough_now.y);
        queue.push(z, now * FOUR + 2, position_now.z, rough_now.z);
        queue.push(w, now * FOUR + 3, position_now.w, rough_now.w);
        __syncwarp();
        const bool last = from + WARP >= end;
        while (queue.count >= WARP || (last && queue.count > 0)) {
            const uint32_t rest = queue.count > WARP ? queue.count - WARP : 0;
            const bool takes = lane < queue.count - rest;
            const uint2 one = takes ? queue.postings[rest + lane] : make_uint2(0, 0);
            queue.count = rest;
            const uint32_t number = window.lane_of(one.y, bits), doc = ((window.first + number) << bits) + (one.y & ((1u << bits) - 1));
            search.consider(list, takes, one.x, doc, number, bound(term, one.y >> 16));
        }
        __syncwarp();
    }
}

// Considers the postings of a sparse list in a window. `cursor` and `next` are the next posting
// and its document; `rest` is the maximum contribution of the sparse lists after it.
template <bool FEW>
__device__ void drive_sparse(Search<FEW>& search, const Window& window, uint32_t list, uint32_t& cursor, uint32_t& next, uint32_t end, uint32_t rest) {
    const Term& term = search.terms[list];
    const uint32_t* docs = reinterpret_cast<const uint32_t*>(term.docs);
    const float* values = reinterpret_cast<const float*>(term.values);
    const bool drives = search.query.all == 0 || list == 0;
    uint32_t at = cursor, found = WARP;
    while (found == WARP) {
        const uint32_t mine = at + lane_id();
        const uint32_t doc = mine < term.count ? docs[mine] : NONE;
        COUNTED(if (mine < term.count) moved(&docs[mine]);)
        const bool here = doc < end;
        const uint32_t tile = here ? (doc >> search.segment.bits) - window.first : 0;
        const uint32_t whole = __shfl_sync(FULL_WARP, window.whole, tile);
        found = __popc(__ballot_sync(FULL_WARP, here));
        at += found;
        if (found < WARP) next = __shfl_sync(FULL_WARP, doc, found);
        if (drives) {
            const bool takes = here && (search.query.all == 0 || whole != 0) && !search.is_masked(doc);
            COUNTED(if (takes) moved(&values[mine]);)
            search.consider(list, takes, mine, doc, tile, rest + (takes ? contribution(term.weight, values[mine]) : 0));
        }
    }
    cursor = at;
}

__device__ __forceinline__ uint32_t tiles_of(const Segment& segment) { return (segment.docs + (1u << segment.bits) - 1) >> segment.bits; }

// Returns the block's share of all windows, for a single query.
__device__ Item even_share(uint32_t windows) {
    return Item{0, uint32_t(uint64_t(windows) * blockIdx.x / gridDim.x), uint32_t(uint64_t(windows) * (blockIdx.x + 1) / gridDim.x), 0};
}

// The work of a launch, as in `or_tiles`. Items are runs of windows of `span` tiles, which have
// at most 2^15 documents. Without items, the windows of the one query are distributed evenly.
struct Work {
    const Item* items;
    uint64_t* thresholds;
    uint32_t* histograms;
    uint64_t* out_keys;
    uint32_t* key_counts;
    uint64_t* global_keys;
    uint32_t capacity;
    uint32_t stride;
    uint32_t sparse;
    uint32_t terms_most;
    uint32_t span;

    __device__ Item item(const Segment& segment) const {
        COUNTED(if (items != nullptr) moved(&items[blockIdx.x]);)
        return items == nullptr ? even_share((tiles_of(segment) + span - 1) / span) : items[blockIdx.x];
    }
};

// Searches an item's windows, in one pass or two, and appends its hits to those of the query.
// Dynamic shared memory: documents that wait, sums and look-ups, `terms_most` terms and their
// bounds, postings that wait, the next posting and its document for each sparse term, and keys
// unless these are in global memory.
template <uint32_t PASSES, bool FEW>
__device__ __forceinline__ void search_windows(const Segment& segment, const Work& work, const Item& item, const Query& query, const Term* all_terms) {
    DYNAMIC_SHARED(uint32_t, shared);
    const uint32_t lane = lane_id(), tiles = tiles_of(segment), span = work.span;
    uint4* hopefuls = reinterpret_cast<uint4*>(shared);
    uint32_t* sums = shared + 4 * HOPEFULS;
    Term* terms = reinterpret_cast<Term*>(sums + 2 * WARP);
    uint32_t* bounds = reinterpret_cast<uint32_t*>(terms + work.terms_most);
    uint32_t* postings = bounds + work.terms_most * WARP;
    Queue queue{reinterpret_cast<uint2*>(postings), 0};
    uint32_t* cursors = postings + 2 * QUEUE;
    uint32_t* nexts = cursors + (work.sparse + FOUR - 1) / FOUR * FOUR;
    uint64_t* shared_keys = reinterpret_cast<uint64_t*>(nexts + (work.sparse + FOUR - 1) / FOUR * FOUR);
    uint64_t* keys = work.global_keys != nullptr ? work.global_keys + uint64_t(blockIdx.x) * work.capacity : shared_keys;
    uint64_t* threshold = &work.thresholds[item.query];
    Search<FEW> search{segment, query, terms, KeysOfWarp<FEW>(keys, work.capacity, query.k, query.least),
                       Histogram{work.histograms + uint64_t(item.query) * WARP, query.low, query.low_shift}, bounds, hopefuls, sums, 0};
    const uint32_t dense_count = query.terms - query.sparse;
    const Term* dense = terms + query.sparse;

    const uint64_t* from = reinterpret_cast<const uint64_t*>(all_terms + query.first_term);
    for (uint32_t i = lane; i < query.terms * (sizeof(Term) / sizeof(uint64_t)); i += WARP) {
        COUNTED(moved(&from[i]);)
        reinterpret_cast<uint64_t*>(terms)[i] = from[i];
    }
    __syncwarp();
    for (uint32_t i = lane; i < query.sparse; i += WARP) {
        const uint32_t* docs = reinterpret_cast<const uint32_t*>(terms[i].docs);
        cursors[i] = lower_bound(docs, 0, terms[i].count, (item.begin * span) << segment.bits);
        nexts[i] = cursors[i] < terms[i].count ? docs[cursors[i]] : NONE;
        COUNTED(if (cursors[i] < terms[i].count) moved(&docs[cursors[i]]);)
    }
    __syncwarp();
    // The score that the first of two passes requires.
    uint32_t goal = 0;
    if (PASSES == 2) {
        for (uint32_t i = 0; i < query.terms; i++) goal += terms[i].most;
        goal = goal / 4 * 3;
    }

    const auto peak_of = [&](uint32_t list, uint32_t tile) -> uint32_t {
        const uint16_t* peaks = reinterpret_cast<const uint16_t*>(dense[list].peaks);
        COUNTED(if (lane < span && tile < tiles) moved(&peaks[tile]);)
        return lane < span && tile < tiles ? peaks[tile] : 0;
    };
    // The peaks of the next list are loaded while this one is processed.
    uint32_t ahead = dense_count > 0 ? peak_of(dense_count - 1, item.begin * span + lane) : 0;

    uint64_t published = query.least;
    for (uint32_t number = item.begin; number < item.end; number++) {
#pragma unroll 1
        for (uint32_t pass = 1; pass <= PASSES; pass++) {
            Window window{number * span, 0, 1};
            // Start both loads before waiting for the first.
            const uint32_t counts = search.histogram.read();
            const uint64_t known = *reinterpret_cast<volatile uint64_t*>(threshold);
            search.learn(counts);
            search.top.share(threshold, known, published);
            for (uint32_t j = dense_count; j > 0; j--) {
                const Term& term = dense[j - 1];
                const uint32_t peak = ahead;
                if (j > 1) ahead = peak_of(j - 2, window.first + lane);
                else if (pass < PASSES) ahead = peak_of(dense_count - 1, window.first + lane);
                else if (number + 1 < item.end) ahead = peak_of(dense_count - 1, window.first + span + lane);
                if (peak == 0) window.whole = 0;
                if (query.all == 0 || query.sparse + j == 1) {
                    const auto limit_for = [&](uint32_t units) { return window.suffix >= units ? 1 : rough_limit(term, units - window.suffix); };
                    uint32_t needed = search.needed(), seen = NO_VALUE;
                    if (PASSES == 2 && pass == 1 && needed < goal) needed = goal;
                    // Postings that the first pass left out because of the threshold cannot
                    // become hits now, either.
                    if (PASSES == 2 && pass == 2 && limit_for(goal) < seen) seen = limit_for(goal);
                    uint32_t limit = limit_for(needed);
                    if (peak < limit || (query.all != 0 && window.whole == 0)) limit = NO_VALUE;
                    drive_dense<PASSES == 2>(search, queue, window, query.sparse + j - 1, limit, seen);
                }
                // Lists before this one add its maximum contribution in the lane's tile.
                const uint32_t most = bound(term, peak);
                window.suffix += most;
                bounds[(j - 1) * WARP + lane] = most;
                __syncwarp();
            }
            if (pass > 1) break;
            const uint32_t end = window.first + span < tiles ? (window.first + span) << segment.bits : segment.docs;
            uint32_t rest = 0;
            for (uint32_t i = query.sparse; i > 0; i--) {
                uint32_t cursor = cursors[i - 1], next = nexts[i - 1];
                if (next >= end) {
                    // Without this list, AND finds nothing in the tile.
                    window.whole = 0;
                    continue;
                }
                drive_sparse(search, window, i - 1, cursor, next, end, rest);
                __syncwarp();
                if (lane == 0) {
                    cursors[i - 1] = cursor;
                    nexts[i - 1] = next;
                }
                __syncwarp();
                rest += terms[i - 1].most;
            }
            if (pass < PASSES && search.waiting > 0) search.score_hopefuls();
        }
    }
    if (search.waiting > 0) search.score_hopefuls();
    search.top.append(work.out_keys + uint64_t(query.first_slot) * work.stride, &work.key_counts[item.query]);
}

// For batches of queries; arguments as in `or_tiles`.
#define PRUNED(name, FEW, WARPS)                                                                                                                       \
    extern "C" __global__ void __launch_bounds__(WARP, WARPS)                                                                                          \
        name(Segment segment, const Query* queries, const Term* terms, const Item* items, uint64_t* all_matches, uint64_t* thresholds,                 \
             const uint32_t* enough, uint64_t* out_keys, uint32_t* key_counts, uint32_t stride, uint64_t* global_keys, uint32_t capacity,              \
             uint32_t sparse, uint32_t span, uint32_t terms_most, uint32_t* histograms) {                                                              \
        const Work work{items, thresholds, histograms, out_keys, key_counts, global_keys, capacity, stride, sparse, terms_most, span};                 \
        const Item item = work.item(segment);                                                                                                          \
        const Query query = queries[item.query];                                                                                                       \
        COUNTED(moved(&queries[item.query]);)                                                                                                          \
        if (enough != nullptr && enough[item.query] >= query.k) return;                                                                                \
        search_windows<1, FEW>(segment, work, item, query, terms);                                                                                     \
    }
