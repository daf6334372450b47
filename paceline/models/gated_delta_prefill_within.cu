// What a chunk of a prefill needs that does not depend on the state before it (gated_delta_prefill_cuda.py).
// A block is one chunk of one key head of one row, with the value heads that share the key head.
// Convolution, normalization and gates round to T where mlx-lm's ops round, as the kernel of a decode step does.
// Written for the other kernel: keys and queries as bf16 terms, values, running log decays and beta, and of each value
// head (I + A)^-1 and the attention inside the chunk, as two bf16 terms each.
constexpr int Warps = 8, Chunk = 32, Each = Chunk / Warps, Shared = Hv / Hk, Line = Dk + 8;
constexpr int Width = Chunk + 4;  // of a line of a square matrix: 16 bytes aligned, banks apart
constexpr int channels = 2 * Hk * Dk + Hv * Dv;
const int chunk = blockIdx.x, key_head = blockIdx.y, row = blockIdx.z, thread = threadIdx.x;
const int warp = thread / 32, lane = thread % 32;
const int width = sizes[0], chunks = sizes[1];
const int count = sizes[2] ? min(max(valid[row], 0), width) : width;
const int start = chunk * Chunk;
const int mixed_line = sizes[3], gate_line = sizes[4], first_a = sizes[5], first_b = sizes[6];  // numbers of a token
extern __shared__ __align__(16) unsigned char storage[];
auto planes = reinterpret_cast<__nv_bfloat16*>(storage);  // (keys, queries) x Terms x Chunk x Line
auto key_products = reinterpret_cast<float*>(planes + 2 * Terms * Chunk * Line);
float* query_products = key_products + Chunk * Width;
float* systems = query_products + Chunk * Width;  // Shared x Chunk x Width
float* running = systems + Shared * Chunk * Width;
float* betas = running + Shared * Chunk;

// The inputs of a row: the convolution window, then the tokens.
auto raw = [&](int place, int channel) -> const T* {
    if (place < Taps - 1) return window + size_t(row * (Taps - 1) + place) * channels + channel;
    return mixed + (size_t(row) * width + place - (Taps - 1)) * mixed_line + channel;
};
if (chunk == 0) {
    auto keep_window = [&](int first, int size) {
        for (int i = thread; i < size * (Taps - 1); i += blockDim.x) {
            const int place = i / size, channel = first + i % size;
            window_out[size_t(row * (Taps - 1) + place) * channels + channel] = *raw(count + place, channel);
        }
    };
    keep_window(key_head * Dk, Dk);
    keep_window((Hk + key_head) * Dk, Dk);
    keep_window(2 * Hk * Dk + key_head * Shared * Dv, Shared * Dv);
}
if (start >= count) return;

auto across = [](float x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
};
// A warp convolves its consecutive tokens for all channels of a head; a lane has neighbouring channels.
auto convolve = [&](auto cells, int head_channel, auto&& use) {
    constexpr int Cells = decltype(cells)::value;
    using Pack = paceline::Pack<T, Cells>;
    const int channel = head_channel + lane * Cells, first = start + warp * Each;
    Pack inputs[Each + Taps - 1], weights[Taps];
#pragma unroll
    for (int i = 0; i < Each + Taps - 1; ++i) {
        const int place = first + i;
        if (place < count + Taps - 1) inputs[i] = *reinterpret_cast<const Pack*>(raw(place, channel));
    }
#pragma unroll
    for (int i = 0; i < Taps; ++i) weights[i] = *reinterpret_cast<const Pack*>(weight + channel * Taps + i * Cells);
    auto tap = [&](int i, int j) { return float(weights[(j * Taps + i) / Cells].x[(j * Taps + i) % Cells]); };
#pragma unroll
    for (int token = 0; token < Each; ++token) {
        float x[Cells];
#pragma unroll
        for (int j = 0; j < Cells; ++j) {
            float sum = float(inputs[token + Taps - 1].x[j]) * tap(Taps - 1, j);
#pragma unroll
            for (int i = 0; i < Taps - 1; ++i) sum += float(inputs[token + i].x[j]) * tap(i, j);
            const float rounded = float(T(sum));
            x[j] = first + token < count ? float(T(rounded / (1.0f + expf(-rounded)))) : 0.0f;  // padding may be nan
        }
        use(warp * Each + token, x);
    }
};
const size_t key_base = (size_t(row) * chunks + chunk) * Hk + key_head;
const size_t value_base = (size_t(row) * chunks + chunk) * Hv + key_head * Shared;
for (int part = 0; part < 2; ++part) {  // keys, queries
    const int channel = part == 0 ? (Hk + key_head) * Dk : key_head * Dk;
    const float scale = part == 0 ? rsqrtf(float(Dk)) : 1.0f / Dk;
    convolve(paceline::Count<Dk / 32>(), channel, [&](int token, const auto& x) {
        constexpr int Cells = Dk / 32;
        float squares = 0.0f;
#pragma unroll
        for (int j = 0; j < Cells; ++j) squares += x[j] * x[j];
        const float norm = rsqrtf(across(squares) / Dk + 1e-6f / Dk);
#pragma unroll
        for (int j = 0; j < Cells; j += 2) {
            unsigned terms[2];
            const float one = float(T(float(T(x[j] * norm)) * scale));
            const float two = float(T(float(T(x[j + 1] * norm)) * scale));
            paceline::split(one, two, terms[0], terms[1]);
#pragma unroll
            for (int term = 0; term < Terms; ++term) {
                const int line = (part * Terms + term) * Chunk + token, at = lane * Cells + j;
                *reinterpret_cast<unsigned*>(planes + line * Line + at) = terms[term];
                *reinterpret_cast<unsigned*>(keys + (key_base * 2 * Terms * Chunk + line) * Dk + at) = terms[term];
            }
        }
    });
}
for (int head = 0; head < Shared; ++head) {
    const int channel = 2 * Hk * Dk + (key_head * Shared + head) * Dv;
    convolve(paceline::Count<Dv / 32>(), channel, [&](int token, const auto& x) {
        constexpr int Cells = Dv / 32;
        paceline::Pack<T, Cells> pack;
#pragma unroll
        for (int j = 0; j < Cells; ++j) pack.x[j] = T(x[j]);
        T* to = values + ((value_base + head) * Chunk + token) * Dv + lane * Cells;
        *reinterpret_cast<paceline::Pack<T, Cells>*>(to) = pack;
    });
}
for (int head = warp; head < Shared; head += Warps) {  // a lane is a token
    const int value_head = key_head * Shared + head, token = start + lane;
    const bool real = token < count;
    const size_t at = (size_t(row) * width + token) * gate_line + value_head;
    const float dt = real ? float(T(float(a[at + first_a]) + float(dt_bias[value_head]))) : 0.0f;
    const float soft = float(T(fmaxf(dt, 0.0f) + log1pf(expf(-fabsf(dt)))));
    float sum = real ? -expf(float(a_log[value_head])) * soft : 0.0f;
    for (int step = 1; step < 32; step *= 2) {
        const float before = __shfl_up_sync(0xffffffffu, sum, step);
        if (lane >= step) sum += before;
    }
    const float beta = real ? float(T(1.0f / (1.0f + expf(-float(b[at + first_b]))))) : 0.0f;
    running[head * Chunk + lane] = gates[(value_base + head) * 2 * Chunk + lane] = sum;
    betas[head * Chunk + lane] = gates[(value_base + head) * 2 * Chunk + Chunk + lane] = beta;
}
__syncthreads();

