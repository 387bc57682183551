// OR and AND with pruning: a warp reads only those postings that can still make a hit, and looks their documents up in the other lists.
//
// Lists stand shortest first. A document is found in the first of its lists, so its score is at most what that list and those behind it give. For each tile
// and list, `peaks` has the largest value: a posting is a candidate if its own contribution and the peaks of all lists behind reach the threshold. What a
// candidate really has is looked up in two steps: filters tell most of the lists that do not have it, and if the peaks of those that may have it still
// reach the threshold, it is searched for in them. Of AND only the shortest list makes candidates, in tiles that all lists have.
//
// The threshold only rises, and a document is passed over only if a bound of its score is below it: whatever other warps do at the same time, no hit is lost.
#include "tiles.cuh"
#include "topk.cuh"
#include "warp.cuh"

// Filters that are looked at at once.
constexpr uint32_t AHEAD = 4;

// Candidates that wait: up to a warp's of before, and a four a lane.
constexpr uint32_t QUEUE = WARP + FOUR * WARP;

// Documents that wait to be scored: up to a warp's of before, and one a lane.
constexpr uint32_t HOPEFULS = WARP + WARP;

constexpr uint32_t NONE = 0xffffffffu;

// No value is as large.
constexpr uint32_t NO_VALUE = 0x10000;

// At least the contribution of any posting whose rough value is `peak`; 0 is none.
__device__ __forceinline__ uint32_t bound(const Term& term, uint32_t peak) { return peak == 0 ? 0 : __umulhi(term.whole_weight, peak << 16) + 2; }

// The least rough value, or a smaller one, whose bound is `units`.
__device__ __forceinline__ uint32_t rough_limit(const Term& term, uint32_t units) {
    uint32_t limit = units <= 2 ? 0 : __float2uint_rz(__fmul_rn(float(units - 2), term.rough_per_unit));
    return limit > 1 ? limit : 1;
}

// The posting of a dense list with this place in a tile of 2^bits documents.
__device__ __forceinline__ uint32_t find_dense(const Term& term, uint32_t tile, uint32_t place, uint32_t bits) {
    const uint32_t* starts = reinterpret_cast<const uint32_t*>(term.starts);
    const uint16_t* places = reinterpret_cast<const uint16_t*>(term.docs);
    uint32_t low = starts[tile], high = starts[tile + 1];
    COUNTED(moved(&starts[tile]);)
    if (low == high) return NONE;
    // The last four that does not begin behind it: about where it would be if places were even.
    const uint32_t guess = low + ((place & ((1u << bits) - 1)) * (high - low) >> bits);
    uint32_t step = 1;
    if (places[guess * FOUR] <= place) {
        low = guess;
        for (; low + step < high && places[(low + step) * FOUR] <= place; step *= 2) low += step;
        if (low + step < high) high = low + step;
    } else {
        high = guess;
        for (; low + step < high && places[(high - step) * FOUR] > place; step *= 2) high -= step;
        if (low + step < high) low = high - step;
    }
    COUNTED(moved(&places[guess * FOUR], 1 + __ffs(step));)
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        COUNTED(moved(&places[middle * FOUR]);)
        if (places[middle * FOUR] <= place) low = middle;
        else high = middle;
    }
    const ushort4 four = reinterpret_cast<const ushort4*>(places)[low];
    COUNTED(moved(reinterpret_cast<const ushort4*>(places) + low);)
    const uint32_t at = four.x == place ? 0 : four.y == place ? 1 : four.z == place ? 2 : four.w == place ? 3 : NONE;
    return at == NONE ? NONE : low * FOUR + at;
}

__device__ __forceinline__ uint32_t find_sparse(const Term& term, uint32_t doc) {
    const uint32_t* docs = reinterpret_cast<const uint32_t*>(term.docs);
    uint32_t at = lower_bound(docs, 0, term.count, doc);
    COUNTED(if (at < term.count) moved(&docs[at]);)
    return at < term.count && docs[at] == doc ? at : NONE;
}

// The bit that is not set if a dense list has nothing around a document.
__device__ __forceinline__ uint32_t filter_bit(const Term& term, uint32_t doc) {
    const uint32_t bit = doc >> term.filter_shift;
    COUNTED(moved(reinterpret_cast<const uint32_t*>(term.filter) + bit / 32);)
    return reinterpret_cast<const uint32_t*>(term.filter)[bit / 32] >> (bit % 32) & 1;
}

