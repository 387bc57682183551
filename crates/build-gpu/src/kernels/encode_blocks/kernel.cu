// Encodes full blocks of 128 postings in the codec `bitpack`
// (docs/reference/formats/postings.md), one block per warp, and finds the pairs that determine
// their bounds. A list consists of pieces, one for each batch of documents that has its term,
// which are read as one. The first kernel computes how many bytes each block takes, so that the
// host can place it; the second one writes the blocks.
#include "scan.cuh"
#include "slots.cuh"
#include "warp.cuh"

constexpr uint32_t WARPS = 4;
constexpr uint32_t EACH = BLOCK / WARP;
constexpr uint32_t PATCHES = 0x80;
// Pairs of a block that are kept; the host finds those of the few blocks that have more.
constexpr uint32_t PAIRS = 7;
constexpr uint32_t TOO_MANY = 0xffffffffu;

struct Lists {
    uint64_t starts;  // uint32_t per piece: how many postings come before it; one more than pieces
    uint64_t docs;    // uint64_t per piece: the address of its documents
    uint64_t freqs;   // and of its frequencies
    uint64_t blocks;  // Start per block
    uint32_t pieces;
    uint32_t count;   // blocks
};

struct Start {
    uint32_t at;        // postings that come before it
    uint32_t is_first;  // 1 if it is the first block of its list
    uint32_t field;     // the field of the list
};

// (frequency, length) such that no other posting has at least this frequency and at most this
// length, unless it equals both; sorted by frequency.
struct Front {
    uint32_t count;  // TOO_MANY if the host must find them
    float cosine;    // the largest weight
    uint2 pairs[PAIRS];
};

// The numbers that bounds are computed from.
struct Documents {
    uint64_t lengths;  // uint32_t by document and field
    uint64_t norms;    // float by document
    uint64_t logs;     // float by frequency: its logarithm plus one
    uint32_t logs_len;
    uint32_t fields;   // of a document
};

// A block whose postings 4 * lane to 4 * lane + 3 are the lane's.
struct Postings {
    uint32_t docs[EACH];
    uint32_t gaps[EACH];
    uint32_t freqs[EACH];  // less one
};

__device__ __forceinline__ uint32_t piece_of(const Lists& lists, uint32_t posting) {
    const uint32_t* starts = reinterpret_cast<const uint32_t*>(lists.starts);
    uint32_t from = 0, to = lists.pieces;
    while (to - from > 1) {
        const uint32_t middle = from + (to - from) / 2;
        if (__ldg(starts + middle) <= posting) from = middle;
        else to = middle;
    }
    return from;
}

__device__ __forceinline__ Postings load(const Lists& lists, uint32_t block) {
    const uint32_t* starts = reinterpret_cast<const uint32_t*>(lists.starts);
    const uint64_t* docs = reinterpret_cast<const uint64_t*>(lists.docs);
    const uint64_t* freqs = reinterpret_cast<const uint64_t*>(lists.freqs);
    const Start start = reinterpret_cast<const Start*>(lists.blocks)[block];
    // The posting before the block belongs to the same list, unless there is none.
    const uint32_t before = start.is_first != 0 ? start.at : start.at - 1, first = piece_of(lists, before);
    uint32_t piece = first;
    Postings found;
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++) {
        const uint32_t at = start.at + EACH * lane_id() + j;
        while (__ldg(starts + piece + 1) <= at) piece++;
        const uint32_t within = at - __ldg(starts + piece);
        found.docs[j] = __ldg(reinterpret_cast<const uint32_t*>(__ldg(docs + piece)) + within);
        found.freqs[j] = __ldg(reinterpret_cast<const uint32_t*>(__ldg(freqs + piece)) + within) - 1;
    }
    uint32_t last = __shfl_up_sync(FULL_WARP, found.docs[EACH - 1], 1);
    if (lane_id() == 0) last = start.is_first != 0 ? 0xffffffffu : __ldg(reinterpret_cast<const uint32_t*>(__ldg(docs + first)) + (before - __ldg(starts + first)));
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++) {
        found.gaps[j] = found.docs[j] - last - 1;
        last = found.docs[j];
    }
    return found;
}

__device__ __forceinline__ uint32_t width_of(const uint32_t values[EACH]) { return 32 - __clz(warp_or(values[0] | values[1] | values[2] | values[3])); }

// The number of values that do not fit.
__device__ __forceinline__ uint32_t wider_than(const uint32_t values[EACH], uint32_t width) {
    uint32_t mine = 0;
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++) mine += (values[j] >> width) != 0;
    return warp_sum(mine);
}

// Widths of gaps and frequencies, and how many frequencies are patched.
struct Shape {
    uint32_t gaps;
    uint32_t freqs;
    uint32_t patches;

    __device__ __forceinline__ explicit Shape(const Postings& postings) : gaps(width_of(postings.gaps)), freqs(width_of(postings.freqs)), patches(0) {
        // The width with the fewest bytes, the widest such one. A patch takes two bytes, and
        // holds eight bits above a width of at most 24.
        const uint32_t widest = freqs;
        uint32_t best = BLOCK / 8 * widest;
        for (uint32_t width = widest; width > 0 && width + 8 > widest;) {
            width--;
            if (width > 24) continue;
            const uint32_t wider = wider_than(postings.freqs, width), bytes = BLOCK / 8 * width + 2 * wider;
            if (bytes < best) best = bytes, freqs = width, patches = wider;
        }
    }

    __device__ __forceinline__ uint32_t bytes() const { return 2 + BLOCK / 8 * (gaps + freqs) + 2 * patches; }
};

