// AND: a warp processes the lists of a query one after another over some tiles, shortest first.
// One bit per document says whether all lists so far contain it; the documents that remain after
// the last list are scored. The kernel does not read tiles in which the shortest list has no
// postings, lists after one that leaves no documents, or values of documents that do not match.
//
// `and_tiles` is for queries with so few terms that a cursor for each fits into shared memory.
// `and_tiles_many` has a cursor for the shortest list only, and searches the others from their
// start.
#include "tiles.cuh"
#include "topk.cuh"
#include "warp.cuh"

// Groups of four postings that a lane loads at once.
constexpr uint32_t BATCH = 4;

// Matches that are scored at a time.
constexpr uint32_t SCORED = 512;

// The bits of three lists in turn: of the list before, of the current one, and those being
// cleared for the next.
struct Bits {
    uint32_t* words;
    uint32_t size;  // words of the bits of one list
    uint32_t mask;  // for the bits of a position within them

    __device__ uint32_t* of(uint32_t list) const { return words + list % 3 * size; }

    __device__ bool has(uint32_t list, uint32_t position) const { return (of(list)[position / 32] >> (position % 32) & 1) != 0; }

    // Marks a document of a list if the list before contains it.
    __device__ bool note(uint32_t list, uint32_t position) const {
        if (list > 0 && !has(list - 1, position)) return false;
        atomicOr(&of(list)[position / 32], 1u << (position % 32));
        return true;
    }

    // Marks those of four postings that are not padding.
    __device__ bool note_four(uint32_t list, ushort4 four) const {
        bool noted = note(list, four.x & mask);
        if (!is_fill(four.y)) noted |= note(list, four.y & mask);
        if (!is_fill(four.z)) noted |= note(list, four.z & mask);
        if (!is_fill(four.w)) noted |= note(list, four.w & mask);
        return noted;
    }

    // Ends a list; true if any document remains.
    __device__ bool end(uint32_t list, bool noted) const {
        uint32_t* next = of(list + 1);
        if (list > 0) {
            for (uint32_t i = lane_id(); i < size; i += WARP) next[i] = 0;
        }
        bool any = __any_sync(FULL_WARP, noted);
        __syncwarp();
        return any;
    }
};

// The ranges of the postings of dense lists for some tiles, in groups of four: one list per lane,
// so that the warp waits only once for all of them.
struct Ranges {
    uint32_t begin;
    uint32_t end;

    // Loads the ranges of tiles `first` to `last`, for the first 32 lists.
    __device__ void load(const Term* dense, uint32_t count, uint32_t first, uint32_t last) {
        begin = end = 0;
        if (lane_id() < count) {
            const uint32_t* starts = reinterpret_cast<const uint32_t*>(dense[lane_id()].starts);
            begin = starts[first];
            end = starts[last];
            COUNTED(moved(&starts[first]), moved(&starts[last]);)
        }
    }

    // Returns the range of list number `list`. Called by all lanes.
    __device__ void get(const Term& term, uint32_t list, uint32_t first, uint32_t last, uint32_t& from, uint32_t& to) const {
        if (list < WARP) {
            from = __shfl_sync(FULL_WARP, begin, list);
            to = __shfl_sync(FULL_WARP, end, list);
        } else {
            const uint32_t* starts = reinterpret_cast<const uint32_t*>(term.starts);
            from = starts[first];
            to = starts[last];
            COUNTED(moved(&starts[first]), moved(&starts[last]);)
        }
    }
};

// The matches of some tiles, numbered in order.
struct Matches {
    Bits bits;
    uint32_t list;     // whose bits mark the matches
    uint16_t* before;  // number of matches before each word
    uint32_t from;     // matches from this number on are scored, at most SCORED
    uint32_t* sums;
    uint16_t* positions;

    __device__ void add(uint32_t position, float weight, const float* value) const {
        uint32_t word = bits.of(list)[position / 32], bit = 1u << (position % 32);
        if ((word & bit) == 0) return;
        uint32_t number = before[position / 32] + __popc(word & (bit - 1)) - from;
        // A list contains a document once, so the postings of one list never add to the same sum;
        // those of different lists do.
        if (number < SCORED) sums[number] += contribution(weight, *value);
        COUNTED(if (number < SCORED) moved(value);)
    }
};

// Positions at which the search for postings of sparse lists continues.
template <bool MANY>
struct Cursors {
    uint32_t* all;  // in shared memory, unless there are MANY
    uint32_t shortest;

    __device__ uint32_t of(uint32_t list) const { return !MANY ? all[list] : list == 0 ? shortest : 0; }

    // Stores a cursor. Called by all lanes, after all of them have read it.
    __device__ void put(uint32_t list, uint32_t cursor) {
        if (MANY && list == 0) shortest = cursor;
        if (!MANY && lane_id() == 0) all[list] = cursor;
    }
};

