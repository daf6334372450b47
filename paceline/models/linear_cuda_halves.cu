// silu of the first half of a line times its second half (linear_cuda.py), each step rounded as MLX's kernels round it.
constexpr int Each = 16 / sizeof(T), Packs = Size / Each;
struct alignas(16) Pack { T at[Each]; };
const size_t place = size_t(blockIdx.x) * Threads + threadIdx.x, line = place / Packs;
if (line >= size_t(sizes[0])) return;
const Pack gate = reinterpret_cast<const Pack*>(both)[place + line * Packs];
const Pack up = reinterpret_cast<const Pack*>(both)[place + (line + 1) * Packs];
Pack made;
#pragma unroll
for (int i = 0; i < Each; ++i) {
    const T least = T(1.0f / float(T(1.0f + float(hexp(T(fabsf(float(gate.at[i]))))))));
    const T sigmoid = float(gate.at[i]) < 0.0f ? least : T(1.0f - float(least));
    made.at[i] = T(float(T(float(gate.at[i]) * float(sigmoid))) * float(up.at[i]));
}
reinterpret_cast<Pack*>(out)[place] = made;
