// The RMS norm of a head's outputs, times the SiLU of its gates: a warp computes it, and each lane has some neighbours.
// The order of the sum of squares depends on the head's size only. It rounds to T where mlx-lm's ops round.
template <typename T, int Each>
struct alignas(Each * sizeof(T) < 16 ? Each * sizeof(T) : 16) Pack {
    T at[Each];
};
template <typename T, int Each>
__device__ Pack<T, Each> gated_norm(Pack<T, Each> given, Pack<T, Each> gate, Pack<T, Each> factor, float eps) {
    float squares = 0.0f;
    #pragma unroll
    for (int i = 0; i < Each; ++i) squares += float(given.at[i]) * float(given.at[i]);
    for (int distance = 16; distance > 0; distance /= 2) squares += __shfl_xor_sync(~0u, squares, distance);
    const float scale = rsqrtf(squares / (32 * Each) + eps);
    #pragma unroll
    for (int i = 0; i < Each; ++i) {
        const float number = float(T(float(factor.at[i]) * float(T(float(given.at[i]) * scale))));
        const float open = float(gate.at[i]), share = 1.0f / (1.0f + expf(-fabsf(open)));
        given.at[i] = T(open * (open < 0.0f ? 1.0f - share : share) * number);
    }
    return given;
}
