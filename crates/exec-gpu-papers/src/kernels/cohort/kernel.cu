// A cohort of queries times the documents of a segment (Agrawal 2016, section 3.3.2): a warp
// takes a group of queries over a run of microtiles. Each list of the group's queries is read
// once per microtile, and added to the sums of all of them. Sums never leave shared memory; only
// the best k hits of each query are written.
//
// Sums are rough, in 15 bits, and never below the real ones. Two queries share a word: one load,
// one addition and one store serve both. A sum begins at 2^15 less what its query requires, so
// that bit 15 marks a candidate. The lane that adds sees the bit, and sums are scanned only if
// one is set. Candidates are scored exactly. For AND every list adds one, and the query requires
// as many as it has terms.
#include "tiles.cuh"
#include "topk.cuh"
#include "warp.cuh"

// Candidates that are scored at a time.
constexpr uint32_t CANDIDATES = 128;

// Words after the sums of a pair: padding is added to the first, and four keep rows aligned.
constexpr uint32_t SPARE = 4;

// Units of postings that are loaded at once.
constexpr uint32_t AHEAD = 4;

// The bits that mark candidates.
constexpr uint32_t REACHED = 0x8000, BOTH_REACHED = 0x80008000;

// Two postings that are padding.
constexpr uint32_t NOTHING = 0x80008000;

struct SharedList {
    uint64_t docs;
    uint64_t values;
    uint64_t roughs;
    uint64_t starts;
    uint32_t count;
    uint32_t first_entry;
    uint32_t entries;
    uint32_t unused;
};

struct Entry {
    uint32_t low_rough, high_rough;  // weights of a pair's queries, see `rough_contribution`
    uint32_t addend;
    uint32_t pair;
    float low_weight, high_weight;
    uint32_t low_shift, high_shift;
};

struct Group {
    uint32_t first_list;
    uint32_t sparse;
    uint32_t lists;
    uint32_t first_query;
    uint32_t queries;
    uint32_t unused[3];
};

struct Member {
    uint32_t list;  // its number in the group
    float weight;
};

// A dense list that is loaded to shared memory.
struct alignas(16) Near {
    uint64_t docs;
    uint64_t roughs;
    uint32_t first_entry;  // among the loaded entries
    uint32_t end_entry;
    uint32_t unused[2];
};

// Two postings per lane.
struct Unit {
    uint32_t positions;
    uint32_t roughs;
    uint32_t list;  // among the loaded lists; WARP if there is none
};

// Reads the postings of up to 32 lists in a microtile, one list after another.
struct Reader {
    const Near* lists;
    uint32_t begin, end;  // of the lane's list, in pairs of postings
    uint32_t left;        // lists not yet begun
    uint32_t list, at, stop;
    const uint32_t* docs;
    const uint32_t* roughs;

    __device__ void start(uint32_t begin_four, uint32_t end_four) {
        begin = 2 * begin_four;
        end = 2 * end_four;
        left = __ballot_sync(FULL_WARP, begin < end);
        at = stop = 0;
    }

    // Called by all lanes.
    __device__ __forceinline__ Unit next() {
        if (at >= stop) {
            if (left == 0) return Unit{NOTHING, 0, WARP};
            list = __ffs(left) - 1;
            left &= left - 1;
            at = __shfl_sync(FULL_WARP, begin, list);
            stop = __shfl_sync(FULL_WARP, end, list);
            docs = reinterpret_cast<const uint32_t*>(lists[list].docs);
            roughs = reinterpret_cast<const uint32_t*>(lists[list].roughs);
        }
        Unit unit{NOTHING, 0, list};
        const uint32_t mine = at + lane_id();
        if (mine < stop) {
            unit.positions = docs[mine];
            unit.roughs = roughs[mine];
        }
        at += WARP;
        return unit;
    }
};