// A query at work in a warp.
struct Search {
    const Segment& segment;
    const Query& query;
    const Term* terms;
    WarpTopK top;
    Histogram histogram;
    const uint32_t* bounds;  // what each dense list gives at most in each tile of the window
    uint4* hopefuls;         // a document, its first list, the posting there, and a bit for every other list that may have it
    uint32_t waiting;        // so many of them; the same in every lane

    // What all items of the query know.
    __device__ void learn() {
        const uint64_t known = histogram.threshold(query.k);
        if (known > top.threshold) top.threshold = known;
    }

    // Scores below have no chance, before static scores.
    __device__ uint32_t needed() const {
        const uint32_t threshold = uint32_t(top.threshold >> 32);
        return threshold > query.static_most ? threshold - query.static_most : 1;
    }

    __device__ uint32_t find(uint32_t list, uint32_t doc) const {
        if (list < query.sparse) return find_sparse(terms[list], doc);
        return find_dense(terms[list], doc >> segment.bits, doc & 0x7fff, segment.bits);
    }

    // By all lanes: those that are `alive` have a posting of a list, its document, the tile of the window, and the `most` that this list and sparse ones
    // behind it give.
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
            // Lists before, too: what they have is considered there.
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

    // Scores up to a warp's worth of those that wait.
    __device__ void score_hopefuls() {
        const uint32_t rest = waiting > WARP ? waiting - WARP : 0;
        bool alive = lane_id() < waiting - rest;
        const uint4 one = alive ? hopefuls[rest + lane_id()] : make_uint4(0, 0, 0, 0);
        const uint32_t doc = one.x, list = one.y;
        waiting = rest;
        uint32_t score = alive ? contribution(terms[list].weight, reinterpret_cast<const float*>(terms[list].values)[one.z]) : 0;
        COUNTED(if (alive) moved(reinterpret_cast<const float*>(terms[list].values) + one.z);)
        for (uint32_t left = warp_or(one.w); left != 0; left &= left - 1) {
            const uint32_t j = __ffs(left) - 1;
            if (!alive || (one.w >> j & 1) == 0) continue;
            const uint32_t at = find(j, doc);
            COUNTED(if (at != NONE && j >= list) moved(reinterpret_cast<const float*>(terms[j].values) + at);)
            if (at == NONE) alive = query.all == 0;
            else if (j < list) alive = false;
            else score += contribution(terms[j].weight, reinterpret_cast<const float*>(terms[j].values)[at]);
        }
        uint64_t key = 0;
        if (alive && !is_deleted(segment, doc)) key = hit_key(segment, doc, score + static_score(segment, query.static_weight, doc));
        if (key > top.threshold) histogram.add(key);
        top.offer(key);
        learn();
        __syncwarp();
    }
};

// Postings that wait to be considered, of one list.
struct Queue {
    uint2* postings;  // the number of one, its place, and its rough value above that
    uint32_t count;   // the same in every lane

    __device__ void push(uint32_t limit, uint32_t posting, uint32_t place, uint32_t rough) {
        const uint32_t takers = __ballot_sync(FULL_WARP, rough >= limit);
        if (rough >= limit) postings[count + __popc(takers & ((1u << lane_id()) - 1))] = make_uint2(posting, place | rough << 16);
        count += __popc(takers);
    }
};

// A window: 2^group tiles, one a lane.
struct Window {
    uint32_t first;   // tile
    uint32_t tiles;
    uint32_t suffix;  // what the lists looked at so far give at most in the lane's tile
    uint32_t whole;   // not 0 if all of them have it
};

