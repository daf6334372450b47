// One GatedDeltaNet step of a row: convolution, normalization, gates, delta updates, read-outs (gated_delta_cuda.py).
// A block is a part of one value head of one row. A warp owns a few lines of the state, 32 lanes across the keys, four
// neighbours each. It asks for them first: they are most of what is read, and all else is computed meanwhile.
// A row's inputs are its convolution window, the pending tokens that were accepted, and the new tokens.
// It rounds to T where mlx-lm's ops round, so that bf16 results differ from the plain form only by ties.
// `Normed`: a block has a whole head, and what it writes is the gated norm (norm_cuda_gated.cuh) of the outputs.
constexpr int Lines = Dv / (Warps * Split), Cells = Dk / 32, Most = 2 * Widest;
static_assert(!Normed || Split == 1);
const int row = blockIdx.z, head = blockIdx.y, part = blockIdx.x, thread = threadIdx.x;
const int warp = thread / 32, lane = thread % 32;
constexpr int channels = 2 * Hk * Dk + Hv * Dv;
const int shared_head = head / (Hv / Hk);
const bool writes_keys = part == 0 && head % (Hv / Hk) == 0;
const int width = sizes[0], pending_width = sizes[1];
if (!active[row]) {  // padding: its window and state are set before anything reads them
    for (int i = thread; i < width * (Dv / Split); i += blockDim.x) {
        const size_t token = row * width + i / (Dv / Split);
        out[(token * Hv + head) * Dv + part * (Dv / Split) + i % (Dv / Split)] = T(0.0f);
    }
    return;
}
const bool eager = sizes[2] != 0;
const int accepted = pending_width == 0 ? 0 : kept[row];
const int tokens = accepted + width;
__shared__ __align__(16) float query[Widest][Dk], key[Most][Dk];
__shared__ float value[Most][Dv / Split], decay[Most], beta[Most];

struct alignas(4 * Cells) Piece { float at[Cells]; };  // of a line: a lane's keys
const int first = part * (Dv / Split) + warp * Lines;
const size_t base = (size_t(row * Hv + head) * Dv + first) * Dk + Cells * lane;
Piece state[Lines];
for (int l = 0; l < Lines; ++l) state[l] = *reinterpret_cast<const Piece*>(state_in + base + l * Dk);

using Head = Pack<T, Normed ? Dv / 32 : 1>;
auto place_of = [&](int token) { return (size_t(row * width + token) * Hv + head) * Dv; };
Head gate, factor;  // of a warp's first token: asked for long before they are used
if (Normed && warp < width) {
    gate = reinterpret_cast<const Head*>(gates + place_of(warp))[lane];
    factor = reinterpret_cast<const Head*>(norm_weight)[lane];
}
auto raw = [&](int place, int channel) -> T {
    if (place < Taps - 1) return window[(row * (Taps - 1) + place) * channels + channel];
    place -= Taps - 1;
    if (place < accepted) return pending_mixed[(row * pending_width + place) * channels + channel];
    return mixed[(row * width + place - accepted) * channels + channel];
};
auto convolve = [&](int token, int channel) {
    float sum = float(raw(token + Taps - 1, channel)) * float(weight[channel * Taps + Taps - 1]);
    for (int i = 0; i < Taps - 1; ++i) sum += float(raw(token + i, channel)) * float(weight[channel * Taps + i]);
    const float x = float(T(sum));
    return float(T(x / (1.0f + expf(-x))));
};
auto keep_window = [&](int channel) {
    const int from = eager ? tokens : accepted;
    for (int i = 0; i < Taps - 1; ++i) {
        window_out[(row * (Taps - 1) + i) * channels + channel] = raw(from + i, channel);
    }
};
for (int token = blockDim.x - 1 - thread; token < tokens; token += blockDim.x) {
    const bool old = token < accepted;
    const int at = old ? (row * pending_width + token) * Hv + head : (row * width + token - accepted) * Hv + head;
    const float dt = float(T(float(old ? pending_a[at] : a[at]) + float(dt_bias[head])));
    const float soft = float(T(fmaxf(dt, 0.0f) + log1pf(expf(-fabsf(dt)))));
    decay[token] = expf(-expf(float(a_log[head])) * soft);
    beta[token] = float(T(1.0f / (1.0f + expf(-float(old ? pending_b[at] : b[at])))));
}
for (int i = thread; i < tokens * Dk; i += blockDim.x) {
    const int token = i / Dk, at = i % Dk;
    key[token][at] = convolve(token, Hk * Dk + shared_head * Dk + at);
    if (token >= accepted) query[token - accepted][at] = convolve(token, shared_head * Dk + at);
}
for (int i = thread; i < tokens * (Dv / Split); i += blockDim.x) {
    const int token = i / (Dv / Split), at = i % (Dv / Split);
    value[token][at] = convolve(token, 2 * Hk * Dk + head * Dv + part * (Dv / Split) + at);
}
if (writes_keys) {
    for (int i = thread; i < Dk; i += blockDim.x) {
        keep_window(shared_head * Dk + i);
        keep_window(Hk * Dk + shared_head * Dk + i);
    }
}
const int values = 2 * Hk * Dk + head * Dv + part * (Dv / Split);
for (int i = thread; i < Dv / Split; i += blockDim.x) keep_window(values + i);
__syncthreads();

