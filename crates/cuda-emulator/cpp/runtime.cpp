// Runs kernels on the host. Blocks run one after another, and each lane is a fiber with its own
// stack. A lane runs until it reaches an operation of its warp or block and waits there; when all
// participants are waiting, the operation is performed for all of them at once. Deadlocks between
// lanes are therefore detected, and the error names the lanes.
//
// Tests spend most of their time here, so a lane that waits or ends chooses the next one itself and
// switches to it directly: the same instructions run again and again, which the processor predicts.

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#define SHARED_SECTION "emulated_shared"
#include "cuda.h"
#include "table.h"
#undef assert

namespace {

constexpr uint32_t MAX_THREADS = 1024;
constexpr size_t STACK = 128 << 10;
// Stacks begin at different places of their first page: lanes use little more than the ends of
// their stacks, which would all compete for the same lines of the cache.
constexpr size_t STAGGER = 4 << 10, STEP = 5 * 64;
constexpr size_t MAX_SHARED = 256 << 10;  // more than any device has

enum State : uint8_t { READY, AT_WARP, AT_BARRIER, EXITED };

struct Lane {
    void* stack_pointer;
    uint3 index;
    State state;
    bool started;
    // The operation it waits for.
    int operation;
    uint32_t mask;
    uint64_t value;
    uint32_t argument, width;
    const char* file;
    int line;
    uint64_t result;
};

const char* const WARP_NAMES[] = {
    "__syncwarp", "__ballot_sync", "__any_sync", "__all_sync", "__match_any_sync", "__match_all_sync", "__shfl_sync", "__shfl_up_sync",
    "__shfl_down_sync", "__shfl_xor_sync", "__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_min_sync",
    "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync",
};
const char* const BARRIER_NAMES[] = {"__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or"};

Lane lanes[MAX_THREADS];
uint32_t threads;
// The order of turns: each warp runs until all its lanes wait for others, in rounds. `due` are
// the lanes of the warp that begins with lane `first` that have not had their turn in this round.
uint32_t turn, first, due;
bool yielded;
uint32_t used_stacks;
Lane* current;
void* scheduler;
char* stacks;
size_t page;
unsigned char* shared_end;
uint64_t ticks;
unsigned char poison;
bool reverse;
const Kernel* kernel;
void** arguments;

}  // namespace

extern "C" {
uint3 emulated_thread, emulated_block;
dim3 emulated_block_dim, emulated_grid_dim;
unsigned char *emulated_dynamic_shared, *emulated_dynamic_shared_end;

// The failure of a launch.
struct Failure {
    int status;  // a CUDA status code; 0 is success
    int faulted;  // whether `address` is valid
    int write;    // whether the access was a write, -1 if unknown
    uint64_t address;
    char text[1024];
};
}

// ---- fibers

// Each stack lies above a page that must not be touched, so that whole pages lie between them.
static size_t stack_stride() { return page + (STACK + STAGGER + page - 1) / page * page; }
static char* stack_end(uint32_t number) { return stacks + (number + 1) * stack_stride() - number * STEP % STAGGER; }

#if defined(__x86_64__) && !defined(EMULATOR_UCONTEXT)
extern "C" void emulated_switch(void** save, void* load);
asm(R"(
.text
.globl emulated_switch
.type emulated_switch, @function
emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulated_switch, .-emulated_switch
)");

static void* new_fiber(uint32_t number, void (*entry)()) {
    char* const stack = stack_end(number);
    // Six registers and the return address, placed so that the stack is aligned as after a call.
    void** top = reinterpret_cast<void**>(stack) - 8;
    memset(top, 0, 8 * sizeof(void*));
    top[6] = reinterpret_cast<void*>(entry);
    return top;
}
#else
#include <ucontext.h>
static ucontext_t contexts[MAX_THREADS + 1];
static void emulated_switch(void** save, void* load) {
    // Here the stack pointer of a fiber is its context; the scheduler's context is the last one.
    if (!*save) *save = &contexts[MAX_THREADS];
    swapcontext(static_cast<ucontext_t*>(*save), static_cast<ucontext_t*>(load));
}
static void* new_fiber(uint32_t number, void (*entry)()) {
    ucontext_t* context = &contexts[number];
    getcontext(context);
    context->uc_stack.ss_sp = stack_end(number) - STACK;
    context->uc_stack.ss_size = STACK;
    makecontext(context, entry, 0);
    return context;
}
#endif