// The arguments of the kernels, as in `or_tiles`. Dynamic shared memory: cursors of sparse terms,
// the bits three times, the number of matches before each word, sums and positions of matches,
// and keys unless these are in global memory.
struct Arguments {
    const Query* queries;
    const Term* terms;
    const Item* items;
    uint64_t* matches;
    uint64_t* thresholds;
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
    const uint32_t group = arguments.group, capacity = arguments.capacity;
    DYNAMIC_SHARED(uint32_t, shared);
    const uint32_t lane = lane_id();
    const Item item = arguments.items[blockIdx.x];
    const Query query = arguments.queries[item.query];
    const uint32_t tiles = (segment.docs + (1u << segment.bits) - 1) >> segment.bits;
    const uint32_t shift = segment.bits + group, docs = 1u << shift;
    Cursors<MANY> cursors{shared, 0};
    const Bits bits{shared + (arguments.sparse + FOUR - 1) / FOUR * FOUR, docs / 32, docs - 1};
    Matches found{bits, query.terms - 1, reinterpret_cast<uint16_t*>(bits.words + 3 * bits.size), 0, nullptr, nullptr};
    found.sums = reinterpret_cast<uint32_t*>(found.before + bits.size);
    found.positions = reinterpret_cast<uint16_t*>(found.sums + SCORED);
    uint64_t* shared_keys = reinterpret_cast<uint64_t*>(found.positions + SCORED);
    uint64_t* keys = arguments.global_keys != nullptr ? arguments.global_keys + uint64_t(blockIdx.x) * capacity : shared_keys;
    WarpTopK top(keys, capacity, query.k, query.least);
    const Term* terms = arguments.terms + query.first_term;
    const Term* dense = terms + query.sparse;
    const uint32_t dense_count = query.terms - query.sparse;
    COUNTED(moved(&arguments.items[blockIdx.x]), moved(&arguments.queries[item.query]);)
    COUNTED(for (uint32_t i = lane; i < query.terms; i += WARP) moved(&terms[i]);)
    for (uint32_t i = lane; i < query.sparse && !MANY; i += WARP) cursors.all[i] = 0;
    for (uint32_t i = lane; i < 3 * bits.size; i += WARP) bits.words[i] = 0;
    __syncwarp();

