// Quantizes new keys and values into lines (cache/kv_quantization.Lines): a warp for each group of numbers, as MLX's
// affine_quantize computes it.
constexpr int Each = Group / 32, PerWord = 32 / Bits, Lanes = PerWord / Each;  // numbers of a lane, of a word; a word's lanes
constexpr int Words = D * Bits / 32, Groups = D / Group, Line = (2 * Words + 2 * Groups + 3) / 4 * 4;
constexpr float Most = (1 << Bits) - 1;
const int rows = sizes[0], heads = sizes[1], tokens = sizes[2];
const int lane = threadIdx.x % 32, warp = blockIdx.x * Warps + threadIdx.x / 32;
const int part = warp % Groups, place = warp / Groups % 2, entry = warp / (2 * Groups);
if (entry >= rows * heads * tokens) return;
const int token = entry % tokens, head = entry / tokens % heads, row = entry / tokens / heads;
const T* const from = place
    ? values + row * values_strides[0] + head * values_strides[1] + token * values_strides[2]
    : keys + row * keys_strides[0] + head * keys_strides[1] + token * keys_strides[2];
const long long stride = place ? values_strides[3] : keys_strides[3];
const int first = lane * Each;

float x[Each], low = 3.4e38f, high = 0.0f;
#pragma unroll
for (int i = 0; i < Each; ++i) {
    x[i] = widen(bits_of(from + (part * Group + first + i) * stride), T());
    low = fminf(low, x[i]);
    high = fmaxf(high, x[i]);
}
for (int step = 16; step > 0; step /= 2) {
    low = fminf(low, __shfl_xor_sync(0xffffffffu, low, step));
    high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, step));
}
float scale = fmaxf((high - low) / Most, 1e-7f);
const bool from_low = fabsf(low) > fabsf(high);
const float edge = from_low ? low : high;
scale = from_low ? scale : -scale;
const float steps = roundf(edge / scale), bias = steps == 0.0f ? 0.0f : edge;
scale = steps == 0.0f ? scale : edge / steps;

unsigned word = 0;
#pragma unroll
for (int i = 0; i < Each; ++i) {
    word |= unsigned(fminf(fmaxf(roundf((x[i] - bias) / scale), 0.0f), Most)) << Bits * ((first + i) % PerWord);
}
#pragma unroll
for (int step = 1; step < Lanes; step *= 2) word |= __shfl_xor_sync(0xffffffffu, word, step);
uint32_t* const line = lines + size_t(entry) * Line;
if (lane % Lanes == 0) line[place * Words + part * (Group / PerWord) + lane / Lanes] = word;
if (lane == 0) line[2 * Words + place * Groups + part] = pack(scale, bias, T());
if (part == 0 && place == 0 && lane < Line - 2 * Words - 2 * Groups) line[2 * Words + 2 * Groups + lane] = 0;