// Bytes of each block.
extern "C" __global__ void __launch_bounds__(WARPS* WARP) measure_blocks(Lists lists, uint32_t* __restrict__ bytes) {
    const uint32_t block = blockIdx.x * WARPS + warp_id();
    if (block >= lists.count) return;
    const Shape shape(load(lists, block));
    if (lane_id() == 0) bytes[block] = shape.bytes();
}

// Packs values in four streams: each lane's first in one, the second in the next. `words` belong
// to the warp.
__device__ __forceinline__ void pack(const uint32_t values[EACH], uint32_t width, uint32_t words[BLOCK], uint8_t* out) {
    __syncwarp();
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++) words[j * WARP + lane_id()] = 0;
    __syncwarp();
    const uint32_t bit = lane_id() * width;
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++) {
        const uint64_t bits = uint64_t(values[j] & mask_of(width)) << bit % 32;
        if (uint32_t(bits) != 0) atomicOr(&words[EACH * (bit / 32) + j], uint32_t(bits));
        if (uint32_t(bits >> 32) != 0) atomicOr(&words[EACH * (bit / 32 + 1) + j], uint32_t(bits >> 32));
    }
    __syncwarp();
    for (uint32_t i = lane_id(); i < BLOCK / 8 * width; i += WARP) out[i] = uint8_t(words[i / 4] >> i % 4 * 8);
}

// The block's front, for a list of this field. `others` has space for its pairs and belongs to
// the warp.
__device__ __forceinline__ void find_front(const Postings& postings, const Documents& documents, uint32_t field, uint2 others[BLOCK], Front& front) {
    uint32_t lengths[EACH];
    float cosine = 0;
    bool known = true;
    __syncwarp();
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++) {
        const uint32_t freq = postings.freqs[j] + 1, doc = postings.docs[j];
        lengths[j] = __ldg(reinterpret_cast<const uint32_t*>(documents.lengths) + size_t(doc) * documents.fields + field);
        if (freq < documents.logs_len) cosine = fmaxf(cosine, fminf(__fdiv_rn(__ldg(reinterpret_cast<const float*>(documents.logs) + freq), __ldg(reinterpret_cast<const float*>(documents.norms) + doc)), 1.0f));
        else known = false;
        others[EACH * lane_id() + j] = make_uint2(freq, lengths[j]);
    }
    __syncwarp();
    uint32_t is_in = 15;
    for (uint32_t i = 0; i < BLOCK; i++) {
        const uint2 other = others[i];
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++) {
            const uint32_t freq = postings.freqs[j] + 1;
            // Among equal pairs, the first one counts.
            const bool better = other.x > freq || other.y < lengths[j] || i < EACH * lane_id() + j;
            if (other.x >= freq && other.y <= lengths[j] && better) is_in &= ~(1u << j);
        }
    }
    // Weights are not negative, so their bits compare like the weights.
    const float most = __uint_as_float(warp_max(__float_as_uint(cosine)));
    uint32_t count = 0, ranks[EACH] = {};
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++) {
        for (uint32_t rest = __ballot_sync(FULL_WARP, (is_in >> j & 1) != 0); rest != 0; rest &= rest - 1, count++) {
            const uint32_t freq = others[EACH * (__ffs(rest) - 1) + j].x;
#pragma unroll
            for (uint32_t own = 0; own < EACH; own++) ranks[own] += freq < postings.freqs[own] + 1;
        }
    }
    const bool fits = __all_sync(FULL_WARP, known) && count <= PAIRS;
    if (lane_id() == 0) {
        front.count = fits ? count : TOO_MANY;
        front.cosine = most;
    }
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++) {
        if (fits && (is_in >> j & 1) != 0) front.pairs[ranks[j]] = make_uint2(postings.freqs[j] + 1, lengths[j]);
    }
}

// Writes each block where `ends` says that the one before it ends, counted from the first one,
// and its front.
extern "C" __global__ void __launch_bounds__(WARPS* WARP) encode_blocks(Lists lists, const uint32_t* __restrict__ ends, Documents documents, uint8_t* __restrict__ out, Front* __restrict__ fronts) {
    __shared__ uint32_t words[WARPS][BLOCK];
    __shared__ uint2 others[WARPS][BLOCK];
    const uint32_t block = blockIdx.x * WARPS + warp_id(), lane = lane_id();
    if (block >= lists.count) return;
    const Postings postings = load(lists, block);
    const Shape shape(postings);
    uint8_t* at = out + (block == 0 ? 0 : ends[block - 1]);
    if (lane == 0) {
        at[0] = uint8_t(shape.gaps);
        at[1] = uint8_t(shape.freqs | (shape.patches != 0 ? PATCHES : 0));
    }
    at += 2;
    pack(postings.gaps, shape.gaps, words[warp_id()], at);
    at += BLOCK / 8 * shape.gaps;
    pack(postings.freqs, shape.freqs, words[warp_id()], at);
    at += BLOCK / 8 * shape.freqs;
    if (shape.patches != 0) {
        uint32_t mine = 0;
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++) mine += (postings.freqs[j] >> shape.freqs) != 0;
        uint32_t rank = warp_inclusive_sum(mine) - mine;
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++) {
            const uint32_t high = postings.freqs[j] >> shape.freqs;
            if (high == 0) continue;
            at[2 * rank] = uint8_t(EACH * lane + j);
            at[2 * rank + 1] = uint8_t(high);
            rank++;
        }
    }
    find_front(postings, documents, reinterpret_cast<const Start*>(lists.blocks)[block].field, others[warp_id()], fronts[block]);
}
