// Attention of a row's queries to its own keys (attention_cuda.py): FlashAttention 2, with the keys split over blocks
// where the queries alone do not fill the GPU (flash-decoding; attention_cuda_combine.cu then adds up the splits).
// A block handles `Queries` queries of one row and one key head. All query heads that share the key head are in it, so
// that keys and values are read once for them. WarpsM warps divide the queries, WarpsN warps divide each tile of keys.
constexpr int Threads = 32 * WarpsM * WarpsN, Queries = 16 * MTiles * WarpsM;
constexpr int Pieces = D / 8, LineBytes = 2 * D, TileBytes = KeyTile * LineBytes;
constexpr int WarpKeys = KeyTile / WarpsN, NTiles = WarpKeys / 8, DTiles = D / 8;
constexpr int Across = D % 64 == 0 ? 8 : 4, Step = Threads / Across;  // pieces and lines of one round of copies
constexpr int Span = Across * 16;  // bytes of a line that the swizzle permutes
constexpr int Padded = D + 8;  // floats of a line of results in shared memory: no bank conflicts
static_assert(WarpKeys % 16 == 0 && KeyTile % Step == 0 && Step % 8 == 0 && D % 32 == 0, "tiles do not divide");
extern __shared__ uint4 shared_pieces[];
__shared__ float highest[WarpsN][Queries], total[WarpsN][Queries];
unsigned char* const shared = reinterpret_cast<unsigned char*>(shared_pieces);

const int rows = sizes[0], q_heads = sizes[1], kv_heads = sizes[2], width = sizes[3], capacity = sizes[4];
const int splits = sizes[5], least = sizes[6], window = sizes[7];
const bool has_sinks = sizes[8] != 0;
const int group = q_heads / kv_heads, count = group * width, pairs = rows * kv_heads;
const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, quad = lane % 4;
const int warp_m = warp / WarpsN, warp_n = warp % WarpsN;
const float scale = scales[0], scale2 = scale * Log2E;

// The last queries have the most keys, so they start first.
const int split = blockIdx.x % splits, place = blockIdx.x / splits;
const int pair = place % pairs, row = pair / kv_heads, kv_head = pair % kv_heads;
const int first = (int(gridDim.x) / (splits * pairs) - 1 - place / pairs) * Queries;
const int end = ends[row * ends_strides[0]];
const KeyRange range = key_range<KeyTile>(
    end, first, min(first + Queries, count) - 1, group, window, capacity, splits, least, split);
if (split >= range.splits) return;

const unsigned query_tile = shared_address(shared);
const unsigned key_tiles = query_tile + Queries * LineBytes;

