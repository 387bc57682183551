// Makes what the device has beside the lists: the directory of all blocks, when it is checked that blocks and bins lie where they may, and bitmaps of sparse lists.
#include "map_lists.cuh"

constexpr uint32_t THREADS = 128;

// False if a block or bin does not begin within its list.
__device__ __forceinline__ bool begins_within(const MapList& list, uint64_t at) { return at >= list.payload && at < list.end; }

// The directory's entry of a block; false if the block does not lie within its list.
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

// Sets the bits of the parts of sparse lists that have bitmaps, one list per block of threads. The bits are 0 before.
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