static Lane* next_round();
static void fiber();

// Returns the lane that runs next, or none if the block has ended or failed.
static inline Lane* next_lane() {
    if (!due) return next_round();
    const uint32_t i = uint32_t(reverse ? 31 - __builtin_clz(due) : __builtin_ctz(due));
    due &= ~(1u << i);
    return &lanes[first + i];
}

static void begin(Lane& lane) {
    current = &lane;
    emulated_thread = lane.index;
}

// Lets the next lane run, or the scheduler if there is none. The caller's stack pointer is
// written to `save`.
static void switch_to(Lane* lane, void** save) {
    if (!lane) return emulated_switch(save, scheduler);
    if (!lane->started) {
        lane->started = true;
        lane->stack_pointer = new_fiber(used_stacks++, fiber);
    }
    begin(*lane);
    emulated_switch(save, lane->stack_pointer);
}

static void leave() {
    Lane* const lane = current;
    Lane* const next = next_lane();
    if (next != lane) switch_to(next, &lane->stack_pointer);
}

static void fiber() {
    for (;;) {
        kernel->call(arguments);
        Lane* const lane = current;
        lane->state = EXITED;
        Lane* const next = next_lane();
        if (!next || next->started) {
            switch_to(next, &lane->stack_pointer);
            __builtin_unreachable();
        }
        // The next one has not begun, and this stack is free.
        next->started = true;
        next->stack_pointer = lane->stack_pointer;
        begin(*next);
    }
}

// ---- failures

static sigjmp_buf escape;
static thread_local bool running_here = false;
static Failure* failure;

[[gnu::format(printf, 2, 3)]] static void fail(int status, const char* format, ...) {
    if (failure->status) return;
    failure->status = status;
    // No lane runs after a failure.
    due = 0;
    va_list values;
    va_start(values, format);
    vsnprintf(failure->text, sizeof failure->text, format, values);
    va_end(values);
}

static const char* short_name(const char* file) {
    const char* kernels = strstr(file, "/kernels/");
    return kernels ? kernels + 9 : file;
}

// "thread 3 of block 0"
static const char* who(const Lane& lane) {
    static char text[96];
    if (emulated_grid_dim.y * emulated_grid_dim.z * emulated_block_dim.y * emulated_block_dim.z == 1)
        snprintf(text, sizeof text, "thread %u of block %u", lane.index.x, emulated_block.x);
    else
        snprintf(text, sizeof text, "thread (%u, %u, %u) of block (%u, %u, %u)", lane.index.x, lane.index.y, lane.index.z,
                 emulated_block.x, emulated_block.y, emulated_block.z);
    return text;
}

// "waits at __syncwarp (copy/kernel.cu:7)"
static const char* where(const Lane& lane) {
    static char text[2][256];
    static int turn;
    char* out = text[turn ^= 1];
    if (lane.state == EXITED) return "has ended";
    if (lane.state == READY) return "runs";
    const char* name = lane.state == AT_WARP ? WARP_NAMES[lane.operation] : BARRIER_NAMES[lane.operation];
    snprintf(out, sizeof text[0], "waits at %s (%s:%d)", name, short_name(lane.file), lane.line);
    return out;
}

static struct sigaction previous[65];

static void on_signal(int signal, siginfo_t* info, void* context) {
    if (!running_here || !current) {
        // Not ours: restore the previous handler, which gets the signal when the instruction runs
        // again.
        sigaction(signal, &previous[signal], nullptr);
        return;
    }
    (void)context;
    Failure* f = failure;
    f->address = reinterpret_cast<uint64_t>(info->si_addr);
    f->write = -1;
#if defined(__x86_64__)
    f->write = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] >> 1 & 1;