#ifdef QUANTIZED
// Packed lines (cache/kv_quantization) come to shared memory, a thread's own 16-byte pieces of every `RawStep`th one, with
// their scales and biases in its registers. When they are there, the same thread dequantizes them into the tile, and asks
// for its pieces of the next one: copies need no barrier. Slots that no query of the block may read become zeros, as a
// scale of 0 makes.
static_assert(Stages == 1, "packed pieces are the stage before the tile");
constexpr int RawPieces = D * Bits / 128, PerRaw = 16 / Bits;  // of a line; pieces of the tile in one of them
constexpr int RawAcross = Threads / KeyTile > Bits / 2 ? Threads / KeyTile : Bits / 2;  // 8 lanes write to all banks
constexpr int RawStep = Threads / RawAcross, RawLines = KeyTile / RawStep, RawColumns = RawPieces / RawAcross;
constexpr int Raws = RawLines * RawColumns, Words = D * Bits / 32, Groups = D / Group;
static_assert(KeyTile % RawStep == 0 && RawPieces % RawAcross == 0 && Group % (128 / Bits) == 0, "pieces do not divide");
const int raw_line = thread / RawAcross, raw_piece = thread % RawAcross;
const unsigned raw_keys = key_tiles + 2 * TileBytes + thread * 16, raw_values = raw_keys + Raws * Threads * 16;
unsigned key_affine[Raws], value_affine[Raws];  // a scale and a bias each
const uint32_t* const head_lines = lines + row * lines_strides[0] + kv_head * lines_strides[1];
auto load = [&](unsigned to, unsigned (&affine)[Raws], int place, int tile) {
    if (tile < range.stop) {
#pragma unroll
        for (int i = 0; i < RawLines; ++i) {
            const int slot = tile * KeyTile + raw_line + i * RawStep;
            const bool wanted = slot >= range.low && slot < range.high;
            const uint32_t* const from = head_lines + slot * lines_strides[2];
#pragma unroll
            for (int j = 0; j < RawColumns; ++j) {
                const int piece = raw_piece + j * RawAcross, n = i * RawColumns + j;
                copy_async(to + n * Threads * 16, from + place * Words + piece * 4, wanted);
                affine[n] = wanted ? from[2 * Words + place * Groups + piece * (128 / Bits) / Group] : 0u;
            }
        }
    }
    commit_copies();
};
auto dequantize_tile = [&](unsigned from, const unsigned (&affine)[Raws], unsigned char* to) {
#pragma unroll
    for (int n = 0; n < Raws; ++n) {
        const int line = raw_line + n / RawColumns * RawStep, piece = (raw_piece + n % RawColumns * RawAcross) * PerRaw;
        uint4 eights[PerRaw];
        dequantize<Bits>(eights, shared_pieces[(from - query_tile) / 16 + n * Threads], affine[n], T());
#pragma unroll
        for (int k = 0; k < PerRaw; ++k) {
            *reinterpret_cast<uint4*>(to + line * LineBytes + swizzle<D>(line, piece + k) * 16) = eights[k];
        }
    }
};
load(raw_keys, key_affine, 0, range.begin);
load(raw_values, value_affine, 1, range.begin);
auto await_keys = [&](int tile) {  // no warp reads the last tile's keys any more
    wait_copies<1>();
    dequantize_tile(raw_keys, key_affine, shared + Queries * LineBytes);
    load(raw_keys, key_affine, 0, tile + 1);
    __syncthreads();  // all keys are there, and no warp reads the last tile's values any more
};
auto await_values = [&](int tile) {
    wait_copies<1>();
    dequantize_tile(raw_values, value_affine, shared + Queries * LineBytes + TileBytes);
    load(raw_values, value_affine, 1, tile + 1);
    __syncthreads();  // all values are there, and no warp reads this tile's keys any more
};
#else
// A thread copies the same pieces of every `Step`th line, so that all addresses but one are constants apart. Slots that
// no query of the block may read become zeros: what lies there may be NaN, and 0 * NaN is NaN.
const int load_line = thread / Across, load_piece = thread % Across;
const unsigned load_at = key_tiles + load_line * LineBytes + swizzle<D>(load_line, load_piece) * 16;
const T* const key_head = keys + row * keys_strides[0] + kv_head * keys_strides[1] + load_piece * 8;
const T* const value_head = values + row * values_strides[0] + kv_head * values_strides[1] + load_piece * 8;
auto load = [&](unsigned to, const T* head, long long stride, int tile) {
    const int slot = tile * KeyTile + load_line;
    const T* from = head + slot * stride;
#pragma unroll
    for (int i = 0; i < KeyTile / Step; ++i) {
        const bool wanted = slot + i * Step >= range.low && slot + i * Step < range.high;
#pragma unroll
        for (int j = 0; j < Pieces / Across; ++j) {
            copy_async(to + i * Step * LineBytes + j * Across * 16, from + j * Across * 8, wanted);
        }
        from += Step * stride;
    }
};
// A group of copies for every tile, an empty one after the last: the waits below count groups.
auto load_keys = [&](int tile) {
    if (tile < range.stop) load(load_at + (tile - range.begin) % Stages * TileBytes, key_head, keys_strides[2], tile);
    commit_copies();
};
auto load_values = [&](int tile) {
    if (tile < range.stop) {
        const unsigned to = load_at + (Stages + (tile - range.begin) % Stages) * TileBytes;
        load(to, value_head, values_strides[2], tile);
    }
    commit_copies();
};
#pragma unroll
for (int i = 0; i < Stages; ++i) {
    load_keys(range.begin + i);
    if (i < Stages - 1) load_values(range.begin + i);
}
auto await_keys = [&](int tile) {
    wait_copies<2 * Stages - 2>();
    __syncthreads();  // the keys are there, and no warp reads the last tile's values any more
    load_values(tile + Stages - 1);
};
auto await_values = [&](int tile) {
    wait_copies<2 * Stages - 2>();
    __syncthreads();  // the values are there, and no warp reads this tile's keys any more
    load_keys(tile + Stages);
};
#endif

const bool aligned = queries_strides[3] == 1 && reinterpret_cast<size_t>(queries) % 16 == 0 &&
    queries_strides[0] % 8 == 0 && queries_strides[1] % 8 == 0 && queries_strides[2] % 8 == 0;
for (int at = thread; at < Queries * Pieces; at += Threads) {
    const int line = at / Pieces, piece = at % Pieces, query = first + line;
    uint4 found = make_uint4(0, 0, 0, 0);
    if (query < count) {
        const T* from = queries + row * queries_strides[0] + (kv_head * group + query % group) * queries_strides[1] +
            query / group * queries_strides[2] + piece * 8 * queries_strides[3];
        if (aligned) {
            found = *reinterpret_cast<const uint4*>(from);
        } else {
            T* one = reinterpret_cast<T*>(&found);
            for (int i = 0; i < 8; ++i) one[i] = from[i * queries_strides[3]];
        }
    }
    *reinterpret_cast<uint4*>(shared + line * LineBytes + swizzle<D>(line, piece) * 16) = found;
}

