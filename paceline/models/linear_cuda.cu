// x @ weight.T for a few rows x and large bf16 weights, side by side (linear_cuda.py, which puts the choice of a block's
// `weight`, `other` (the lower 8 lines), `out`, `first` and `outputs` before this, and `finish`).
// A block computes `Lines` outputs of all rows: it reads the rows once for all of them. Its warps divide the inputs among
// them and add up at the end. Any 16 inputs may go into a tensor-core step, as long as both operands use the same: a
// lane reads 8 consecutive ones. The next inputs are under way while a warp multiplies, and weights, which are read
// once, pass the L1 by.
constexpr int Tops = Lines / 16, Rows = 8 * Tiles;
// Sums of 16 lines are `Apart` from a row's to the next: warps write and read them without a conflict of banks. As many
// 16s as fit are added up at a time.
constexpr int Apart = 20, Fit = 48 * 1024 / (4 * Warps * Rows * Apart), Together = Fit < Tops ? Fit : Tops;
const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
__shared__ float part[Warps][Together][Rows][Apart];
float sum[Tops][Tiles][4];
for (int m = 0; m < Tops; ++m) for (int t = 0; t < Tiles; ++t) for (int i = 0; i < 4; ++i) sum[m][t][i] = 0.0f;
auto multiply = [](float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
};
auto once = [](const T* from) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    return v;
};
struct Step { uint4 a[Tops], b[Tops], v[Tiles]; };
size_t lines[Tops];  // the last block may have fewer outputs: it reads some lines twice, and writes them once
for (int m = 0; m < Tops; ++m) lines[m] = size_t(min(first + Each * m, outputs - Each) + group) * inputs + quad * 8;
const T* given[Tiles];
for (int t = 0; t < Tiles; ++t) given[t] = x + size_t(min(t * 8 + group, rows - 1)) * inputs + quad * 8;
auto load = [&](Step& step, int k) {
    #pragma unroll
    for (int m = 0; m < Tops; ++m) {
        step.a[m] = once(weight + lines[m] + k);
        step.b[m] = once(other + lines[m] + k);
    }
    #pragma unroll
    for (int t = 0; t < Tiles; ++t) step.v[t] = *reinterpret_cast<const uint4*>(given[t] + k);
};
auto use = [&](const Step& step) {
    #pragma unroll
    for (int m = 0; m < Tops; ++m) {
        #pragma unroll
        for (int t = 0; t < Tiles; ++t) {
            const uint4 a = step.a[m], b = step.b[m], v = step.v[t];
            multiply(sum[m][t], a.x, b.x, a.y, b.y, v.x, v.y);
            multiply(sum[m][t], a.z, b.z, a.w, b.w, v.z, v.w);
        }
    }
};
constexpr int Stride = Warps * 32;
Step one, two;
int k = warp * 32;
if (k < inputs) load(one, k);
for (; k < inputs; k += 2 * Stride) {
    if (k + Stride < inputs) load(two, k + Stride);
    use(one);
    if (k + Stride >= inputs) break;
    if (k + 2 * Stride < inputs) load(one, k + 2 * Stride);
    use(two);
}
#pragma unroll
for (int from = 0; from < Tops; from += Together) {
    if (from) __syncthreads();
    #pragma unroll
    for (int m = 0; m < Together && from + m < Tops; ++m) {
        #pragma unroll
        for (int t = 0; t < Tiles; ++t) {
            for (int i = 0; i < 4; ++i) part[warp][m][t * 8 + quad * 2 + i % 2][group + 8 * (i / 2)] = sum[from + m][t][i];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < Each * Rows * min(Together, Tops - from); i += blockDim.x) {
        const int line = i % Each, row = i / Each % Rows, m = i / Each / Rows;
        const int output = first + Each * (from + m) + line;
        if (row < rows && output < outputs) out[size_t(row) * outputs + output] = finish(part, m, row, line);
    }
}