#endif
    siglongjmp(escape, signal);
}

static void catch_signals() {
    static bool done;
    if (done) return;
    done = true;
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP}) sigaction(signal, &action, &previous[signal]);
}

// The handler needs its own stack, since a lane may have overflowed its stack.
static void signal_stack() {
    stack_t have;
    sigaltstack(nullptr, &have);
    if (!(have.ss_flags & SS_DISABLE)) return;
    static thread_local char memory[64 << 10];
    stack_t stack = {};
    stack.ss_sp = memory;
    stack.ss_size = sizeof memory;
    sigaltstack(&stack, nullptr);
}

static void explain(int signal) {
    char text[200] = "";
    const uint64_t address = failure->address, start = reinterpret_cast<uint64_t>(shared_end) - MAX_SHARED;
    const uint64_t end = reinterpret_cast<uint64_t>(shared_end);
    const uint64_t stack = address - reinterpret_cast<uint64_t>(stacks);
    int status = 700;
    if (signal == SIGILL || signal == SIGTRAP || signal == SIGFPE) {
        status = 716;
        snprintf(text, sizeof text,
                 "does something that C++ leaves undefined: a misaligned access, an index outside of an array, a shift by the width or more, a "
                 "conversion of a number that does not fit, or a division by 0");
    } else if (address >= end && address < end + page) {
        snprintf(text, sizeof text, "goes %llu bytes past the end of dynamic shared memory", (unsigned long long)(address - end + 1));
    } else if (address < start && address >= start - page) {
        snprintf(text, sizeof text, "goes before the start of shared memory");
    } else if (stack < MAX_THREADS * stack_stride()) {
        snprintf(text, sizeof text, "uses more than %zu KiB of local memory", STACK >> 10);
    } else {
        failure->faulted = 1;
        const char* verb = failure->write == 1 ? "writes" : failure->write == 0 ? "reads" : "touches";
        snprintf(text, sizeof text, "%s address 0x%llx", verb, (unsigned long long)address);
    }
    fail(status, "%s %s", who(*current), text);
}

// ---- operations of lanes

extern "C" uint64_t emulated_warp(int operation, uint32_t mask, uint64_t value, uint32_t argument, uint32_t width, const char* file,
                                  int line) {
    Lane& lane = *current;
    lane.state = AT_WARP;
    lane.operation = operation;
    lane.mask = mask;
    lane.value = value;
    lane.argument = argument;
    lane.width = width;
    lane.file = file;
    lane.line = line;
    leave();
    return lane.result;
}

extern "C" uint32_t emulated_barrier(int operation, uint32_t value, const char* file, int line) {
    Lane& lane = *current;
    lane.state = AT_BARRIER;
    lane.operation = operation;
    lane.value = value;
    lane.file = file;
    lane.line = line;
    leave();
    return uint32_t(lane.result);
}

extern "C" void emulated_yield() {
    yielded = true;
    leave();
}

extern "C" uint64_t emulated_clock() { return ++ticks; }

extern "C" void emulated_trap(const char* what, const char* file, int line) {
    fail(710, "%s stopped at %s (%s:%d)", who(*current), what, short_name(file), line);
    leave();
    __builtin_unreachable();
}

// ---- the scheduler

static uint64_t poisoned() {
    uint64_t value;
    memset(&value, poison, sizeof value);
    return value;
}

template <class Fold>
static uint32_t fold(const Lane* warp, uint32_t mask, Fold two) {
    uint32_t all = uint32_t(warp[__builtin_ctz(mask)].value);
    for (uint32_t rest = mask & (mask - 1); rest; rest &= rest - 1) all = two(all, uint32_t(warp[__builtin_ctz(rest)].value));
    return all;
}

