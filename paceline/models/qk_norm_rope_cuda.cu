// The heads of an attention layer (qk_norm_rope_cuda.py): RMS norm and RoPE of queries and keys, and a copy of values,
// each as attention and the cache take them. A warp is a head of a token: queries first, then keys, then values.
// The order of the sum of squares depends on the head's size only. It rounds to T where MLX's ops round.
constexpr int Each = Size / 32, Share = Rotary / 2 / Each;  // a lane's numbers, and the lanes of one half of a rotation
struct alignas(Each * sizeof(T) < 16 ? Each * sizeof(T) : 16) Pack { T at[Each]; };
static_assert(Share > 0 && (Share & (Share - 1)) == 0 && Rotary == 2 * Each * Share, "halves are not in lanes of their own");
const int width = sizes[0], lane = threadIdx.x % 32;
const size_t warp = size_t(blockIdx.x) * (Threads / 32) + threadIdx.x / 32;
const size_t token = warp / (QHeads + 2 * KHeads), row = token / width, place = token % width;
const int every = warp % (QHeads + 2 * KHeads), kind = every < QHeads ? 0 : every < QHeads + KHeads ? 1 : 2;
const int head = every - (kind == 0 ? 0 : kind == 1 ? QHeads : QHeads + KHeads), heads = kind == 0 ? QHeads : KHeads;
const T* from = kind == 0 ? queries + row * queries_strides[0] + place * queries_strides[1] + head * Line
    : kind == 1 ? keys + row * keys_strides[0] + place * keys_strides[1] + head * Size
                : values + row * values_strides[0] + place * values_strides[1] + head * Size;
T* const to = (kind == 0 ? queries_out : kind == 1 ? keys_out : values_out) + ((row * heads + head) * width + place) * Size;
Pack held = reinterpret_cast<const Pack*>(from)[lane];
if (kind < 2) {  // the same for all of a warp
    const Pack factor = reinterpret_cast<const Pack*>(kind == 0 ? q_weight : k_weight)[lane];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < Each; ++i) squares += float(held.at[i]) * float(held.at[i]);
    for (int distance = 16; distance > 0; distance /= 2) squares += __shfl_xor_sync(~0u, squares, distance);
    const float scale = rsqrtf(squares / Size + numbers[kind]);
    const float position = numbers[3] * float(offset[row * offset_strides[0]] + int(place));
#pragma unroll
    for (int i = 0; i < Each; ++i) {
        const float number = float(T(float(factor.at[i]) * float(T(float(held.at[i]) * scale))));
        const float other = __shfl_xor_sync(~0u, number, Share);
        const float part = float(lane % Share * Each + i) / float(Rotary / 2);
        float sine, cosine;
        sincosf(position * exp2f(-part * numbers[2]), &sine, &cosine);
        const float turned = lane < Share ? number * cosine - other * sine : other * sine + number * cosine;
        held.at[i] = T(lane < 2 * Share ? turned : number);
    }
}
reinterpret_cast<Pack*>(to)[lane] = held;