// Calls `add` for the postings of a sparse list from `cursor` on that are before document `end`;
// returns how many there are.
template <class F>
__device__ uint32_t each_before(const SharedList& list, uint32_t cursor, uint32_t end, F add) {
    const uint32_t* docs = reinterpret_cast<const uint32_t*>(list.docs);
    uint32_t at = cursor;
    while (true) {
        const uint32_t mine = at + lane_id();
        const uint32_t doc = mine < list.count ? docs[mine] : 0xffffffffu;
        if (doc < end) add(doc, mine);
        const uint32_t found = __popc(__ballot_sync(FULL_WARP, doc < end));
        at += found;
        if (found < WARP) break;
    }
    __syncwarp();
    return at - cursor;
}

// A contribution in the rough units of a query that has the list.
__device__ __forceinline__ uint32_t whole_rough(float weight, float value, uint32_t shift) {
    return (contribution(weight, value) + ((1u << shift) - 1)) >> shift;
}

// Items are runs of microtiles of a group, each of 2^`shift` tiles; `most` is the largest number
// of queries of a group, `sparse` the largest number of sparse lists. `enough` has the number of
// hits that each query already has, or is null. A block is one warp. Dynamic shared memory: sums,
// loaded lists and what they add, keys, sums and positions of candidates, counts of keys, cursors
// of sparse lists and the documents there.
extern "C" __global__ void __launch_bounds__(WARP, 16)
    cohort(Segment segment, const Group* groups, const SharedList* all_lists, const Entry* all_entries, const Query* all_queries, const Member* all_members,
           const Item* items, uint64_t* all_matches, uint64_t* thresholds, uint32_t* histograms, const uint32_t* enough, uint64_t* out_keys,
           uint32_t* key_counts, uint32_t stride, uint64_t* global_keys, uint32_t capacity, uint32_t shift, uint32_t most, uint32_t sparse) {
    DYNAMIC_SHARED(uint32_t, sums);
    const uint32_t lane = lane_id();
    const Item item = items[blockIdx.x];
    const Group group = groups[item.query];
    const SharedList* lists = all_lists + group.first_list;
    const Query* queries = all_queries + group.first_query;
    const uint32_t tiles = (segment.docs + (1u << segment.bits) - 1) >> segment.bits;
    const uint32_t bits = segment.bits + shift, docs = 1u << bits, mask = docs - 1;
    const uint32_t row = docs + SPARE, pairs = (group.queries + 1) / 2, most_pairs = (most + 1) / 2;
    Near* near = reinterpret_cast<Near*>(sums + most_pairs * row);
    uint4* entries = reinterpret_cast<uint4*>(near + WARP);
    uint64_t* kept = reinterpret_cast<uint64_t*>(entries + WARP * most_pairs);
    uint32_t* exact = reinterpret_cast<uint32_t*>(kept + WARP * most);
    uint16_t* exact_positions = reinterpret_cast<uint16_t*>(exact + CANDIDATES);
    uint32_t* counts = reinterpret_cast<uint32_t*>(exact_positions + CANDIDATES);
    uint32_t* cursors = counts + most;
    uint32_t* nexts = cursors + sparse;

    // The state of query q is in lane q.
    uint64_t threshold = ~0ull;
    uint32_t static_most = 0, rough_shift = 0, asked = 0, matches = 0;
    bool counts_matches = false, answers = false;
    if (lane < group.queries) {
        const Query& query = queries[lane];
        answers = query.terms > 0 && !(enough != nullptr && enough[group.first_query + lane] >= query.k);
        if (answers) {
            threshold = query.least;
            static_most = query.static_most;
            rough_shift = query.rough_shift;
            asked = query.all != 0 ? query.terms : 0;
            counts_matches = query.count != 0 && query.all == 0;
        }
        counts[lane] = 0;
    }
    if (!__any_sync(FULL_WARP, answers)) return;
    for (uint32_t i = lane; i < WARP * group.queries; i += WARP) kept[i] = 0;
    for (uint32_t i = lane; i < group.sparse; i += WARP) {
        const uint32_t* of = reinterpret_cast<const uint32_t*>(lists[i].docs);
        cursors[i] = lower_bound(of, 0, lists[i].count, item.begin << bits);
        nexts[i] = cursors[i] < lists[i].count ? of[cursors[i]] : 0xffffffffu;
    }

    // Where the lane's list enters tiles.
    const uint32_t* starts = nullptr;
    auto start_of = [&](uint32_t micro) {
        const uint32_t tile = micro << shift;
        return starts != nullptr ? starts[tile < tiles ? tile : tiles] : 0;
    };
    // Loads dense lists from number `first` on.
    const uint32_t dense_count = group.lists - group.sparse;
    auto take = [&](uint32_t first) {
        __syncwarp();
        const bool has = first + lane < dense_count;
        SharedList list = {};
        if (has) list = lists[group.sparse + first + lane];
        starts = has ? reinterpret_cast<const uint32_t*>(list.starts) : nullptr;
        const uint32_t end = warp_inclusive_sum(list.entries);
        near[lane] = Near{list.docs, list.roughs, end - list.entries, end, {0, 0}};
        for (uint32_t i = 0; i < list.entries; i++) {
            const Entry& entry = all_entries[list.first_entry + i];
            entries[end - list.entries + i] = make_uint4(entry.low_rough, entry.high_rough, entry.addend, entry.pair);
        }
        __syncwarp();
    };
    take(0);

    uint32_t init = 0;  // the initial value of the sums of query `lane`
    auto clear = [&]() {
        const uint32_t score = uint32_t(threshold >> 32);
        const uint32_t needed = score > static_most ? score - static_most : 1;
        uint32_t least = answers ? (needed + ((1u << rough_shift) - 1)) >> rough_shift : REACHED;
        if (asked != 0) least = asked;
        init = least < REACHED ? REACHED - least : 0;
        for (uint32_t pair = 0; pair < pairs; pair++) {
            const uint32_t both = __shfl_sync(FULL_WARP, init, 2 * pair) | __shfl_sync(FULL_WARP, init, 2 * pair + 1) << 16;
            uint4* fours = reinterpret_cast<uint4*>(sums + pair * row);
            for (uint32_t i = lane; i < docs / FOUR; i += WARP) fours[i] = make_uint4(both, both, both, both);
            if (lane == 0) sums[pair * row + docs] = 0;
        }
        __syncwarp();
    };

    // bit 15 - p: the first query of pair p has a candidate; bit 31 - p: the second
    uint32_t reached = 0;
    auto add = [&](const Unit& unit) {
        const uint32_t x = unit.positions & 0xffff, y = unit.positions >> 16;
        const uint32_t at_x = is_fill(x) ? docs : x & mask, at_y = is_fill(y) ? docs : y & mask;
        const uint32_t value_x = unit.roughs & 0xffff, value_y = unit.roughs >> 16;
        const uint32_t end = near[unit.list].end_entry;
        for (uint32_t i = near[unit.list].first_entry; i < end; i++) {
            const uint4 entry = entries[i];
            uint32_t* of = sums + entry.w * row;
            // The high halves of both products, side by side.
            const uint32_t sum_x = of[at_x] + __byte_perm(entry.x * value_x, entry.y * value_x, 0x7632) + entry.z;
            const uint32_t sum_y = of[at_y] + __byte_perm(entry.x * value_y, entry.y * value_y, 0x7632) + entry.z;
            of[at_x] = sum_x;
            of[at_y] = sum_y;
            reached |= ((sum_x | sum_y) & BOTH_REACHED) >> entry.w;
        }
        // The next unit may belong to another list.
        __syncwarp();
    };

    Reader reader;
    reader.lists = near;
    uint32_t from = start_of(item.begin), to = start_of(item.begin + 1);
    for (uint32_t micro = item.begin; micro < item.end; micro++) {
        const uint32_t begin = micro << bits;
        const uint32_t end_doc = segment.docs - begin < docs ? segment.docs : begin + docs;
        uint64_t known = 0;
        if (answers) known = *reinterpret_cast<volatile uint64_t*>(&thresholds[group.first_query + lane]);
        reached = 0;
        uint32_t first = 0;
        do {
            if (dense_count > WARP) {
                take(first);
                from = start_of(micro);
                to = start_of(micro + 1);
            }
            reader.start(from, to);
            from = to;
            to = start_of(micro + 2);
            Unit units[AHEAD];
#pragma unroll
            for (uint32_t j = 0; j < AHEAD; j++) units[j] = reader.next();
            if (first == 0) clear();
            while (units[0].list < WARP) {
#pragma unroll
                for (uint32_t j = 0; j < AHEAD; j++) {
                    const Unit unit = units[j];
                    units[j] = reader.next();
                    if (unit.list < WARP) add(unit);
                }
            }
            first += WARP;
        } while (first < dense_count);

        for (uint32_t at = 0; at < group.sparse; at += WARP) {
            uint32_t hit = __ballot_sync(FULL_WARP, at + lane < group.sparse && nexts[at + lane] < end_doc);
            for (; hit != 0; hit &= hit - 1) {
                const uint32_t number = at + __ffs(hit) - 1;
                const SharedList list = lists[number];
                each_before(list, cursors[number], end_doc, [&](uint32_t doc, uint32_t posting) {
                    const float value = reinterpret_cast<const float*>(list.values)[posting];
                    for (uint32_t i = 0; i < list.entries; i++) {
                        const Entry entry = all_entries[list.first_entry + i];
                        uint32_t* sum = &sums[entry.pair * row + doc - begin];
                        if ((entry.addend & 0xffff) != 0) *sum += whole_rough(entry.low_weight, value, entry.low_shift);
                        if ((entry.addend >> 16) != 0) *sum += whole_rough(entry.high_weight, value, entry.high_shift) << 16;
                        reached |= (*sum & BOTH_REACHED) >> entry.pair;
                    }
                });
            }
        }
        reached = warp_or(reached);

        const bool looks = lane < group.queries && (counts_matches || (reached >> ((lane % 2 == 0 ? 15 : 31) - lane / 2) & 1) != 0);
        uint32_t looking = __ballot_sync(FULL_WARP, looks);
        for (; looking != 0; looking &= looking - 1) {
            const uint32_t q = __ffs(looking) - 1;
            const Query query = queries[q];
            uint32_t* pair = sums + q / 2 * row;
            const uint32_t half = q % 2 * 16, begun = __shfl_sync(FULL_WARP, init, q);
            if (__shfl_sync(FULL_WARP, uint32_t(counts_matches), q) != 0) {
                uint32_t found = 0;
                for (uint32_t i = lane; i < docs; i += WARP) {
                    const uint32_t sum = pair[i] >> half & 0xffff;
                    found += sum != begun && !is_deleted(segment, begin + i);
                }
                found = warp_sum(found);
                if (lane == q) matches += found;
            }
            // Candidates get numbers beside their bit.
            uint32_t candidates = 0;
            for (uint32_t i = lane; i < docs / FOUR; i += WARP) {
                const uint4 four = reinterpret_cast<uint4*>(pair)[i];
                const uint32_t any = ((four.x | four.y | four.z | four.w) >> half & REACHED);
                if (!__any_sync(FULL_WARP, any != 0)) continue;
                for (uint32_t j = 0; j < FOUR; j++) {
                    const uint32_t two = pair[FOUR * i + j];
                    const bool takes = (two >> half & REACHED) != 0;
                    const uint32_t takers = __ballot_sync(FULL_WARP, takes);
                    const uint32_t number = candidates + __popc(takers & ((1u << lane) - 1));
                    if (takes) pair[FOUR * i + j] = (two & ~(0xffffu << half)) | (REACHED | number) << half;
                    candidates += __popc(takers);
                }
            }
            __syncwarp();
            if (candidates == 0) continue;

            const uint64_t before = __shfl_sync(FULL_WARP, threshold, q);
            uint64_t* buffer = global_keys + (uint64_t(blockIdx.x) * most + q) * capacity;
            WarpTopK top(buffer, capacity, query.k, before);
            top.count = counts[q];
            top.mine = kept[q * WARP + lane];
            Histogram histogram{histograms + (group.first_query + q) * WARP, query.low, query.low_shift};
            for (uint32_t from_number = 0; from_number < candidates; from_number += CANDIDATES) {
                const uint32_t rest = candidates - from_number, count = rest < CANDIDATES ? rest : CANDIDATES;
                for (uint32_t i = lane; i < count; i += WARP) exact[i] = 0;
                __syncwarp();
                auto add_exact = [&](uint32_t position, float weight, const float* value) {
                    const uint32_t sum = pair[position] >> half & 0xffff;
                    const uint32_t number = (sum & (REACHED - 1)) - from_number;
                    if ((sum & REACHED) != 0 && number < CANDIDATES) {
                        exact[number] += contribution(weight, *value);
                        exact_positions[number] = uint16_t(position);
                    }
                };
                for (uint32_t i = 0; i < query.terms; i++) {
                    const Member member = all_members[query.first_term + i];
                    const SharedList list = lists[member.list];
                    const float* values = reinterpret_cast<const float*>(list.values);
                    if (list.starts == 0) {
                        each_before(list, cursors[member.list], end_doc,
                                    [&](uint32_t doc, uint32_t at) { add_exact(doc - begin, member.weight, &values[at]); });
                        continue;
                    }
                    const uint32_t* of = reinterpret_cast<const uint32_t*>(list.starts);
                    const uint32_t tile = micro << shift, last = tile + (1u << shift) < tiles ? tile + (1u << shift) : tiles;
                    const uint32_t end = of[last];
                    for (uint32_t at = of[tile] + lane; at < end; at += WARP) {
                        const ushort4 four = reinterpret_cast<const ushort4*>(list.docs)[at];
                        const float* value = values + uint64_t(at) * FOUR;
                        add_exact(four.x & mask, member.weight, value);
                        if (!is_fill(four.y)) add_exact(four.y & mask, member.weight, value + 1);
                        if (!is_fill(four.z)) add_exact(four.z & mask, member.weight, value + 2);
                        if (!is_fill(four.w)) add_exact(four.w & mask, member.weight, value + 3);
                    }
                    __syncwarp();
                }
                for (uint32_t i = lane; i - lane < count; i += WARP) {
                    uint64_t key = 0;
                    if (i < count) {
                        const uint32_t doc = begin + exact_positions[i];
                        if (!is_deleted(segment, doc)) key = hit_key(segment, doc, exact[i] + static_score(segment, query.static_weight, doc));
                    }
                    // The candidates of AND are its matches.
                    const uint32_t live = __popc(__ballot_sync(FULL_WARP, key != 0));
                    if (lane == q && query.all != 0) matches += live;
                    if (key > top.threshold) histogram.add(key);
                    top.offer(key);
                }
                __syncwarp();
            }
            kept[q * WARP + lane] = top.mine;
            if (lane == 0) counts[q] = top.count;
            // Shares the threshold with all items of the query.
            const uint64_t shown = histogram.threshold(histogram.read(), query.k);
            if (shown > top.threshold) top.threshold = shown;
            if (lane == q && top.threshold > threshold) {
                threshold = top.threshold;
                atomicMax(&thresholds[group.first_query + q], threshold);
            }
            __syncwarp();
        }
        if (known > threshold && answers) threshold = known;

        for (uint32_t at = 0; at < group.sparse; at += WARP) {
            uint32_t hit = __ballot_sync(FULL_WARP, at + lane < group.sparse && nexts[at + lane] < end_doc);
            for (; hit != 0; hit &= hit - 1) {
                const uint32_t number = at + __ffs(hit) - 1;
                const SharedList list = lists[number];
                const uint32_t cursor = cursors[number] + each_before(list, cursors[number], end_doc, [](uint32_t, uint32_t) {});
                __syncwarp();
                if (lane == 0) {
                    cursors[number] = cursor;
                    nexts[number] = cursor < list.count ? reinterpret_cast<const uint32_t*>(list.docs)[cursor] : 0xffffffffu;
                }
            }
        }
        __syncwarp();
    }

    for (uint32_t q = 0; q < group.queries; q++) {
        const uint32_t count = counts[q];
        if (count == 0) continue;
        const Query query = queries[q];
        WarpTopK top(global_keys + (uint64_t(blockIdx.x) * most + q) * capacity, capacity, query.k, __shfl_sync(FULL_WARP, threshold, q));
        top.count = count;
        top.mine = kept[q * WARP + lane];
        top.append(out_keys + uint64_t(query.first_slot) * stride, &key_counts[group.first_query + q]);
    }
    if (matches > 0) atomicAdd(&all_matches[group.first_query + lane], uint64_t(matches));
}
