// What attention_cuda.cu and attention_cuda_combine.cu share: PTX instructions, the layout of tiles in shared memory,
// and which keys a block reads. Everything here is compiled once for each kernel (NVRTC, attention_cuda.py).
__device__ inline unsigned shared_address(const void* at) { return unsigned(__cvta_generic_to_shared(at)); }

// 16 bytes from global to shared memory; zeros where they are not wanted, without reading.
__device__ inline void copy_async(unsigned to, const void* from, bool wanted) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(wanted ? 16 : 0) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Pending>
__device__ inline void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory"); }

// Four 8x8 matrices of 16-bit numbers; lane i gives the address of line i % 8 of matrix i / 8.
__device__ inline void load_matrices(unsigned (&to)[4], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from));
}
__device__ inline void load_transposed(unsigned (&to)[4], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from));
}

// c (16x8) += a (16x16) @ b (16x8)
__device__ inline void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __nv_bfloat16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __half) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline unsigned pack(float low, float high, __nv_bfloat16) {
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ inline unsigned pack(float low, float high, __half) {
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ inline float power2(float x) {
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
}

// Packed numbers: 32768 and a byte of a word as a float, without a conversion. So d * scale + bias is one instruction, with
// 32768 * scale taken from the bias before; what that rounds off is below a hundredth of a step.
constexpr float Above = 32768.0f;
__device__ inline float byte_above(unsigned word, int byte) {
    return __uint_as_float(__byte_perm(word, 0x47000000u, 0x7404u | byte << 4));
}
template <typename T>
__device__ inline unsigned bits_of(const T* at) { return *reinterpret_cast<const unsigned short*>(at); }
__device__ inline float widen(unsigned bits, __nv_bfloat16) { return __uint_as_float(bits << 16); }
__device__ inline float widen(unsigned bits, __half) { return __half2float(__ushort_as_half((unsigned short)(bits))); }
// Sixteen bytes of packed numbers of one group, as eights; `affine` is the group's scale, and its bias above that.
template <int Bits, typename T>
__device__ inline void dequantize(uint4 (&eights)[16 / Bits], const uint4 packed, unsigned affine, T) {
    const float scale = widen(affine & 0xffffu, T()), offset = fmaf(-Above, scale, widen(affine >> 16, T()));
    const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int k = 0; k < 16 / Bits; ++k) {
        // The bytes of `low` and `high` in turn (4 bits), or those of one after the other's (8).
        const unsigned low = Bits == 4 ? words[k] & 0x0f0f0f0fu : words[2 * k % 4];
        const unsigned high = Bits == 4 ? words[k] >> 4 & 0x0f0f0f0fu : words[(2 * k + 1) % 4];
        float x[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const unsigned word = (Bits == 4 ? i % 2 : i / 4) ? high : low;
            x[i] = fmaf(byte_above(word, Bits == 4 ? i / 2 : i % 4), scale, offset);
        }
        eights[k] = make_uint4(
            pack(x[0], x[1], T()), pack(x[2], x[3], T()), pack(x[4], x[5], T()), pack(x[6], x[7], T()));
    }
}

// A number times the sigmoid of its gate, rounded to T where MLX's ops round but the last.
template <typename T>
__device__ inline float through_gate(float x, T gate) {
    return float(T(x)) * float(T(1.0f / (1.0f + expf(-float(gate)))));
}

constexpr float Log2E = 1.4426950408889634f;
#define NO_SCORE (-__int_as_float(0x7f800000))

// Where a line's 16-byte piece lies: the same piece of 8 consecutive lines is in 8 different groups of banks. (Lines of
// 96 numbers start in two groups of banks by turns, and their 12 pieces can be permuted by fours only.)
template <int D>
__device__ inline int swizzle(int line, int piece) {
    return D % 64 == 0 ? piece ^ (line & 7) : piece ^ ((line >> 1) & 3);
}

// The keys of one block. Queries of a group are numbered position * group + head, `first` to `last` in this block.
struct KeyRange {
    int low, high;      // slots that one of the queries may read
    int begin, stop;    // tiles of this split
    int splits;         // how many splits have tiles (the first one always counts)
};
template <int KeyTile>
__device__ inline KeyRange key_range(
    int end, int first, int last, int group, int window, int capacity, int splits, int least, int split) {
    KeyRange range;
    range.low = max(0, end + first / group - window + 1);
    range.high = min(end + last / group + 1, capacity);
    const int from = range.low / KeyTile;
    const int tiles = max(0, (range.high + KeyTile - 1) / KeyTile - from);
    const int each = max((least + KeyTile - 1) / KeyTile, (tiles + splits - 1) / splits);
    range.begin = from + split * each;
    range.stop = min(range.begin + each, from + tiles);
    range.splits = max(1, (tiles + each - 1) / each);
    return range;
}
