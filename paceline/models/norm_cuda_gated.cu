// The RMS norm of a head's outputs, times the SiLU of its gates (norm_cuda.py). A warp is a head of a token.
// The order of the sum of squares depends on the head's size only. It rounds to T where mlx-lm's ops round.
constexpr int Each = Size / 32;
struct alignas(Each * sizeof(T) < 16 ? Each * sizeof(T) : 16) Pack { T at[Each]; };
const int lane = threadIdx.x % 32;
const size_t warp = size_t(blockIdx.x) * (Threads / 32) + threadIdx.x / 32, place = warp * 32 + lane;
const T* gates_of_head = gates + warp / Heads * Line + First + warp % Heads * Size;
const Pack given = reinterpret_cast<const Pack*>(x)[place];
const Pack gate = reinterpret_cast<const Pack*>(gates_of_head)[lane];
const Pack factor = reinterpret_cast<const Pack*>(weight)[lane];
float squares = 0.0f;
#pragma unroll
for (int i = 0; i < Each; ++i) squares += float(given.at[i]) * float(given.at[i]);
for (int distance = 16; distance > 0; distance /= 2) squares += __shfl_xor_sync(~0u, squares, distance);
const float scale = rsqrtf(squares / Size + eps[0]);
Pack made;
#pragma unroll
for (int i = 0; i < Each; ++i) {
    const float number = float(T(float(factor.at[i]) * float(T(float(given.at[i]) * scale))));
    const float open = float(gate.at[i]), share = 1.0f / (1.0f + expf(-fabsf(open)));
    made.at[i] = T(open * (open < 0.0f ? 1.0f - share : share) * number);
}
reinterpret_cast<Pack*>(out)[place] = made;