// Returns the result of an operation for every lane that takes part.
static uint32_t common_result(const Lane* warp, uint32_t mask, int operation) {
    switch (operation) {
        case WARP_SYNC: return 0;
        case WARP_ANY: return fold(warp, mask, [](uint32_t a, uint32_t b) { return a | b; });
        case WARP_ALL: return fold(warp, mask, [](uint32_t a, uint32_t b) { return a & b; });
        case WARP_ADD: return fold(warp, mask, [](uint32_t a, uint32_t b) { return a + b; });
        case WARP_MIN_U: return fold(warp, mask, [](uint32_t a, uint32_t b) { return b < a ? b : a; });
        case WARP_MAX_U: return fold(warp, mask, [](uint32_t a, uint32_t b) { return b > a ? b : a; });
        case WARP_MIN_S: return fold(warp, mask, [](uint32_t a, uint32_t b) { return int32_t(b) < int32_t(a) ? b : a; });
        case WARP_MAX_S: return fold(warp, mask, [](uint32_t a, uint32_t b) { return int32_t(b) > int32_t(a) ? b : a; });
        case WARP_AND: return fold(warp, mask, [](uint32_t a, uint32_t b) { return a & b; });
        case WARP_OR: return fold(warp, mask, [](uint32_t a, uint32_t b) { return a | b; });
        case WARP_XOR: return fold(warp, mask, [](uint32_t a, uint32_t b) { return a ^ b; });
    }
    uint32_t set = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const uint32_t i = uint32_t(__builtin_ctz(rest));
        const bool match = operation == WARP_BALLOT ? warp[i].value & 1 : warp[i].value == warp[__builtin_ctz(mask)].value;
        set |= uint32_t(match) << i;
    }
    return operation == WARP_BALLOT || set == mask ? set : 0;
}

// Returns the lane whose value a lane gets.
static uint32_t source_of(uint32_t i, const Lane& lane) {
    const uint32_t base = i & ~(lane.width - 1), end = base + lane.width;
    switch (lane.operation) {
        case WARP_SHFL: return base + (lane.argument & (lane.width - 1));
        case WARP_SHFL_UP: return lane.argument <= i - base ? i - lane.argument : i;
        case WARP_SHFL_DOWN: return lane.argument < end - i ? i + lane.argument : i;
        default: return (i ^ lane.argument) < end ? i ^ lane.argument : i;
    }
}

// Performs the operation that the lanes of `mask` wait for, for all of them.
static void do_warp(Lane* warp, uint32_t mask) {
    const int operation = warp[__builtin_ctz(mask)].operation;
    const bool shuffles = operation >= WARP_SHFL && operation <= WARP_SHFL_XOR;
    const bool matches = operation == WARP_MATCH_ANY;
    const uint32_t common = shuffles || matches ? 0 : common_result(warp, mask, operation);
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const uint32_t i = uint32_t(__builtin_ctz(rest));
        Lane& lane = warp[i];
        lane.state = READY;
        lane.result = common;
        if (shuffles) {
            // The value of a lane outside the mask is undefined.
            const uint32_t from = source_of(i, lane) & 31;
            lane.result = (mask >> from & 1) ? warp[from].value : poisoned();
        }
        if (!matches) continue;
        for (uint32_t others = mask; others; others &= others - 1) {
            const uint32_t j = uint32_t(__builtin_ctz(others));
            lane.result |= uint64_t(warp[j].value == lane.value) << j;
        }
    }
}

static bool same_location(const Lane& a, const Lane& b) {
    return a.state == b.state && a.operation == b.operation && a.line == b.line && (a.file == b.file || !strcmp(a.file, b.file));
}

