// x @ weight.T for a few rows x and large bf16 weights, side by side (linear_cuda.py, which puts the choice of a block's
// `weight`, `other` (the lower 8 lines), `out`, `first` and `outputs` before this, and `finish`).
// A block computes 16 outputs of all rows. Its warps divide the inputs among them and add up at the end. Any 16 inputs
// may go into a tensor-core step, as long as both operands use the same: a lane reads 8 consecutive ones.
// With few outputs there are few blocks: each has more warps, and each warp has more of its weights under way (`Batch`).
const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
static_assert(Lines == 16);
__shared__ float part[Warps][16][8 * Tiles];
float sum[Tiles][4];
for (int t = 0; t < Tiles; ++t) for (int i = 0; i < 4; ++i) sum[t][i] = 0.0f;
auto multiply = [](float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
};
const T* upper = weight + size_t(first + group) * inputs;
const T* lower = other + size_t(first + group) * inputs;
auto all_rows = [&](int k, uint4 a, uint4 b) {
    for (int t = 0; t < Tiles; ++t) {
        const int row = min(t * 8 + group, rows - 1);
        const uint4 v = *reinterpret_cast<const uint4*>(x + size_t(row) * inputs + k);
        multiply(sum[t], a.x, b.x, a.y, b.y, v.x, v.y);
        multiply(sum[t], a.z, b.z, a.w, b.w, v.z, v.w);
    }
};
if constexpr (Batch == 0) {
    #pragma unroll 4
    for (int k = warp * 32 + quad * 8; k < inputs; k += Warps * 32) {
        all_rows(k, *reinterpret_cast<const uint4*>(upper + k), *reinterpret_cast<const uint4*>(lower + k));
    }
} else {  // a warp's inputs lie side by side, and weights, which are read once, pass the L1 by
    auto once = [](const T* from) {
        uint4 v;
        asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
        return v;
    };
    constexpr int Held = Batch == 0 ? 1 : Batch;  // there is no array of none
    const int share = (inputs / 32 + Warps - 1) / Warps * 32, end = min(inputs, (warp + 1) * share);
    for (int from = warp * share; from < end; from += Batch * 32) {
        uint4 a[Held], b[Held];
        #pragma unroll
        for (int i = 0; i < Batch; ++i) {
            const int k = min(from + 32 * i, inputs - 32) + quad * 8;
            a[i] = once(upper + k);
            b[i] = once(lower + k);
        }
        #pragma unroll
        for (int i = 0; i < Batch; ++i) {
            if (from + 32 * i >= end) break;
            all_rows(from + 32 * i + quad * 8, a[i], b[i]);
        }
    }
}
for (int t = 0; t < Tiles; ++t) {
    for (int i = 0; i < 4; ++i) part[warp][group + 8 * (i / 2)][t * 8 + quad * 2 + i % 2] = sum[t][i];
}
__syncthreads();
for (int i = threadIdx.x; i < Each * 8 * Tiles; i += blockDim.x) {
    const int output = i % Each, row = i / Each;
    if (row < rows) out[size_t(row) * outputs + first + output] = finish(part, output, row);
}
