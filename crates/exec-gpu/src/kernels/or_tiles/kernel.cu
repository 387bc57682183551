// OR: a warp adds up upper bounds of what a query's terms contribute, tile by tile, in 16-bit
// sums in shared memory. Documents whose sum reaches the threshold are candidates; they are
// scored exactly, and the best k are kept.
//
// A list contains a document once, so the postings of one list are added without atomics; the
// warp synchronises between lists. The postings of the first lists are loaded one tile ahead.
//
// `or_tiles` is for queries with so few terms that their sums fit into 16 bits and their cursors
// into shared memory. `or_tiles_many` has neither limit. A sum that would not fit stays at the
// largest number, to which every threshold is clamped, so that the document is a candidate; and
// postings of sparse lists are searched for again in each tile.
#include "tiles.cuh"
#include "topk.cuh"
#include "warp.cuh"

// Dense lists whose postings are loaded ahead, up to one group of four per lane.
constexpr uint32_t AHEAD = 4;

// Candidates that are scored at a time.
constexpr uint32_t CANDIDATES = 128;

// The data of a dense list that the additions need.
struct List {
    const ushort4* docs;
    const ushort4* roughs;
    uint32_t weight;

    __device__ void open(const Term& term) {
        docs = reinterpret_cast<const ushort4*>(term.docs);
        roughs = reinterpret_cast<const ushort4*>(term.roughs);
        weight = term.rough_weight;
    }
};

// The largest possible rough sum.
constexpr uint32_t LARGEST = 0xffff;

// The rough sums of a tile.
template <bool MANY>
struct Sums {
    uint16_t* sums;
    uint32_t mask;  // for the bits of a position within the tile

    __device__ __forceinline__ static uint32_t kept(uint32_t sum) { return MANY && sum > LARGEST ? LARGEST : sum; }

    // Adds a lane's four postings and returns the largest sum.
    __device__ __forceinline__ uint32_t add(ushort4 positions, ushort4 values, uint32_t weight) const {
        uint16_t* at_x = &sums[positions.x & mask];
        uint16_t* at_y = &sums[positions.y & mask];
        uint16_t* at_z = &sums[positions.z & mask];
        uint16_t* at_w = &sums[positions.w & mask];
        uint32_t x = kept(*at_x + rough_contribution(weight, values.x)), y = 0, z = 0, w = 0;
        if (!is_fill(positions.y)) y = kept(*at_y + rough_contribution(weight, values.y));
        if (!is_fill(positions.z)) z = kept(*at_z + rough_contribution(weight, values.z));
        if (!is_fill(positions.w)) w = kept(*at_w + rough_contribution(weight, values.w));
        *at_x = uint16_t(x);
        if (!is_fill(positions.y)) *at_y = uint16_t(y);
        if (!is_fill(positions.z)) *at_z = uint16_t(z);
        if (!is_fill(positions.w)) *at_w = uint16_t(w);
        uint32_t xy = x > y ? x : y, zw = z > w ? z : w;
        return xy > zw ? xy : zw;
    }
};

// Exact sums of candidates. A candidate's number, counted from 1, replaces its rough sum.
struct Exact {
    const uint16_t* numbers;
    uint32_t from;  // candidates from this number on are scored, at most CANDIDATES
    uint32_t* sums;
    uint16_t* positions;

    __device__ void add(uint32_t position, float weight, const float* value) const {
        uint32_t number = numbers[position] - from;
        if (number < CANDIDATES) {
            COUNTED(moved(value);)
            sums[number] += contribution(weight, *value);
            positions[number] = uint16_t(position);
        }
    }
};

// Calls `add` for the postings of a sparse term from its cursor to document `end`, and returns
// their number.
template <class F>
__device__ uint32_t each_sparse(const Term& term, uint32_t cursor, uint32_t end, F add) {
    const uint32_t* docs = reinterpret_cast<const uint32_t*>(term.docs);
    uint32_t at = cursor;
    while (true) {
        uint32_t mine = at + lane_id();
        uint32_t doc = mine < term.count ? docs[mine] : 0xffffffffu;
        COUNTED(if (mine < term.count) moved(&docs[mine]);)
        if (doc < end) add(doc, mine);
        uint32_t found = __popc(__ballot_sync(FULL_WARP, doc < end));
        at += found;
        if (found < WARP) break;
    }
    __syncwarp();
    return at - cursor;
}

// The sparse lists of a query.
template <bool MANY>
struct SparseLists {
    const Term* terms;
    uint32_t count;
    uint32_t* cursors;  // in shared memory, unless there are MANY