// Performs the operations of a warp for which all lanes have arrived; returns false if there are
// none.
static bool resolve(Lane* warp, uint32_t size) {
    bool any = false;
    for (uint32_t i = 0; i < size; i++) {
        const Lane& lane = warp[i];
        if (lane.state != AT_WARP) continue;
        if (!(lane.mask >> i & 1)) {
            fail(719, "%s %s with a mask 0x%08x that it is not in", who(lane), where(lane), lane.mask);
            return false;
        }
        if (lane.width == 0 || lane.width > 32 || (lane.width & (lane.width - 1))) {
            fail(719, "%s %s with a width of %u, which is not a power of two up to 32", who(lane), where(lane), lane.width);
            return false;
        }
        bool complete = true;
        for (uint32_t j = 0; j < 32 && complete; j++)
            if (lane.mask >> j & 1) complete = j < size && same_location(lane, warp[j]) && warp[j].mask == lane.mask;
        if (complete) {
            do_warp(warp, lane.mask);
            any = true;
        }
    }
    return any;
}

// Reports which lane waits for which other lane forever.
static void stuck() {
    for (uint32_t i = 0; i < threads; i++) {
        if (lanes[i].state != AT_WARP) continue;
        for (uint32_t j = 0; j < 32; j++) {
            const uint32_t other = i / 32 * 32 + j;
            if (!(lanes[i].mask >> j & 1)) continue;
            if (other >= threads) {
                fail(719, "%s %s with a mask 0x%08x, but the block has only %u threads", who(lanes[i]), where(lanes[i]), lanes[i].mask, threads);
                return;
            }
            if (same_location(lanes[i], lanes[other]) && lanes[i].mask == lanes[other].mask) continue;
            if (lanes[other].state == AT_WARP && lanes[other].mask != lanes[i].mask)
                fail(719, "%s %s with mask 0x%08x, but thread %u %s with mask 0x%08x", who(lanes[i]), where(lanes[i]), lanes[i].mask, other,
                     where(lanes[other]), lanes[other].mask);
            else
                fail(719, "%s %s with mask 0x%08x, but thread %u %s", who(lanes[i]), where(lanes[i]), lanes[i].mask, other,
                     where(lanes[other]));
            return;
        }
    }
    for (uint32_t i = 0; i < threads; i++) {
        if (lanes[i].state != AT_BARRIER) continue;
        for (uint32_t j = 0; j < threads; j++) {
            if (same_location(lanes[i], lanes[j])) continue;
            fail(719, "%s %s, but thread %u %s", who(lanes[i]), where(lanes[i]), j, where(lanes[j]));
            return;
        }
    }
    fail(719, "block %u is stuck without waiting for anything", emulated_block.x);
}

// Number of bytes before dynamic shared memory that no lane may change.
constexpr size_t BESIDE = 64;

static void run_block();

static void run_block_guarded(uint32_t shared_bytes) {
    unsigned char* const start = emulated_dynamic_shared;
    memset(start - BESIDE, poison, size_t(shared_end - start) + BESIDE);
    run_block();
    for (unsigned char* at = start - BESIDE; at < shared_end && !failure->status; at++) {
        if (at == start) at += shared_bytes;
        if (at < shared_end && *at != poison)
            fail(700, "block %u writes %s dynamic shared memory", emulated_block.x, at < start ? "before" : "past the end of");
    }
}

static uint32_t size_of_warp() { return threads - first < 32 ? threads - first : 32; }

static uint32_t ready(const Lane* warp, uint32_t size) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < size; i++) found |= uint32_t(warp[i].state == READY) << i;
    return found;
}

// Lets all lanes that wait at a barrier continue; returns false if not all of them wait there,
// which ends the block.
static bool pass_barrier() {
    uint32_t exited = 0, waiting = 0, sum = 0;
    for (uint32_t i = 0; i < threads; i++) {
        exited += lanes[i].state == EXITED;
        const bool here = lanes[i].state == AT_BARRIER && same_location(lanes[0], lanes[i]);
        waiting += here;
        sum += here ? uint32_t(lanes[i].value) : 0;
    }
    if (exited == threads) return false;
    if (waiting != threads) {
        stuck();
        return false;
    }
    const int operation = lanes[0].operation;
    const uint32_t result = operation == BARRIER_COUNT ? sum : operation == BARRIER_AND ? sum == threads : operation == BARRIER_OR ? sum > 0 : 0;
    for (uint32_t i = 0; i < threads; i++) {
        lanes[i].state = READY;
        lanes[i].result = result;
    }
    return true;
}

