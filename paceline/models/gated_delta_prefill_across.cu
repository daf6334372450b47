// The chunks of a prefill in order: outputs, and the state after the last one (gated_delta_prefill_cuda.py).
// A block is a slice of the value dims of one head of one row. A warp owns 16 lines of the state: all its products have
// the lines' value dims as their left side, so that each result is, as it lies in the registers, the left side of the
// next product. Only the operands that all warps share are in shared memory, and the next chunk's arrive meanwhile.
constexpr int Chunk = 32, Slice = Dv / Parts, Threads = 2 * Slice, Tiles = Dk / 8, Line = Dk + 8, Square = Chunk + 8;
constexpr int ValueLine = Slice + 16 / int(sizeof(T));
constexpr int KeyBytes = 2 * Terms * Chunk * Line * 2, SquareBytes = 4 * Chunk * Square * 2;
constexpr int ValueBytes = Chunk * ValueLine * int(sizeof(T));
constexpr int Stage = KeyBytes + SquareBytes + ValueBytes + 2 * Chunk * 4;
const int part = blockIdx.x, head = blockIdx.y, row = blockIdx.z, thread = threadIdx.x;
const int warp = thread / 32, lane = thread % 32, key_head = head / (Hv / Hk);
const int width = sizes[0], chunks = sizes[1];
const int count = sizes[2] ? min(max(valid[row], 0), width) : width;
const int real = (count + Chunk - 1) / Chunk;
extern __shared__ __align__(16) unsigned char storage[];

auto fetch = [&](int chunk) {
    unsigned char* to = storage + chunk % 2 * Stage;
    const size_t key_base = (size_t(row) * chunks + chunk) * Hk + key_head;
    const size_t base = (size_t(row) * chunks + chunk) * Hv + head;
    auto lines = [&](const void* from, int number, int bytes, int stride, int padded) {
        const int pieces = bytes / 16;
        for (int i = thread; i < number * pieces; i += Threads) {
            const int line = i / pieces, at = i % pieces * 16;
            const auto source = static_cast<const unsigned char*>(from) + size_t(line) * stride + at;
            paceline::copy_async(to + line * padded + at, source);
        }
        to += number * padded;
    };
    lines(keys + key_base * 2 * Terms * Chunk * Dk, 2 * Terms * Chunk, Dk * 2, Dk * 2, Line * 2);
    lines(solved + base * 4 * Chunk * Chunk, 4 * Chunk, Chunk * 2, Chunk * 2, Square * 2);
    constexpr int Size = sizeof(T);
    lines(values + base * Chunk * Dv + part * Slice, Chunk, Slice * Size, Dv * Size, ValueLine * Size);
    lines(gates + base * 2 * Chunk, 1, 2 * Chunk * 4, 0, 2 * Chunk * 4);
};
if (real > 0) fetch(0);