    // Calls the function with list, document and number of each posting whose document is at
    // least `begin` and below `end`. Called by all lanes.
    template <class F>
    __device__ __forceinline__ void each(uint32_t begin, uint32_t end, F add) const {
        if constexpr (!MANY) {
            for (uint32_t i = 0; i < count; i++) each_sparse(terms[i], cursors[i], end, [&](uint32_t doc, uint32_t at) { add(terms[i], doc, at); });
        } else {
            // One list per lane; most have no postings in the tile.
            for (uint32_t first = 0; first < count; first += WARP) {
                uint32_t cursor = 0;
                bool here = false;
                if (first + lane_id() < count) {
                    const Term& term = terms[first + lane_id()];
                    const uint32_t* docs = reinterpret_cast<const uint32_t*>(term.docs);
                    cursor = lower_bound(docs, 0, term.count, begin);
                    here = cursor < term.count && docs[cursor] < end;
                }
                for (uint32_t left = __ballot_sync(FULL_WARP, here); left != 0; left &= left - 1) {
                    const uint32_t list = __ffs(left) - 1;
                    const Term& term = terms[first + list];
                    each_sparse(term, __shfl_sync(FULL_WARP, cursor, list), end, [&](uint32_t doc, uint32_t at) { add(term, doc, at); });
                }
            }
        }
    }

    // Advances the cursors to document `end`. Called by all lanes.
    __device__ __forceinline__ void advance(uint32_t end) const {
        for (uint32_t i = 0; i < count && !MANY; i++) {
            uint32_t passed = each_sparse(terms[i], cursors[i], end, [](uint32_t, uint32_t) {});
            if (lane_id() == 0) cursors[i] += passed;
        }
    }
};

// The arguments of the kernels. `thresholds` holds the lower bounds of each query's k-th best key
// that its items share; `enough` has the number of hits that each query already has, or is null.
// `sparse` is the largest number of sparse terms of a query, 0 with MANY; 2^`group` tiles are
// processed at once. A block is one warp. Dynamic shared memory: rough sums, cursors of sparse
// terms, sums and positions of candidates, and keys unless these are in global memory.
struct Arguments {
    const Query* queries;
    const Term* terms;
    const Item* items;
    uint64_t* matches;
    uint64_t* thresholds;
    const uint32_t* enough;
    uint64_t* out_keys;
    uint32_t* key_counts;
    uint32_t stride;
    uint64_t* global_keys;
    uint32_t capacity;
    uint32_t sparse;
    uint32_t group;
};

