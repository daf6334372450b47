// Adds up the splits of attention_cuda.cu: one block for one query. Its threads take four numbers each, and divide the
// splits among them.
constexpr int Threads = 256, Fours = D / 4, Teams = Threads / Fours;
alignas(16) __shared__ float sums[Teams][D];
const int rows = sizes[0], q_heads = sizes[1], kv_heads = sizes[2], width = sizes[3], capacity = sizes[4];
const int splits = sizes[5], least = sizes[6], window = sizes[7];
const bool has_sinks = sizes[8] != 0;
const int group = q_heads / kv_heads, count = group * width, entries = rows * kv_heads * count;
const int thread = threadIdx.x, lane = thread % 32, team = thread / Fours, four = thread % Fours;
const int entry = blockIdx.x, row = entry / (kv_heads * count), query = entry % count;
const int head = entry / count % kv_heads * group + query % group;
const int first = query / Queries * Queries;
const int used = key_range<KeyTile>(
    ends[row * ends_strides[0]], first, min(first + Queries, count) - 1, group, window, capacity, splits, least, 0).splits;

const float sink = has_sinks ? sinks[head * sinks_strides[0]] * Log2E : NO_SCORE;
float most = sink, total = 0.0f;  // every warp finds the same
for (int split = lane; split < used; split += 32) most = fmaxf(most, weights[size_t(split) * entries + entry]);
for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
if (most == NO_SCORE) most = 0.0f;
for (int split = lane; split < used; split += 32) total += power2(weights[size_t(split) * entries + entry] - most);
for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
total += power2(sink - most);

if (team < Teams) {
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
    for (int split = team; split < used; split += Teams) {
        const size_t at = size_t(split) * entries + entry;
        const float share = power2(weights[at] - most);
        const float4 x = *reinterpret_cast<const float4*>(partial + at * D + four * 4);
        sum = make_float4(
            sum.x + share * x.x, sum.y + share * x.y, sum.z + share * x.z, sum.w + share * x.w);
    }
    *reinterpret_cast<float4*>(&sums[team][four * 4]) = sum;
}
__syncthreads();
if (thread < D) {
    float sum = 0.0f;
    for (int t = 0; t < Teams; ++t) sum += sums[t][thread];
    const size_t to = (size_t(row * width + query / group) * q_heads + head) * D + thread;
    float found = total > 0.0f ? sum / total : 0.0f;
#ifdef GATED
    const size_t gate = row * gates_strides[0] + query / group * gates_strides[1] + (2 * head + 1) * D + thread;
    found = through_gate(found, gates[gate]);
#endif
    out[to] = T(found);
}
