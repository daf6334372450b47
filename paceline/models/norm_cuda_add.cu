// states + update, and the RMS norm of the sum (norm_cuda.py). A block is a row; its threads keep their numbers.
// The order of the sum of squares depends on the row's size only. It rounds to T where MLX's two ops round.
constexpr int Each = 16 / sizeof(T), Packs = Size / Each, Warps = Threads / 32, Turns = (Packs + Threads - 1) / Threads;
struct alignas(16) Pack { T at[Each]; };
__shared__ float part[Warps];
const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
const size_t first = size_t(blockIdx.x) * Packs;
Pack held[Turns], factor[Turns];
float squares = 0.0f;
#pragma unroll
for (int turn = 0; turn < Turns; ++turn) {
    const int place = turn * Threads + thread;
    if (place < Packs) {
        const Pack state = reinterpret_cast<const Pack*>(states)[first + place];
        const Pack change = reinterpret_cast<const Pack*>(update)[first + place];
        factor[turn] = reinterpret_cast<const Pack*>(weight)[place];
        #pragma unroll
        for (int i = 0; i < Each; ++i) {
            held[turn].at[i] = T(float(state.at[i]) + float(change.at[i]));
            const float number = float(held[turn].at[i]);
            squares += number * number;
        }
        reinterpret_cast<Pack*>(total)[first + place] = held[turn];
    }
}
for (int distance = 16; distance > 0; distance /= 2) squares += __shfl_xor_sync(~0u, squares, distance);
if (lane == 0) part[warp] = squares;
__syncthreads();
float whole = 0.0f;
#pragma unroll
for (int i = 0; i < Warps; ++i) whole += part[i];
const float scale = rsqrtf(whole / Size + eps[0]);
#pragma unroll
for (int turn = 0; turn < Turns; ++turn) {
    const int place = turn * Threads + thread;
    if (place < Packs) {
        #pragma unroll
        for (int i = 0; i < Each; ++i) {
            held[turn].at[i] = T(float(factor[turn].at[i]) * float(T(float(held[turn].at[i]) * scale)));
        }
        reinterpret_cast<Pack*>(normed)[first + place] = held[turn];
    }
}
