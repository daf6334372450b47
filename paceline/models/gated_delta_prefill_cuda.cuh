// Warp-wide matrix products for the prefill kernels (gated_delta_prefill_cuda.py). A float32 operand is split into two
// bf16 terms, 16 bits of mantissa, so that its products keep an error of 1e-5 where plain bf16 would leave 4e-3.
namespace paceline {

template <int N>
struct Count {
    static constexpr int value = N;
};

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {  // neighbours that are read and written at once
    T x[N];
};

struct Split {  // fragments of a 16 x 16 left operand: the value is high + low
    unsigned high[4], low[4];
};

__device__ inline unsigned pack(float first, float second) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

__device__ inline void split(float first, float second, unsigned& high, unsigned& low) {
    high = pack(first, second);
    low = pack(first - __uint_as_float(high << 16), second - __uint_as_float(high & 0xffff0000u));
}

// Two neighbouring accumulator tiles (16 x 8 each) have the layout of a left operand.
__device__ inline void split(const float (&left)[4], const float (&right)[4], Split& out) {
    split(left[0], left[1], out.high[0], out.low[0]);
    split(left[2], left[3], out.high[1], out.low[1]);
    split(right[0], right[1], out.high[2], out.low[2]);
    split(right[2], right[3], out.high[3], out.low[3]);
}

// sum (16 x 8) += left (16 x 16) times right (16 x 8), in bf16 with a float32 sum.
__device__ inline void multiply(float (&sum)[4], const unsigned (&left)[4], unsigned right0, unsigned right1) {
    asm(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

// Four 8 x 8 tiles from shared memory; lane l points at row l % 8 of tile l / 8.
__device__ inline void load_tiles(unsigned (&tiles)[4], const void* row) {
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(at)
                 : "memory");
}

__device__ inline void load_tiles_transposed(unsigned (&tiles)[4], const void* row) {
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(at)
                 : "memory");
}

// 16 bytes from device to shared memory, while the threads go on.
__device__ inline void copy_async(void* to, const void* from) {
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}

__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace paceline