// Keys times keys and queries times keys: a warp has one 16 x 8 tile of each.
const int tile_line = warp / 4 * 16, tile_column = warp % 4 * 8;
for (int part = 0; part < 2; ++part) {
    float sum[4] = {};
    auto add = [&](int left_term, int right_term) {
        const __nv_bfloat16* left = planes + ((part * Terms + left_term) * Chunk + tile_line + lane % 16) * Line;
        const __nv_bfloat16* right = planes + (right_term * Chunk + tile_column + lane % 8) * Line;
#pragma unroll
        for (int k = 0; k < Dk; k += 32) {
            unsigned one[4], two[4], other[4];
            paceline::load_tiles(one, left + k + lane / 16 * 8);
            paceline::load_tiles(two, left + k + 16 + lane / 16 * 8);
            paceline::load_tiles(other, right + k + lane / 8 * 8);
            paceline::multiply(sum, one, other[0], other[1]);
            paceline::multiply(sum, two, other[2], other[3]);
        }
    };
    add(0, 0);
    if constexpr (Terms == 2) {
        add(0, 1);
        add(1, 0);
    }
    float* to = part == 0 ? key_products : query_products;
    to += (tile_line + lane / 4) * Width + tile_column + lane % 4 * 2;
    to[0] = sum[0];
    to[1] = sum[1];
    to[8 * Width] = sum[2];
    to[8 * Width + 1] = sum[3];
}
__syncthreads();

auto store = [&](int head, int matrix, int line, float x) {
    const __nv_bfloat16 high = __nv_bfloat16(x);
    __nv_bfloat16* to = solved + (((value_base + head) * 4 + 2 * matrix) * Chunk + line) * Chunk + lane;
    to[0] = high;
    to[Chunk * Chunk] = __nv_bfloat16(x - float(high));
};
for (int i = warp; i < Shared * Chunk; i += Warps) {  // a line; a lane is a column
    const int head = i / Chunk, line = i % Chunk;
    const float* c = running + head * Chunk;
    const float between = lane <= line ? expf(c[line] - c[lane]) : 0.0f;
    store(head, 1, line, between * query_products[line * Width + lane]);
    const float below = lane < line ? betas[head * Chunk + line] * between * key_products[line * Width + lane] : 0.0f;
    systems[i * Width + lane] = below;
}
__syncthreads();
for (int head = warp; head < Shared; head += Warps) {  // forward substitution; a lane has a column of the inverse
    float x[Chunk];
#pragma unroll
    for (int line = 0; line < Chunk; ++line) {
        const float4* system = reinterpret_cast<const float4*>(systems + (head * Chunk + line) * Width);
        float sums[4] = {line == lane ? 1.0f : 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < line; i += 4) {
            const float4 factors = system[i / 4];
            sums[0] -= factors.x * x[i];
            if (i + 1 < line) sums[1] -= factors.y * x[i + 1];
            if (i + 2 < line) sums[2] -= factors.z * x[i + 2];
            if (i + 3 < line) sums[3] -= factors.w * x[i + 3];
        }
        x[line] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        store(head, 0, line, x[line]);
    }
}
