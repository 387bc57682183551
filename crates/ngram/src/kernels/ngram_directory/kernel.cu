// Creates the data that the device has beside the lists: the directory of all blocks, while it
// checks that blocks and bins lie within their lists, and bitmaps of sparse lists.
#include "map_lists.cuh"

constexpr uint32_t THREADS = 128;

// False if a block or bin does not begin within its list.
__device__ __forceinline__ bool begins_within(const MapList& list, uint64_t at) { return at >= list.payload && at < list.end; }

// Returns how many parts of a dense list are in a bin.
__device__ __forceinline__ uint32_t parts_in(const MapList& list, uint32_t bin) {
    uint32_t all = 0;
    for (uint32_t i = 0; i < BITMAP / 4; i++) all += __popc(load_u32(list.bitmaps + uint64_t(bin) * BITMAP + 4 * i));
    return all;
}

// Computes the directory's entry of a block; returns false if the block does not lie within its
// list.
__device__ bool head_of(const Image& image, const MapList& list, uint32_t number, uint64_t& head) {
    if (list.form == ONE) {
        // A block of one entry that follows the part before it; nothing is read.
        head = Head::packed(1, 0, 0, 0, 0);
        return true;
    }
    const uint64_t start = piece_of(list, number);
    if (!begins_within(list, start)) return false;
    // The length of the maps, the maps, two bytes of the codec, slots.
    const uint64_t maps = start + (image.widths == 0 ? 0 : 2), slots = maps + (image.widths == 0 ? 0 : load_u16(start)) + 2;
    if (slots > list.end || slots - maps > Head::MOST_MAPS) return false;
    const uint32_t n = min(list.df - number * BLOCK, BLOCK), shape = load_u16(slots - 2), width = image.rice != 0 ? shape & 31 : shape & 255;
    const uint32_t unary = image.rice != 0 ? shape >> 10 : 0;
    if (width > 32 || slots + slot_bytes(n, width) + unary > list.end) return false;
    head = Head::packed(n, width, image.rice, uint32_t(slots - maps), maps - image.file);
    return true;
}

// Writes the directory, one list per warp.
extern "C" __global__ void __launch_bounds__(THREADS) ngram_directory(Image image, uint32_t lists, uint32_t* failed) {
    const uint32_t warps = gridDim.x * (THREADS / WARP);
    for (uint32_t i = blockIdx.x * (THREADS / WARP) + warp_id(); i < lists; i += warps) {
        const MapList list = reinterpret_cast<const MapList*>(image.lists)[i];
        for (uint32_t number = lane_id(); number < list.blocks; number += WARP) {
            if (list.form == DENSE) {
                // A bin without parts may begin behind the last one.
                const uint64_t at = piece_of(list, number);
                if (at < list.payload || at > list.end) *failed = 1;
                reinterpret_cast<uint64_t*>(image.heads)[list.first + number] = heads_of(at, max(1u, parts_in(list, number)));
                continue;
            }
            uint64_t head = 0;
            if (!head_of(image, list, number, head)) *failed = 1;
            // Blocks are searched by their last parts, which must ascend.
            if (list.form == SPARSE && number > 0 && load_u32(list.lasts + 4 * uint64_t(number - 1)) >= load_u32(list.lasts + 4 * uint64_t(number))) *failed = 1;
            reinterpret_cast<uint64_t*>(image.heads)[list.first + number] = head;
            const uint32_t before = list.form == ONE ? list.part - 1 : number == 0 ? NONE : load_u32(list.lasts + 4 * uint64_t(number - 1));
            reinterpret_cast<uint32_t*>(image.befores)[list.first + number] = before;
        }
    }
}