// Considers what a dense list has in a window.
__device__ void drive_dense(Search& search, Queue& queue, const Window& window, uint32_t list, uint32_t limit) {
    const Term& term = search.terms[list];
    const uint32_t lane = lane_id(), bits = search.segment.bits;
    const uint32_t active = __ballot_sync(FULL_WARP, limit < NO_VALUE);
    if (active == 0) return;
    const uint32_t* starts = reinterpret_cast<const uint32_t*>(term.starts);
    const ushort4* places = reinterpret_cast<const ushort4*>(term.docs);
    const ushort4* roughs = reinterpret_cast<const ushort4*>(term.roughs);
    const uint32_t begin = starts[window.first + __ffs(active) - 1], end = starts[window.first + WARP - __clz(active)];
    const uint32_t base = window.first << bits, mask = window.tiles - 1;
    const ushort4 none = make_ushort4(0, 0, 0, 0);
    uint32_t at = begin + lane;
    COUNTED(moved(&starts[window.first + __ffs(active) - 1]), moved(&starts[window.first + WARP - __clz(active)]);)
    COUNTED(if (at < end) moved(&places[at]), moved(&roughs[at]);)
    ushort4 place = at < end ? places[at] : none, rough = at < end ? roughs[at] : none;
    for (uint32_t from = begin; from < end; from += WARP) {
        const uint32_t now = at;
        const ushort4 place_now = place, rough_now = rough;
        at += WARP;
        COUNTED(if (at < end) moved(&places[at]), moved(&roughs[at]);)
        place = at < end ? places[at] : none;
        rough = at < end ? roughs[at] : none;
        const uint32_t least = __shfl_sync(FULL_WARP, limit, place_now.x >> bits & mask);
        queue.push(least, now * FOUR, place_now.x, rough_now.x);
        queue.push(least, now * FOUR + 1, place_now.y, rough_now.y);
        queue.push(least, now * FOUR + 2, place_now.z, rough_now.z);
        queue.push(least, now * FOUR + 3, place_now.w, rough_now.w);
        __syncwarp();
        const bool last = from + WARP >= end;
        while (queue.count >= WARP || (last && queue.count > 0)) {
            const uint32_t rest = queue.count > WARP ? queue.count - WARP : 0;
            const bool takes = lane < queue.count - rest;
            const uint2 one = takes ? queue.postings[rest + lane] : make_uint2(0, 0);
            queue.count = rest;
            const uint32_t doc = base + (one.y & ((window.tiles << bits) - 1));
            search.consider(list, takes, one.x, doc, one.y >> bits & mask, bound(term, one.y >> 16));
        }
        __syncwarp();
    }
}

// Considers what a sparse list has in a window; `cursor` and `next` are the posting to come and its document, `rest` what sparse lists behind give at most.
__device__ void drive_sparse(Search& search, const Window& window, uint32_t list, uint32_t& cursor, uint32_t& next, uint32_t end, uint32_t rest) {
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
            const bool takes = here && (search.query.all == 0 || whole != 0);
            COUNTED(if (takes) moved(&values[mine]);)
            search.consider(list, takes, mine, doc, tile, rest + (takes ? contribution(term.weight, values[mine]) : 0));
        }
    }
    cursor = at;
}

// The block's share of all windows, for a query alone.
__device__ Item even_share(uint32_t tiles, uint32_t group) {
    const uint64_t windows = (tiles + (1u << group) - 1) >> group;
    return Item{0, uint32_t(windows * blockIdx.x / gridDim.x), uint32_t(windows * (blockIdx.x + 1) / gridDim.x), 0};
}

