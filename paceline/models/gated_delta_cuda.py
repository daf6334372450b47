"""One CUDA kernel for a GatedDeltaNet decode step: convolution, normalization, gates, delta update, read-out.

In plain ops the same step is some twenty launches, and launches are what a decode step costs on a fast GPU. The
plain form stays the reference: the start-up check compares the two on the machine, and only then is this used.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mlx.core as mx

THREADS = 256

# A block is one value head of one row; a warp owns every eighth line of the state, 32 lanes across its keys.
# Roundings to T are where mlx-lm's own ops round, so that bf16 rows differ from the plain form by ties at most.
SOURCE = """
    const int row = blockIdx.z, head = blockIdx.y, thread = threadIdx.x;
    const int warp = thread / 32, lane = thread % 32;
    constexpr int channels = 2 * Hk * Dk + Hv * Dv;
    const int shared_head = head / (Hv / Hk);
    const bool writes_keys = head % (Hv / Hk) == 0;
    __shared__ float query[Dk], key[Dk], value[Dv];

    auto convolve = [&](int channel, bool writes) {
        const int past = row * (Taps - 1) * channels + channel;
        const T now = mixed[row * channels + channel];
        float sum = float(now) * float(weight[channel * Taps + Taps - 1]);
        for (int i = 0; i < Taps - 1; ++i) {
            sum += float(window[past + i * channels]) * float(weight[channel * Taps + i]);
        }
        if (writes) {
            for (int i = 0; i < Taps - 2; ++i) {
                window_out[past + i * channels] = window[past + (i + 1) * channels];
            }
            window_out[past + (Taps - 2) * channels] = now;
        }
        const float x = float(T(sum));
        return float(T(x / (1.0f + expf(-x))));
    };
    for (int i = thread; i < Dk; i += blockDim.x) {
        query[i] = convolve(shared_head * Dk + i, writes_keys);
        key[i] = convolve(Hk * Dk + shared_head * Dk + i, writes_keys);
    }
    for (int i = thread; i < Dv; i += blockDim.x) {
        value[i] = convolve(2 * Hk * Dk + head * Dv + i, true);
    }
    __syncthreads();

    auto across = [](float x) {
        for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
        return x;
    };
    if (warp < 2) {
        float* x = warp == 0 ? query : key;
        const float scale = warp == 0 ? 1.0f / Dk : rsqrtf(float(Dk));
        float squares = 0.0f;
        for (int i = lane; i < Dk; i += 32) squares += x[i] * x[i];
        const float norm = rsqrtf(across(squares) / Dk + 1e-6f / Dk);
        for (int i = lane; i < Dk; i += 32) x[i] = float(T(float(T(x[i] * norm)) * scale));
    }
    __syncthreads();

    const float dt = float(T(float(a[row * Hv + head]) + float(dt_bias[head])));
    const float soft = float(T(fmaxf(dt, 0.0f) + log1pf(expf(-fabsf(dt)))));
    const float decay = expf(-expf(float(a_log[head])) * soft);
    const float beta = float(T(1.0f / (1.0f + expf(-float(b[row * Hv + head])))));
    for (int line = warp; line < Dv; line += blockDim.x / 32) {
        const size_t at = (size_t(row * Hv + head) * Dv + line) * Dk;
        float state[Dk / 32];
        float memory = 0.0f;
        for (int j = 0; j < Dk / 32; ++j) {
            state[j] = state_in[at + lane + 32 * j] * decay;
            memory += state[j] * key[lane + 32 * j];
        }
        const float delta = (value[line] - across(memory)) * beta;
        float read = 0.0f;
        for (int j = 0; j < Dk / 32; ++j) {
            state[j] += key[lane + 32 * j] * delta;
            read += state[j] * query[lane + 32 * j];
            state_out[at + lane + 32 * j] = state[j];
        }
        read = across(read);
        if (lane == 0) out[(row * Hv + head) * Dv + line] = T(read);
    }
"""


def fits(key_dim: int) -> bool:
    """Can the kernel run here, on heads of this size?"""
    return bool(mx.cuda.is_available()) and key_dim % 32 == 0


@cache
def _kernel() -> Any:
    return mx.fast.cuda_kernel(
        name="paceline_gated_delta_step",
        input_names=["mixed", "window", "weight", "a", "b", "a_log", "dt_bias", "state_in"],
        output_names=["out", "window_out", "state_out"],
        source=SOURCE,
    )


def step(module: Any, mixed: mx.array, a: mx.array, b: mx.array, window: mx.array, state: mx.array) -> list[mx.array]:
    """One token a row. `mixed` (rows, 1, channels) is the projection before the convolution. Returns the outputs
    (rows, 1, value heads, value dim), the convolution's new window and the new state."""
    rows = mixed.shape[0]
    outputs: list[mx.array] = _kernel()(
        inputs=[mixed, window, module.conv1d.weight, a, b, module.A_log, module.dt_bias, state],
        template=[
            ("T", mixed.dtype),
            ("Hk", module.num_k_heads),
            ("Hv", module.num_v_heads),
            ("Dk", module.head_k_dim),
            ("Dv", module.head_v_dim),
            ("Taps", module.conv_kernel_size),
        ],
        grid=(THREADS, module.num_v_heads, rows),
        threadgroup=(THREADS, 1, 1),
        output_shapes=[(rows, 1, module.num_v_heads, module.head_v_dim), window.shape, state.shape],
        output_dtypes=[mixed.dtype, window.dtype, mx.float32],
    )
    return outputs