    uint32_t all = 0;
    uint64_t published = query.least;
    Ranges ranges, next;
    const auto end_of = [&](uint32_t tile) { return ((tile + 1) << group) < tiles ? (tile + 1) << group : tiles; };
    if (query.sparse == 0) next.load(dense, dense_count, item.begin << group, end_of(item.begin));
    for (uint32_t tile = item.begin; tile < item.end; tile++) {
        if (query.sparse > 0) {
            // Continue with the next tile in which the shortest list has postings.
            const uint32_t* of = reinterpret_cast<const uint32_t*>(terms[0].docs);
            uint32_t at = lower_bound(of, cursors.of(0), terms[0].count, tile << shift);
            __syncwarp();
            cursors.put(0, at);
            __syncwarp();
            tile = at < terms[0].count ? of[at] >> shift : item.end;
            if (tile >= item.end) break;
        }
        const uint32_t begin = tile << shift;
        const uint32_t end = segment.docs - begin < docs ? segment.docs : begin + docs;
        const uint32_t first = tile << group, last = end_of(tile);
        if (query.sparse == 0) {
            ranges = next;
            if (tile + 1 < item.end) next.load(dense, dense_count, last, end_of(tile + 1));
        } else {
            ranges.load(dense, dense_count, first, last);
        }

        bool any = true;
        for (uint32_t list = 0; list < query.terms && any; list++) {
            const Term term = terms[list];
            bool noted = false;
            if (list < query.sparse) {
                const uint32_t* of = reinterpret_cast<const uint32_t*>(term.docs);
                uint32_t from = lower_bound(of, cursors.of(list), term.count, begin);
                __syncwarp();
                cursors.put(list, from);
                for (uint32_t i = from + lane; i < term.count && of[i] < end; i += WARP) noted |= bits.note(list, of[i] - begin);
                COUNTED(for (uint32_t i = from + lane; i < term.count && of[i] < end; i += WARP) moved(&of[i]);)
            } else {
                const ushort4* of = reinterpret_cast<const ushort4*>(term.docs);
                uint32_t from, to;
                ranges.get(term, list - query.sparse, first, last, from, to);
                for (uint32_t at = from + lane; at < to; at += BATCH * WARP) {
                    ushort4 positions[BATCH];
#pragma unroll
                    for (uint32_t j = 0; j < BATCH; j++) {
                        if (at + j * WARP < to) positions[j] = of[at + j * WARP];
                        COUNTED(if (at + j * WARP < to) moved(&of[at + j * WARP]);)
                    }
#pragma unroll
                    for (uint32_t j = 0; j < BATCH; j++) {
                        if (at + j * WARP < to) noted |= bits.note_four(list, positions[j]);
                    }
                }
            }
            any = bits.end(list, noted);
        }

        if (any) {
            uint32_t total = 0;
            for (uint32_t i = lane; i < bits.size; i += WARP) {
                uint32_t here = __popc(bits.of(found.list)[i]);
                uint32_t sum = warp_inclusive_sum(here);
                found.before[i] = uint16_t(total + sum - here);
                total += __shfl_sync(FULL_WARP, sum, WARP - 1);
            }
            for (found.from = 0; found.from < total; found.from += SCORED) {
                const uint32_t count = total - found.from < SCORED ? total - found.from : SCORED;
                for (uint32_t i = lane; i < count; i += WARP) found.sums[i] = 0;
                for (uint32_t i = lane; i < bits.size; i += WARP) {
                    uint32_t left = bits.of(found.list)[i];
                    for (uint32_t number = found.before[i] - found.from; left != 0; left &= left - 1, number++) {
                        if (number < SCORED) found.positions[number] = uint16_t(32 * i + __ffs(left) - 1);
                    }
                }
                __syncwarp();
                for (uint32_t list = 0; list < query.terms; list++) {
                    const Term term = terms[list];
                    const float* values = reinterpret_cast<const float*>(term.values);
                    if (list < query.sparse) {
                        const uint32_t* of = reinterpret_cast<const uint32_t*>(term.docs);
                        const uint32_t from = MANY ? lower_bound(of, cursors.of(list), term.count, begin) : cursors.of(list);
                        for (uint32_t i = from + lane; i < term.count && of[i] < end; i += WARP) found.add(of[i] - begin, term.weight, &values[i]);
                        COUNTED(for (uint32_t i = from + lane; i < term.count && of[i] < end; i += WARP) moved(&of[i]);)
                    } else {
                        const ushort4* of = reinterpret_cast<const ushort4*>(term.docs);
                        uint32_t from, to;
                        ranges.get(term, list - query.sparse, first, last, from, to);
                        for (uint32_t at = from + lane; at < to; at += WARP) {
                            const ushort4 positions = of[at];
                            COUNTED(moved(&of[at]);)
                            const float* four = values + uint64_t(at) * FOUR;
                            found.add(positions.x & bits.mask, term.weight, four);
                            if (!is_fill(positions.y)) found.add(positions.y & bits.mask, term.weight, four + 1);
                            if (!is_fill(positions.z)) found.add(positions.z & bits.mask, term.weight, four + 2);
                            if (!is_fill(positions.w)) found.add(positions.w & bits.mask, term.weight, four + 3);
                        }
                    }
                    __syncwarp();
                }
                for (uint32_t i = lane; i - lane < count; i += WARP) {
                    uint64_t key = 0;
                    if (i < count) {
                        const uint32_t doc = begin + found.positions[i];
                        if (!is_out(segment, query, doc)) {
                            all++;
                            key = hit_key(segment, doc, found.sums[i] + static_score(segment, query.static_weight, doc));
                        }
                    }
                    top.offer(key);
                }
                __syncwarp();
            }
            top.share(&arguments.thresholds[item.query], published);
        }
        for (uint32_t i = lane; i < 3 * bits.size; i += WARP) bits.words[i] = 0;
        __syncwarp();
    }
    top.append(arguments.out_keys + uint64_t(query.first_slot) * arguments.stride, &arguments.key_counts[item.query]);
    all = warp_sum(all);
    if (lane == 0 && all > 0) atomicAdd(&arguments.matches[item.query], uint64_t(all));
    COUNTED(if (lane == 0 && all > 0) moved(&arguments.matches[item.query]);)
}

// Only OR uses `enough`.
#define AND_TILES(name, MANY)                                                                                                                          \
    extern "C" __global__ void __launch_bounds__(WARP, 24)                                                                                             \
        name(Segment segment, const Query* queries, const Term* terms, const Item* items, uint64_t* matches, uint64_t* thresholds,                     \
             const uint32_t* enough, uint64_t* out_keys, uint32_t* key_counts, uint32_t stride, uint64_t* global_keys, uint32_t capacity,              \
             uint32_t sparse, uint32_t group) {                                                                                                        \
        search_tiles<MANY>(segment,                                                                                                                    \
                           Arguments{queries, terms, items, matches, thresholds, out_keys, key_counts, stride, global_keys, capacity, sparse, group}); \
    }

AND_TILES(and_tiles, false)
AND_TILES(and_tiles_many, true)