// As `or_tiles`; without items, the one query's windows are shared out evenly. Items are runs of windows of 2^`group` tiles, which have 2^15 documents at most. Dynamic shared memory: documents that
// wait, bounds of `dense_most` lists, postings that wait, for each sparse term the next posting and its document, keys unless these are in global memory.
extern "C" __global__ void __launch_bounds__(WARP, 32)
    pruned_tiles(Segment segment, const Query* queries, const Term* all_terms, const Item* items, uint64_t* all_matches, uint64_t* thresholds,
                 const uint32_t* enough, uint64_t* out_keys, uint32_t* key_counts, uint32_t stride, uint64_t* global_keys, uint32_t capacity, uint32_t sparse,
                 uint32_t group, uint32_t dense_most, uint32_t* histograms) {
    DYNAMIC_SHARED(uint32_t, shared);
    const uint32_t lane = lane_id();
    const uint32_t tiles = (segment.docs + (1u << segment.bits) - 1) >> segment.bits;
    const Item item = items != nullptr ? items[blockIdx.x] : even_share(tiles, group);
    const Query query = queries[item.query];
    if (enough != nullptr && enough[item.query] >= query.k) return;
    uint4* hopefuls = reinterpret_cast<uint4*>(shared);
    uint32_t* bounds = shared + 4 * HOPEFULS;
    uint32_t* postings = bounds + dense_most * WARP;
    Queue queue{reinterpret_cast<uint2*>(postings), 0};
    uint32_t* cursors = postings + 2 * QUEUE;
    uint32_t* nexts = cursors + (sparse + FOUR - 1) / FOUR * FOUR;
    uint64_t* shared_keys = reinterpret_cast<uint64_t*>(nexts + (sparse + FOUR - 1) / FOUR * FOUR);
    uint64_t* keys = global_keys != nullptr ? global_keys + uint64_t(blockIdx.x) * capacity : shared_keys;
    const Term* terms = all_terms + query.first_term;
    Search search{segment, query, terms, WarpTopK(keys, capacity, query.k, query.least),
                  Histogram{histograms + uint64_t(item.query) * WARP, query.low, query.low_shift}, bounds, hopefuls, 0};
    const uint32_t dense_count = query.terms - query.sparse;
    const Term* dense = terms + query.sparse;
    COUNTED(if (items != nullptr) moved(&items[blockIdx.x]);)
    COUNTED(moved(&queries[item.query]);)
    COUNTED(for (uint32_t i = lane; i < query.terms; i += WARP) moved(&terms[i]);)

    for (uint32_t i = lane; i < query.sparse; i += WARP) {
        const uint32_t* docs = reinterpret_cast<const uint32_t*>(terms[i].docs);
        cursors[i] = lower_bound(docs, 0, terms[i].count, item.begin << (segment.bits + group));
        nexts[i] = cursors[i] < terms[i].count ? docs[cursors[i]] : NONE;
        COUNTED(if (cursors[i] < terms[i].count) moved(&docs[cursors[i]]);)
    }
    __syncwarp();

    const auto peak_of = [&](uint32_t list, uint32_t tile) -> uint32_t {
        const uint16_t* peaks = reinterpret_cast<const uint16_t*>(dense[list].peaks);
        COUNTED(if (lane < (1u << group) && tile < tiles) moved(&peaks[tile]);)
        return lane < (1u << group) && tile < tiles ? peaks[tile] : 0;
    };
    // The next list's are loaded while one is looked at.
    uint32_t ahead = dense_count > 0 ? peak_of(dense_count - 1, (item.begin << group) + lane) : 0;

    uint64_t published = query.least;
    for (uint32_t number = item.begin; number < item.end; number++) {
        Window window{number << group, 1u << group, 0, 1};
        search.learn();
        search.top.share(&thresholds[item.query], published);
        for (uint32_t j = dense_count; j > 0; j--) {
            const Term& term = dense[j - 1];
            const uint32_t peak = ahead;
            if (j > 1) ahead = peak_of(j - 2, window.first + lane);
            else if (number + 1 < item.end) ahead = peak_of(dense_count - 1, window.first + window.tiles + lane);
            if (peak == 0) window.whole = 0;
            if (query.all == 0 || query.sparse + j == 1) {
                const uint32_t needed = search.needed();
                uint32_t limit = window.suffix >= needed ? 1 : rough_limit(term, needed - window.suffix);
                if (peak < limit || (query.all != 0 && window.whole == 0)) limit = NO_VALUE;
                drive_dense(search, queue, window, query.sparse + j - 1, limit);
            }
            // Lists before this one count on what it gives at most in the lane's tile.
            const uint32_t most = bound(term, peak);
            window.suffix += most;
            bounds[(j - 1) * WARP + lane] = most;
            __syncwarp();
        }
        const uint32_t end = window.first + window.tiles < tiles ? (window.first + window.tiles) << segment.bits : segment.docs;
        uint32_t rest = 0;
        for (uint32_t i = query.sparse; i > 0; i--) {
            uint32_t cursor = cursors[i - 1], next = nexts[i - 1];
            if (next >= end) {
                // AND finds nothing here without it.
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
    }
    if (search.waiting > 0) search.score_hopefuls();
    search.top.append(out_keys + uint64_t(query.first_slot) * stride, &key_counts[item.query]);
}