// A lane's address for ldmatrix, in 16 lines of queries, keys or values: matrices are lines 0-7 and 8-15 of one piece,
// then of the next. Lines of tiles start at multiples of 16, so the swizzle is the lane's alone. It permutes pieces
// within a span: a step along the line is an exclusive or within the span and a constant for the spans before it.
const unsigned lane_line = lane % 16 * LineBytes, lane_piece = swizzle<D>(lane % 16, lane / 16) * 16;
auto along = [&](int step) { return (lane_piece ^ (step * 32 % Span)) + step * 32 / Span * Span; };
const unsigned query_at = query_tile + warp_m * 16 * MTiles * LineBytes + lane_line;
const unsigned key_at = key_tiles + warp_n * WarpKeys * LineBytes + lane_line;
const unsigned value_at = key_at + Stages * TileBytes;

// A lane has numbers of lines lane / 4 and lane / 4 + 8 of each 16 queries, in columns 2 * quad and 2 * quad + 1.
const int warp_first = first + warp_m * 16 * MTiles;
const int least_position = end + warp_first / group, most_position = end + (warp_first + 16 * MTiles - 1) / group;
float best[MTiles][2], sum[MTiles][2], out_sum[MTiles][DTiles][4];
#pragma unroll
for (int m = 0; m < MTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        best[m][half] = NO_SCORE;
        sum[m][half] = 0.0f;
    }
#pragma unroll
    for (int d = 0; d < DTiles; ++d) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out_sum[m][d][i] = 0.0f;
    }
}

for (int tile = range.begin; tile < range.stop; ++tile) {
    const unsigned buffer = (tile - range.begin) % Stages * TileBytes;
    await_keys(tile);

    float score[MTiles][NTiles][4];
#pragma unroll
    for (int m = 0; m < MTiles; ++m) {
#pragma unroll
        for (int n = 0; n < NTiles; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) score[m][n][i] = 0.0f;
        }
    }
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        unsigned a[MTiles][4];
#pragma unroll
        for (int m = 0; m < MTiles; ++m) load_matrices(a[m], query_at + m * 16 * LineBytes + along(k));
#pragma unroll
        for (int n = 0; n < NTiles; n += 2) {
            unsigned b[4];
            load_matrices(b, key_at + buffer + n * 8 * LineBytes + along(k));
#pragma unroll
            for (int m = 0; m < MTiles; ++m) {
                multiply(score[m][n], a[m], b[0], b[2], T());
                multiply(score[m][n + 1], a[m], b[1], b[3], T());
            }
        }
    }

    const int slot = tile * KeyTile + warp_n * WarpKeys;
    if (slot + WarpKeys > min(least_position + 1, range.high) || slot <= most_position - window) {
#pragma unroll
        for (int m = 0; m < MTiles; ++m) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int position = end + (warp_first + 16 * m + 8 * half + lane / 4) / group;
                const int last = min(position, range.high - 1) - slot - 2 * quad, before = position - window - slot - 2 * quad;
#pragma unroll
                for (int n = 0; n < NTiles; ++n) {
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        if (n * 8 + i > last || n * 8 + i <= before) score[m][n][2 * half + i] = NO_SCORE;
                    }
                }
            }
        }
    }
#pragma unroll
    for (int m = 0; m < MTiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float most = best[m][half];
#pragma unroll
            for (int n = 0; n < NTiles; ++n) {
                most = fmaxf(most, fmaxf(score[m][n][2 * half], score[m][n][2 * half + 1]));
            }
            most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
            most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
            const float base = most == NO_SCORE ? 0.0f : most * scale2;  // no key so far: all powers below are 0
            const float fade = power2(best[m][half] * scale2 - base);
            best[m][half] = most;
            float more = 0.0f;
#pragma unroll
            for (int n = 0; n < NTiles; ++n) {
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; ++i) {
                    score[m][n][i] = power2(score[m][n][i] * scale2 - base);
                    more += score[m][n][i];
                }
            }
            sum[m][half] = sum[m][half] * fade + more;
            if (__any_sync(0xffffffffu, fade != 1.0f)) {  // seldom after the first tiles
#pragma unroll
                for (int d = 0; d < DTiles; ++d) {
                    out_sum[m][d][2 * half] *= fade;
                    out_sum[m][d][2 * half + 1] *= fade;
                }
            }
        }
    }

    unsigned weight[MTiles][NTiles / 2][4];  // the scores of 16 keys, where they are, make the operand for 16 values