// Writes samples of a block of a list; entries 4 * lane to 4 * lane + 3 are the lane's. Called by
// all lanes of a warp, like the next function.
__device__ __forceinline__ void sample_block(const Image& image, uint32_t number, Samples& samples) {
    const Head head(image.file, reinterpret_cast<const uint64_t*>(image.heads)[number]);
    const uint64_t heads = heads_of(head.maps, head.n);
    uint32_t parts[4], bits = 0, tails = 0;
    decode(head, reinterpret_cast<const uint32_t*>(image.befores)[number], parts);
    Code codes[4];
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        codes[j] = parts[j] < image.parts ? code_of(image, parts[j]) : Code{0};
        bits += codes[j].head();
    }
    const uint32_t to = warp_inclusive_sum(bits), all = __shfl_sync(FULL_WARP, to, WARP - 1), first = to - bits;
    uint32_t bit = first;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        if (codes[j].packed != 0) tails += codes[j].tail(load_bits(heads, bit, codes[j].head()));
        bit += codes[j].head();
    }
    const uint32_t tail = warp_inclusive_sum(tails) - tails;
    if (4 * lane_id() % SAMPLED != 0) return;
    samples.heads[4 * lane_id() / SAMPLED] = uint16_t(first);
    samples.tails[4 * lane_id() / SAMPLED] = uint16_t(all + tail);
}

// Samples of a bin.
__device__ __forceinline__ void sample_bin(const Image& image, const MapList& list, uint32_t bin, Samples& samples) {
    const uint64_t heads = reinterpret_cast<const uint64_t*>(image.heads)[list.first + bin];
    uint32_t bit = 0, tail = 0, first = 0, first_tail = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        if (lane_id() == i) first = bit, first_tail = tail;
        const uint32_t part = bin * BIN + 32 * i + lane_id(), word = load_u32(list.bitmaps + uint64_t(bin) * BITMAP + 4 * i);
        const Code code = (word >> lane_id() & 1) != 0 && part < image.parts ? code_of(image, part) : Code{0};
        const uint32_t to = warp_inclusive_sum(code.head());
        const uint32_t bits = code.packed != 0 ? code.tail(load_bits(heads, bit + to - code.head(), code.head())) : 0;
        bit += __shfl_sync(FULL_WARP, to, WARP - 1);
        tail += warp_sum(bits);
    }
    if (lane_id() >= SAMPLES) return;
    samples.heads[lane_id()] = uint16_t(first);
    samples.tails[lane_id()] = uint16_t(bit + first_tail);
}

// Writes the samples of all blocks and bins of a directory that has been checked, one list per
// block of threads at a time.
extern "C" __global__ void __launch_bounds__(THREADS) ngram_samples(Image image, uint32_t lists) {
    for (uint32_t i = blockIdx.x; i < lists; i += gridDim.x) {
        const MapList list = reinterpret_cast<const MapList*>(image.lists)[i];
        if (list.form == ONE) continue;
        for (uint32_t number = warp_id(); number < list.blocks; number += THREADS / WARP) {
            Samples& samples = reinterpret_cast<Samples*>(image.samples)[list.first + number];
            if (list.form == DENSE) sample_bin(image, list, number, samples);
            else sample_block(image, list.first + number, samples);
        }
    }
}

// Sets the bits of the parts of sparse lists that have bitmaps, one list per block of threads.
// The bits are 0 before.
extern "C" __global__ void __launch_bounds__(THREADS) ngram_bitmaps(Image image, const uint32_t* ordinals) {
    const MapList list = reinterpret_cast<const MapList*>(image.lists)[ordinals[blockIdx.x]];
    uint32_t* bits = reinterpret_cast<uint32_t*>(list.bitmaps);
    for (uint32_t number = warp_id(); number < list.blocks; number += THREADS / WARP) {
        uint32_t parts[4];
        decode(Head(image.file, reinterpret_cast<const uint64_t*>(image.heads)[list.first + number]), reinterpret_cast<const uint32_t*>(image.befores)[list.first + number], parts);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            if (parts[j] < image.parts) atomicOr(&bits[parts[j] / 32], 1u << parts[j] % 32);
        }
    }
}