template <bool MANY>
__device__ __forceinline__ void search_tiles(const Segment& segment, const Arguments& arguments) {
    const uint32_t group = arguments.group, capacity = arguments.capacity, sparse = arguments.sparse;
    DYNAMIC_SHARED(uint32_t, shared);
    const uint32_t lane = lane_id();
    const Item item = arguments.items[blockIdx.x];
    const Query query = arguments.queries[item.query];
    if (arguments.enough != nullptr && arguments.enough[item.query] >= query.k) return;
    COUNTED(moved(&arguments.items[blockIdx.x]), moved(&arguments.queries[item.query]);)
    const uint32_t tiles = (segment.docs + (1u << segment.bits) - 1) >> segment.bits;
    const uint32_t bits = segment.bits + group, docs = 1u << bits;
    const Sums<MANY> sums{reinterpret_cast<uint16_t*>(shared), docs - 1};
    uint32_t* cursors = shared + docs / 2;
    Exact exact{sums.sums, 0, cursors + (sparse + FOUR - 1) / FOUR * FOUR, nullptr};
    exact.positions = reinterpret_cast<uint16_t*>(exact.sums + CANDIDATES);
    uint64_t* shared_keys = reinterpret_cast<uint64_t*>(exact.positions + CANDIDATES);
    uint64_t* keys = arguments.global_keys != nullptr ? arguments.global_keys + uint64_t(blockIdx.x) * capacity : shared_keys;
    WarpTopK top(keys, capacity, query.k, query.least);
    const Term* terms = arguments.terms + query.first_term;
    const SparseLists<MANY> sparse_lists{terms, query.sparse, cursors};
    const Term* dense = terms + query.sparse;
    const uint32_t dense_count = query.terms - query.sparse;

    uint4* eights = reinterpret_cast<uint4*>(shared);
    for (uint32_t i = lane; i < docs / 8; i += WARP) eights[i] = make_uint4(0, 0, 0, 0);
    for (uint32_t i = lane; i < query.sparse && !MANY; i += WARP) {
        cursors[i] = lower_bound(reinterpret_cast<const uint32_t*>(terms[i].docs), 0, terms[i].count, item.begin << bits);
    }
    COUNTED(for (uint32_t i = lane; i < query.terms; i += WARP) moved(&terms[i]);)
    __syncwarp();

    List lists[AHEAD];
    Starts starts[AHEAD];
    ushort4 positions[AHEAD], values[AHEAD];
    uint32_t there = 0;  // one bit for each list that has a group of four for this lane
#pragma unroll
    for (uint32_t j = 0; j < AHEAD; j++) {
        if (j < dense_count) {
            lists[j].open(dense[j]);
            starts[j].load(dense[j], item.begin, group, tiles);
            uint32_t at = starts[j].begin(0) + lane;
            if (at < starts[j].end(0)) {
                positions[j] = lists[j].docs[at];
                values[j] = lists[j].roughs[at];
                COUNTED(moved(&lists[j].docs[at]), moved(&lists[j].roughs[at]);)
                there |= 1u << j;
            }
        }
    }

    uint32_t matches = 0;
    uint64_t published = query.least;
    uint32_t in_window = 0;
    for (uint32_t tile = item.begin; tile < item.end; tile++) {
        // A document with a rough sum below this cannot become a hit. The sum of a document with
        // postings is never 0.
        const uint32_t threshold = uint32_t(top.threshold >> 32);
        const uint32_t needed = threshold > query.static_most ? threshold - query.static_most : 1;
        const uint32_t unit = 1u << query.rough_shift;
        const uint32_t least = Sums<MANY>::kept((needed + unit - 1) >> query.rough_shift);
        uint32_t most = 0;
        const bool slides = in_window + 1 == WINDOW;
        const uint32_t next = slides ? 0 : in_window + 1;
        uint32_t there_next = 0;
#pragma unroll
        for (uint32_t j = 0; j < AHEAD; j++) {
            if (j < dense_count) {
                const ushort4 positions_now = positions[j], values_now = values[j];
                const uint32_t end = starts[j].end(in_window);
                uint32_t rest = starts[j].begin(in_window) + WARP + lane;
                if (slides) starts[j].load(dense[j], tile + 1, group, tiles);
                const uint32_t at = starts[j].begin(next) + lane, next_end = starts[j].end(next);
                if (at < next_end && tile + 1 < item.end) {
                    positions[j] = lists[j].docs[at];
                    values[j] = lists[j].roughs[at];
                    COUNTED(moved(&lists[j].docs[at]), moved(&lists[j].roughs[at]);)
                    there_next |= 1u << j;
                }
                uint32_t largest = 0;
                if ((there >> j & 1) != 0) largest = sums.add(positions_now, values_now, lists[j].weight);
                most = largest > most ? largest : most;
                for (; rest < end; rest += WARP) {
                    largest = sums.add(lists[j].docs[rest], lists[j].roughs[rest], lists[j].weight);
                    COUNTED(moved(&lists[j].docs[rest]), moved(&lists[j].roughs[rest]);)
                    most = largest > most ? largest : most;
                }
                __syncwarp();
            }
        }
        there = there_next;
        in_window = next;
        const uint32_t first = tile << group, last = first + (1u << group) < tiles ? first + (1u << group) : tiles;
        for (uint32_t j = AHEAD; j < dense_count; j++) {
            List list;
            list.open(dense[j]);
            const uint32_t* of = reinterpret_cast<const uint32_t*>(dense[j].starts);
            const uint32_t end = of[last];
            COUNTED(moved(&of[first]), moved(&of[last]);)
            for (uint32_t at = of[first] + lane; at < end; at += WARP) {
                COUNTED(moved(&list.docs[at]), moved(&list.roughs[at]);)
                uint32_t largest = sums.add(list.docs[at], list.roughs[at], list.weight);
                most = largest > most ? largest : most;
            }
            __syncwarp();
        }
        const uint32_t begin = tile << bits;
        const uint32_t end_doc = segment.docs - begin < docs ? segment.docs : begin + docs;
        sparse_lists.each(begin, end_doc, [&](const Term& term, uint32_t doc, uint32_t at) {
            const float* of = reinterpret_cast<const float*>(term.values);
            COUNTED(moved(&of[at]);)
            uint32_t share = (contribution(term.weight, of[at]) + unit - 1) >> query.rough_shift;
            uint32_t sum = Sums<MANY>::kept(sums.sums[doc - begin] + share);
            sums.sums[doc - begin] = uint16_t(sum);
            most = sum > most ? sum : most;
        });

        if (!__any_sync(FULL_WARP, most >= least || query.count != 0)) {
            for (uint32_t i = lane; i < docs / 8; i += WARP) eights[i] = make_uint4(0, 0, 0, 0);
        } else {
            // Candidates get numbers, all other documents 0.
            uint32_t candidates = 0;
            for (uint32_t i = lane; i < docs / 2; i += WARP) {
                uint32_t two = shared[i];
                uint32_t low = two & 0xffff, high = two >> 16;
                if (query.count != 0) {
                    matches += low != 0 && !is_out(segment, query, begin + 2 * i);
                    matches += high != 0 && !is_out(segment, query, begin + 2 * i + 1);
                }
                bool takes_low = low >= least, takes_high = high >= least;
                if (query.mask != 0) {
                    takes_low = takes_low && !is_out(segment, query, begin + 2 * i);
                    takes_high = takes_high && !is_out(segment, query, begin + 2 * i + 1);
                }
                uint32_t lows = __ballot_sync(FULL_WARP, takes_low), highs = __ballot_sync(FULL_WARP, takes_high);
                uint32_t before = (1u << lane) - 1;
                uint32_t number = candidates + __popc(lows & before) + __popc(highs & before) + 1;
                uint32_t numbers = takes_low ? number : 0;
                if (takes_high) numbers |= (number + takes_low) << 16;
                shared[i] = numbers;
                candidates += __popc(lows) + __popc(highs);
            }
            __syncwarp();
            for (exact.from = 1; exact.from <= candidates; exact.from += CANDIDATES) {
                const uint32_t left = candidates - exact.from + 1, count = left < CANDIDATES ? left : CANDIDATES;
                for (uint32_t i = lane; i < count; i += WARP) exact.sums[i] = 0;
                __syncwarp();
                sparse_lists.each(begin, end_doc, [&](const Term& term, uint32_t doc, uint32_t at) {
                    exact.add(doc - begin, term.weight, reinterpret_cast<const float*>(term.values) + at);
                });
                for (uint32_t j = 0; j < dense_count; j++) {
                    const Term term = dense[j];
                    const uint32_t* of = reinterpret_cast<const uint32_t*>(term.starts);
                    const uint32_t end = of[last];
                    COUNTED(moved(&of[first]), moved(&of[last]);)
                    for (uint32_t at = of[first] + lane; at < end; at += WARP) {
                        COUNTED(moved(reinterpret_cast<const ushort4*>(term.docs) + at);)
                        const ushort4 four = reinterpret_cast<const ushort4*>(term.docs)[at];
                        const float* value = reinterpret_cast<const float*>(term.values) + uint64_t(at) * FOUR;
                        exact.add(four.x & sums.mask, term.weight, value);
                        if (!is_fill(four.y)) exact.add(four.y & sums.mask, term.weight, value + 1);
                        if (!is_fill(four.z)) exact.add(four.z & sums.mask, term.weight, value + 2);
                        if (!is_fill(four.w)) exact.add(four.w & sums.mask, term.weight, value + 3);
                    }
                    __syncwarp();
                }
                for (uint32_t i = lane; i - lane < count; i += WARP) {
                    uint64_t key = 0;
                    if (i < count) {
                        const uint32_t doc = begin + exact.positions[i];
                        if (query.mask != 0 || !is_deleted(segment, doc)) key = hit_key(segment, doc, exact.sums[i] + static_score(segment, query.static_weight, doc));
                    }
                    top.offer(key);
                }
                __syncwarp();
            }
            for (uint32_t i = lane; i < docs / 8; i += WARP) eights[i] = make_uint4(0, 0, 0, 0);
            top.share(&arguments.thresholds[item.query], published);
        }
        sparse_lists.advance(end_doc);
        __syncwarp();
    }
    top.append(arguments.out_keys + uint64_t(query.first_slot) * arguments.stride, &arguments.key_counts[item.query]);
    matches = warp_sum(matches);
    if (lane == 0 && matches > 0) atomicAdd(&arguments.matches[item.query], uint64_t(matches));
    COUNTED(if (lane == 0 && matches > 0) moved(&arguments.matches[item.query]);)
}

#define OR_TILES(name, MANY)                                                                                                                           \
    extern "C" __global__ void __launch_bounds__(WARP, 20)                                                                                             \
        name(Segment segment, const Query* queries, const Term* terms, const Item* items, uint64_t* matches, uint64_t* thresholds,                     \
             const uint32_t* enough, uint64_t* out_keys, uint32_t* key_counts, uint32_t stride, uint64_t* global_keys, uint32_t capacity,              \
             uint32_t sparse, uint32_t group) {                                                                                                        \
        search_tiles<MANY>(segment, Arguments{queries, terms, items, matches, thresholds, enough, out_keys, key_counts, stride, global_keys, capacity, \
                                              sparse, group});                                                                                         \
    }

OR_TILES(or_tiles, false)
OR_TILES(or_tiles_many, true)
