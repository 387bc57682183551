// Moves items, which share `windows` windows among them, to `len` windows from `first` on. Each
// keeps its share, so that a list of items that is sent once serves pieces of any length. An item
// whose share is less than a window may become empty, but it begins within the piece.
#include "tiles.cuh"

constexpr uint32_t THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
    move_items(const Item* items, Item* moved, uint32_t count, uint32_t windows, uint32_t first, uint32_t len) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Item item = items[i];
    const auto edge = [&](uint32_t window) { return first + uint32_t(uint64_t(len) * window / windows); };
    moved[i] = Item{item.query, edge(item.begin), edge(item.end), item.unused};
}
