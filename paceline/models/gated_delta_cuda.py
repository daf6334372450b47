"""One CUDA kernel for GatedDeltaNet steps: convolution, normalization, gates, delta updates, read-outs.

In plain ops one token is some twenty launches, and launches are what a decode step costs on a fast GPU. The kernel
also makes a verify step's commit free. A step whose tokens may yet be rejected leaves them *pending*: their inputs are
kept and the state stays where it was. The next step's kernel, which has the state in its registers anyway, takes in
the accepted ones first, by the same arithmetic as a plain step: as exact as a replay, without its launches.

The plain form stays the reference: the start-up check compares the two on the machine, and only then is this used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import mlx.core as mx

THREADS = 256
SPLIT = 4  # blocks a head: one row must fill the machine
WIDEST = 9  # tokens of one step: MOST_DRAFTED and the one that is certain

# A block is a quarter of one value head of one row; a warp owns a few lines of the state, 32 lanes across its keys.
# The stream of a row's inputs is its convolution window, the pending tokens that were kept, and the new ones.
# Roundings to T are where mlx-lm's own ops round, so that bf16 rows differ from the plain form by ties at most.
SOURCE = """
    constexpr int Warps = 8, Lines = Dv / (Warps * Split), Cells = Dk / 32, Most = 2 * Widest;
    const int row = blockIdx.z, head = blockIdx.y, part = blockIdx.x, thread = threadIdx.x;
    const int warp = thread / 32, lane = thread % 32;
    constexpr int channels = 2 * Hk * Dk + Hv * Dv;
    const int shared_head = head / (Hv / Hk);
    const bool writes_keys = part == 0 && head % (Hv / Hk) == 0;
    const int width = sizes[0], owed_width = sizes[1];
    const bool eager = sizes[2] != 0;
    const int folded = owed_width == 0 ? 0 : kept[row];
    const int tokens = folded + width;
    __shared__ float query[Widest][Dk], key[Most][Dk], value[Most][Dv / Split], decay[Most], beta[Most];

    auto raw = [&](int place, int channel) -> T {
        if (place < Taps - 1) return window[(row * (Taps - 1) + place) * channels + channel];
        place -= Taps - 1;
        if (place < folded) return owed_mixed[(row * owed_width + place) * channels + channel];
        return mixed[(row * width + place - folded) * channels + channel];
    };
    auto convolve = [&](int token, int channel) {
        float sum = float(raw(token + Taps - 1, channel)) * float(weight[channel * Taps + Taps - 1]);
        for (int i = 0; i < Taps - 1; ++i) sum += float(raw(token + i, channel)) * float(weight[channel * Taps + i]);
        const float x = float(T(sum));
        return float(T(x / (1.0f + expf(-x))));
    };
    auto keep_window = [&](int channel) {
        const int from = eager ? tokens : folded;
        for (int i = 0; i < Taps - 1; ++i) {
            window_out[(row * (Taps - 1) + i) * channels + channel] = raw(from + i, channel);
        }
    };
    for (int i = thread; i < tokens * Dk; i += blockDim.x) {
        const int token = i / Dk, at = i % Dk;
        key[token][at] = convolve(token, Hk * Dk + shared_head * Dk + at);
        if (token >= folded) query[token - folded][at] = convolve(token, shared_head * Dk + at);
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
    for (int token = thread; token < tokens; token += blockDim.x) {
        const bool old = token < folded;
        const int at = old ? (row * owed_width + token) * Hv + head : (row * width + token - folded) * Hv + head;
        const float dt = float(T(float(old ? owed_a[at] : a[at]) + float(dt_bias[head])));
        const float soft = float(T(fmaxf(dt, 0.0f) + log1pf(expf(-fabsf(dt)))));
        decay[token] = expf(-expf(float(a_log[head])) * soft);
        beta[token] = float(T(1.0f / (1.0f + expf(-float(old ? owed_b[at] : b[at])))));
    }
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

    float state[Lines][Cells];
    const int first = part * (Dv / Split) + warp * Lines;
    const size_t base = (size_t(row * Hv + head) * Dv + first) * Dk + lane;
    auto keep_state = [&]() {
        for (int l = 0; l < Lines; ++l)
            for (int j = 0; j < Cells; ++j) state_out[base + l * Dk + 32 * j] = state[l][j];
    };
    for (int l = 0; l < Lines; ++l)
        for (int j = 0; j < Cells; ++j) state[l][j] = state_in[base + l * Dk + 32 * j];
    for (int token = 0; token < tokens; ++token) {
        if (token == folded && !eager) keep_state();
        float memory[Lines], read[Lines];
        for (int l = 0; l < Lines; ++l) {
            memory[l] = 0.0f;
            for (int j = 0; j < Cells; ++j) {
                state[l][j] *= decay[token];
                memory[l] += state[l][j] * key[token][lane + 32 * j];
            }
        }
        for (int l = 0; l < Lines; ++l) memory[l] = across(memory[l]);
        for (int l = 0; l < Lines; ++l) {
            const float delta = (value[token][warp * Lines + l] - memory[l]) * beta[token];
            for (int j = 0; j < Cells; ++j) state[l][j] += key[token][lane + 32 * j] * delta;
        }
        if (token < folded) continue;
        for (int l = 0; l < Lines; ++l) {
            read[l] = 0.0f;
            for (int j = 0; j < Cells; ++j) read[l] += state[l][j] * query[token - folded][lane + 32 * j];
        }
        for (int l = 0; l < Lines; ++l) read[l] = across(read[l]);
        if (lane == 0) {
            const size_t at = (size_t(row * width + token - folded) * Hv + head) * Dv + first;
            for (int l = 0; l < Lines; ++l) out[at + l] = T(read[l]);
        }
    }
    if (eager) keep_state();
"""


def fits(module: Any) -> bool:
    """Can the kernel run here, on heads of this size?"""
    sizes = module.head_k_dim % 32 == 0 and module.head_v_dim % (8 * SPLIT) == 0
    return bool(mx.cuda.is_available()) and sizes and module.head_k_dim + module.head_v_dim // SPLIT <= 512


@cache
def _kernel() -> Any:
    inputs = "mixed window weight a b a_log dt_bias state_in owed_mixed owed_a owed_b kept sizes"
    return mx.fast.cuda_kernel(
        name="paceline_gated_delta_step",
        input_names=inputs.split(),
        output_names=["out", "window_out", "state_out"],
        source=SOURCE,
    )


def step(
    module: Any,
    mixed: mx.array,
    a: mx.array,
    b: mx.array,
    window: mx.array,
    state: mx.array,
    pending: Sequence[mx.array] = (),
    kept: mx.array | None = None,
    *,
    eager: bool = True,
) -> list[mx.array]:
    """One step of `mixed` (rows, tokens, channels), the projection before the convolution.

    `pending` are (mixed, a, b) of the step before, of which row i applies `kept[i]` tokens first. The window and the
    state that come back are those after the new tokens if `eager`, else those before them. Returns the outputs
    (rows, tokens, value heads, value dim), the window and the state.
    """
    rows, width = mixed.shape[:2]
    owed_width = pending[0].shape[1] if pending else 0
    if kept is None:
        kept = mx.zeros((rows,), dtype=mx.int32)
    outputs: list[mx.array] = _kernel()(
        inputs=[
            *(mixed, window, module.conv1d.weight, a, b, module.A_log, module.dt_bias, state),
            *(pending or (mixed, a, b)),
            kept,
            mx.array([width, owed_width, eager], dtype=mx.int32),
        ],
        template=[
            ("T", mixed.dtype),
            ("Hk", module.num_k_heads),
            ("Hv", module.num_v_heads),
            ("Dk", module.head_k_dim),
            ("Dv", module.head_v_dim),
            ("Taps", module.conv_kernel_size),
            ("Split", SPLIT),
            ("Widest", WIDEST),
        ],
        grid=(THREADS * SPLIT, module.num_v_heads, rows),
        threadgroup=(THREADS, 1, 1),
        output_shapes=[(rows, width, module.num_v_heads, module.head_v_dim), window.shape, state.shape],
        output_dtypes=[mixed.dtype, window.dtype, mx.float32],
    )
    return outputs