float state[Tiles][4];
const int first = warp * 16 + lane / 4, pair = lane % 4 * 2;  // where the lane's numbers lie in a tile
const size_t state_base = (size_t(row * Hv + head) * Dv + part * Slice + first) * Dk + pair;
#pragma unroll
for (int j = 0; j < Tiles; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const auto from = reinterpret_cast<const float2*>(state_in + state_base + half * 8 * Dk + j * 8);
        const float2 two = *from;
        state[j][2 * half] = two.x;
        state[j][2 * half + 1] = two.y;
    }
}
// Eight tiles one after another: none waits for its own last product.
auto multiply_all = [](float(&sums)[8][4], const unsigned(&left)[4], const unsigned(&right)[4][4]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) paceline::multiply(sums[i], left, right[i / 2][i % 2 * 2], right[i / 2][i % 2 * 2 + 1]);
};
for (int chunk = 0; chunk < real; ++chunk) {
    paceline::wait_for_copies();
    __syncthreads();  // this chunk is here, and nobody reads the one before any more
    if (chunk + 1 < real) fetch(chunk + 1);
    unsigned char* stage = storage + chunk % 2 * Stage;
    const auto key_planes = reinterpret_cast<const __nv_bfloat16*>(stage);
    const auto squares = reinterpret_cast<const __nv_bfloat16*>(stage + KeyBytes);
    T* value = reinterpret_cast<T*>(stage + KeyBytes + SquareBytes);
    const float* running = reinterpret_cast<const float*>(stage + KeyBytes + SquareBytes + ValueBytes);
    const float* beta = running + Chunk;

    // The state times keys (tiles 0 to 3, 8 tokens each) and times queries (tiles 4 to 7).
    float reads[8][4] = {};
#pragma unroll
    for (int k = 0; k < Dk / 16; ++k) {
        paceline::Split left;
        paceline::split(state[2 * k], state[2 * k + 1], left);
#pragma unroll
        for (int term = 0; term < Terms; ++term) {
            unsigned right[4][4];
#pragma unroll
            for (int two = 0; two < 4; ++two) {
                const int line = (two / 2 * Terms + term) * Chunk + two % 2 * 16 + lane / 16 * 8 + lane % 8;
                paceline::load_tiles(right[two], key_planes + line * Line + k * 16 + lane / 8 % 2 * 8);
            }
            multiply_all(reads, left.high, right);
            if (term == 0) multiply_all(reads, left.low, right);
        }
    }

    // The right side of the triangular system, and the outputs' share of the old state.
    const float last = running[Chunk - 1];
    float rest[4][2];
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int token = tile * 8 + pair + i % 2;
            const float decay = expf(running[token]);
            const float target = float(value[token * ValueLine + first + i / 2 * 8]);
            reads[tile][i] = beta[token] * (target - decay * reads[tile][i]);
            reads[tile + 4][i] *= decay;
            rest[tile][i % 2] = expf(last - running[token]);
        }
    }
    // sums[tile] += the lines of a lower triangular matrix times `left`: 16 x 16 tiles on and below the diagonal.
    auto apply = [&](float(*sums)[4], const paceline::Split(&left)[2], const __nv_bfloat16* matrix) {
        unsigned right[2][3][4];  // terms of the tiles (0, 0), (1, 0), (1, 1)
#pragma unroll
        for (int i = 0; i < 6; ++i) {
            const int line = (i % 3 + 1) / 2 * 16 + lane / 16 * 8 + lane % 8;
            const int column = i % 3 / 2 * 16 + lane / 8 % 2 * 8;
            paceline::load_tiles(right[i / 3][i % 3], matrix + (i / 3 * Chunk + line) * Square + column);
        }
        auto add = [&](int tile, const unsigned(&part)[4], const unsigned(&tiles)[4]) {
            paceline::multiply(sums[tile], part, tiles[0], tiles[1]);
            paceline::multiply(sums[tile + 1], part, tiles[2], tiles[3]);
        };
#pragma unroll
        for (int term = 0; term < 2; ++term) {
            add(0, left[0].high, right[term][0]);
            add(2, left[0].high, right[term][1]);
            if (term == 0) add(0, left[0].low, right[0][0]);
            add(2, left[1].high, right[term][2]);
        }
        add(2, left[0].low, right[0][1]);
        add(2, left[1].low, right[0][2]);
    };
    paceline::Split left[2];
    float fresh[4][4] = {};
    paceline::split(reads[0], reads[1], left[0]);
    paceline::split(reads[2], reads[3], left[1]);
    apply(fresh, left, squares);
    paceline::split(fresh[0], fresh[1], left[0]);
    paceline::split(fresh[2], fresh[3], left[1]);
    apply(reads + 4, left, squares + 2 * Chunk * Square);

    // Outputs go through this warp's values, which are read, so that a lane writes a token's 16 numbers at once.
    __syncwarp();
#pragma unroll
    for (int tile = 0; tile < 4; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            value[(tile * 8 + pair + i % 2) * ValueLine + first + i / 2 * 8] = T(reads[tile + 4][i]);
        }
    __syncwarp();
    const int token = chunk * Chunk + lane;
    if (token < width) {
        const auto from = reinterpret_cast<const uint4*>(value + lane * ValueLine + warp * 16);
        T* to = out + ((size_t(row) * width + token) * Hv + head) * Dv + part * Slice + warp * 16;
#pragma unroll
        for (int i = 0; i < int(sizeof(T)); ++i) reinterpret_cast<uint4*>(to)[i] = from[i];
    }

    // The state fades and takes in the fresh values under their keys.
#pragma unroll
    for (int tile = 0; tile < 4; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i) fresh[tile][i] *= rest[tile][i % 2];
    paceline::split(fresh[0], fresh[1], left[0]);
    paceline::split(fresh[2], fresh[3], left[1]);
    const float carry = expf(last);
#pragma unroll
    for (int j = 0; j < Tiles; j += 8) {
        float sums[8][4] = {};  // added to the state as float32: the tensor cores cut sums off
#pragma unroll
        for (int k = 0; k < 2; ++k) {
#pragma unroll
            for (int term = 0; term < Terms; ++term) {
                unsigned right[4][4];
#pragma unroll
                for (int two = 0; two < 4; ++two) {
                    const int line = term * Chunk + k * 16 + lane % 16, column = j * 8 + two * 16 + lane / 16 * 8;
                    paceline::load_tiles_transposed(right[two], key_planes + line * Line + column);
                }
                multiply_all(sums, left[k].high, right);
                if (term == 0) multiply_all(sums, left[k].low, right);
            }
        }
#pragma unroll
        for (int i = 0; i < 32; ++i) state[j + i / 4][i % 4] = fmaf(state[j + i / 4][i % 4], carry, sums[i / 4][i % 4]);
    }
}
#pragma unroll
for (int j = 0; j < Tiles; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const auto to = reinterpret_cast<float2*>(state_out + state_base + half * 8 * Dk + j * 8);
        *to = make_float2(state[j][2 * half], state[j][2 * half + 1]);
    }
}
for (int i = real * Chunk * Slice + thread; i < width * Slice; i += Threads) {  // padding: finite, whatever it is
    out[((size_t(row) * width + i / Slice) * Hv + head) * Dv + part * Slice + i % Slice] = T(0.0f);
}