#pragma unroll
    for (int m = 0; m < MTiles; ++m) {
#pragma unroll
        for (int n = 0; n < NTiles; ++n) {
            weight[m][n / 2][n % 2 * 2] = pack(score[m][n][0], score[m][n][1], T());
            weight[m][n / 2][n % 2 * 2 + 1] = pack(score[m][n][2], score[m][n][3], T());
        }
    }

    await_values(tile);
#pragma unroll
    for (int n = 0; n < NTiles; n += 2) {
#pragma unroll
        for (int d = 0; d < DTiles; d += 2) {
            unsigned b[4];
            load_transposed(b, value_at + buffer + n * 8 * LineBytes + along(d / 2));
#pragma unroll
            for (int m = 0; m < MTiles; ++m) {
                multiply(out_sum[m][d], weight[m][n / 2], b[0], b[1], T());
                multiply(out_sum[m][d + 1], weight[m][n / 2], b[2], b[3], T());
            }
        }
    }
}
wait_copies<0>();
__syncthreads();  // from here on shared memory holds results

#pragma unroll
for (int m = 0; m < MTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        sum[m][half] += __shfl_xor_sync(0xffffffffu, sum[m][half], 1);
        sum[m][half] += __shfl_xor_sync(0xffffffffu, sum[m][half], 2);
        const int line = warp_m * 16 * MTiles + m * 16 + half * 8 + lane / 4;
        if (quad == 0) {
            highest[warp_n][line] = best[m][half];
            total[warp_n][line] = sum[m][half];
        }
    }
}
__syncthreads();
auto highest_of = [&](int line) {
    float most = highest[0][line];
    for (int n = 1; n < WarpsN; ++n) most = fmaxf(most, highest[n][line]);
    return most == NO_SCORE ? 0.0f : most;
};
float* const results = reinterpret_cast<float*>(shared);
#pragma unroll
for (int m = 0; m < MTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int line = warp_m * 16 * MTiles + m * 16 + half * 8 + lane / 4;
        const float fade = WarpsN == 1 ? 1.0f : power2((best[m][half] - highest_of(line)) * scale2);
        float* to = results + (warp_n * Queries + line) * Padded + 2 * quad;
#pragma unroll
        for (int d = 0; d < DTiles; ++d) {
            to[d * 8] = out_sum[m][d][2 * half] * fade;
            to[d * 8 + 1] = out_sum[m][d][2 * half + 1] * fade;
        }
    }
}
__syncthreads();
for (int at = thread; at < Queries * Pieces; at += Threads) {
    const int line = at / Pieces, piece = at % Pieces, query = first + line;
    if (query >= count) break;
    float x[8] = {}, denominator = 0.0f;
    const float most = highest_of(line);
    for (int n = 0; n < WarpsN; ++n) {
        const float* from = results + (n * Queries + line) * Padded + piece * 8;
        for (int i = 0; i < 8; ++i) x[i] += from[i];
        denominator += total[n][line] * power2((highest[n][line] - most) * scale2);
    }
    if (splits > 1) {
        const size_t entry = size_t(split * pairs + pair) * count + query;
        const float share = denominator > 0.0f ? 1.0f / denominator : 0.0f;
        float4* to = reinterpret_cast<float4*>(partial + entry * D + piece * 8);
        to[0] = make_float4(x[0] * share, x[1] * share, x[2] * share, x[3] * share);
        to[1] = make_float4(x[4] * share, x[5] * share, x[6] * share, x[7] * share);
        if (piece == 0) weights[entry] = denominator > 0.0f ? most * scale2 + log2f(denominator) : NO_SCORE;
        continue;
    }
    const int head = kv_head * group + query % group;
    float fade = 1.0f;
    if (has_sinks) {  // a sink may be far above all scores
        const float sink = sinks[head * sinks_strides[0]] * Log2E, top = fmaxf(sink, most * scale2);
        fade = power2(most * scale2 - top);
        denominator = denominator * fade + power2(sink - top);
    }
    float share = denominator > 0.0f ? fade / denominator : 0.0f;
#ifdef GATED
    const uint4 given = *reinterpret_cast<const uint4*>(
        gates + row * gates_strides[0] + query / group * gates_strides[1] + (2 * head + 1) * D + piece * 8);
    for (int i = 0; i < 8; ++i) x[i] = through_gate(x[i] * share, reinterpret_cast<const T*>(&given)[i]);
    share = 1.0f;
#endif
    uint4 packed;
    packed.x = pack(x[0] * share, x[1] * share, T());
    packed.y = pack(x[2] * share, x[3] * share, T());
    packed.z = pack(x[4] * share, x[5] * share, T());
    packed.w = pack(x[6] * share, x[7] * share, T());
    const size_t to = (size_t(row * width + query / group) * q_heads + head) * D + piece * 8;
    *reinterpret_cast<uint4*>(out + to) = packed;
}