// Starts a warp, of which all lanes that do not wait are due.
static void begin_warp() {
    const uint32_t warps = (threads + 31) / 32;
    first = (reverse ? warps - 1 - turn : turn) * 32;
    due = ready(lanes + first, size_of_warp());
}

// Returns the lane that runs next when none of the warp is due any more.
static Lane* next_round() {
    while (!due) {
        // An operation fails, too, if its mask is wrong.
        const bool resolved = !failure->status && resolve(lanes + first, size_of_warp());
        if (failure->status) return nullptr;
        if (resolved) {
            due = ready(lanes + first, size_of_warp());
            continue;
        }
        if (++turn * 32 >= threads) {
            if (!yielded && !pass_barrier()) return nullptr;
            yielded = false;
            turn = 0;
        }
        begin_warp();
    }
    return next_lane();
}

static void run_block() {
    if (kernel->shared_start) memset(kernel->shared_start, poison, size_t(kernel->shared_end - kernel->shared_start));
    for (uint32_t i = 0; i < threads; i++) {
        lanes[i].state = READY;
        lanes[i].started = false;
    }
    turn = used_stacks = 0;
    yielded = false;
    begin_warp();
    switch_to(next_lane(), &scheduler);
}

static bool prepare() {
    if (stacks) return true;
    page = size_t(sysconf(_SC_PAGESIZE));
    const size_t bytes = MAX_THREADS * stack_stride();
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void* shared = mmap(nullptr, MAX_SHARED + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || shared == MAP_FAILED) return false;
    for (uint32_t i = 0; i < MAX_THREADS; i++) {
        if (mprotect(static_cast<char*>(memory) + i * stack_stride(), page, PROT_NONE)) return false;
    }
    unsigned char* start = static_cast<unsigned char*>(shared) + page;
    mprotect(start, MAX_SHARED, PROT_READ | PROT_WRITE);
    shared_end = start + MAX_SHARED;
    stacks = static_cast<char*>(memory);
    return true;
}

// Runs a kernel to its end. Only one launch runs at a time: the caller holds a lock.
extern "C" void emulated_launch(const Kernel* k, const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes, void** values,
                                unsigned char poison_byte, int in_reverse, Failure* result) {
    memset(result, 0, sizeof *result);
    failure = result;
    if (!prepare()) return fail(2, "the emulator has no memory for stacks");
    catch_signals();
    signal_stack();
    kernel = k;
    arguments = values;
    poison = poison_byte;
    reverse = in_reverse;
    threads = block[0] * block[1] * block[2];
    emulated_grid_dim = {grid[0], grid[1], grid[2]};
    emulated_block_dim = {block[0], block[1], block[2]};
    for (uint32_t i = 0; i < threads; i++) lanes[i].index = make_uint3(i % block[0], i / block[0] % block[1], i / block[0] / block[1]);
    emulated_dynamic_shared = shared_end - (shared_bytes + 15) / 16 * 16;
    emulated_dynamic_shared_end = shared_end;
    static volatile uint64_t next;
    const uint64_t blocks = uint64_t(grid[0]) * grid[1] * grid[2];
    running_here = true;
    const int signal = sigsetjmp(escape, 1);
    if (signal) {
        explain(signal);
    } else {
        for (next = 0; next < blocks && !failure->status; next = next + 1) {
            const uint64_t b = in_reverse ? blocks - 1 - next : next;
            emulated_block = make_uint3(uint32_t(b % grid[0]), uint32_t(b / grid[0] % grid[1]), uint32_t(b / grid[0] / grid[1]));
            run_block_guarded(shared_bytes);
        }
    }
    running_here = false;
    current = nullptr;
}