auto across = [](float x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
};
for (int i = warp; i < tokens + width; i += Warps) {
    float* x = i < tokens ? key[i] : query[i - tokens];
    const float scale = i < tokens ? rsqrtf(float(Dk)) : 1.0f / Dk;
    float squares = 0.0f;
    for (int j = lane; j < Dk; j += 32) squares += x[j] * x[j];
    const float norm = rsqrtf(across(squares) / Dk + 1e-6f / Dk);
    for (int j = lane; j < Dk; j += 32) x[j] = float(T(float(T(x[j] * norm)) * scale));
}
__syncthreads();

auto keep_state = [&]() {
    for (int l = 0; l < Lines; ++l) *reinterpret_cast<Piece*>(state_out + base + l * Dk) = state[l];
};
for (int token = 0; token < tokens; ++token) {
    if (token == accepted && !eager) keep_state();
    const Piece k = *reinterpret_cast<const Piece*>(&key[token][Cells * lane]);
    float memory[Lines], read[Lines];
    for (int l = 0; l < Lines; ++l) {
        memory[l] = 0.0f;
        for (int j = 0; j < Cells; ++j) {
            state[l].at[j] *= decay[token];
            memory[l] += state[l].at[j] * k.at[j];
        }
    }
    for (int l = 0; l < Lines; ++l) memory[l] = across(memory[l]);
    for (int l = 0; l < Lines; ++l) {
        const float delta = (value[token][warp * Lines + l] - memory[l]) * beta[token];
        for (int j = 0; j < Cells; ++j) state[l].at[j] += k.at[j] * delta;
    }
    if (token < accepted) continue;
    const Piece q = *reinterpret_cast<const Piece*>(&query[token - accepted][Cells * lane]);
    for (int l = 0; l < Lines; ++l) {
        read[l] = 0.0f;
        for (int j = 0; j < Cells; ++j) read[l] += state[l].at[j] * q.at[j];
    }
    for (int l = 0; l < Lines; ++l) read[l] = across(read[l]);
    if (lane == 0) {
        T* to = out + place_of(token - accepted) + first;
        for (int l = 0; l < Lines; ++l) {
            if (Normed) value[token][first + l] = float(T(read[l]));  // this warp alone has read what was there
            else to[l] = T(read[l]);
        }
    }
}
if (eager) keep_state();
if constexpr (Normed) {
    __syncthreads();
    for (int token = warp; token < width; token += Warps) {
        if (token != warp) gate = reinterpret_cast<const Head*>(gates + place_of(token))[lane];
        Head given;
        for (int i = 0; i < Dv / 32; ++i) given.at[i] = T(value[accepted + token][Dv / 32 * lane + i]);
        reinterpret_cast<Head*>(out + place_of(token))[lane] = gated_norm(given, gate, factor, eps[0]);
    }
}
