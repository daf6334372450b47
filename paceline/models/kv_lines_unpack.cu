// Dequantizes the keys (Place 0) or the values (1) of lines: a thread for 16 bytes of packed numbers.
constexpr int RawPieces = D * Bits / 128, PerRaw = 16 / Bits, Words = D * Bits / 32, Groups = D / Group;
const int rows = sizes[0], heads = sizes[1], slots = sizes[2];
const size_t at = size_t(blockIdx.x) * Threads + threadIdx.x, entry = at / RawPieces;
const int piece = at % RawPieces;
if (entry >= size_t(rows) * heads * slots) return;
const int slot = entry % slots, head = entry / slots % heads, row = entry / slots / heads;
const uint32_t* const line = lines + row * lines_strides[0] + head * lines_strides[1] + slot * lines_strides[2];
const uint4 packed = *reinterpret_cast<const uint4*>(line + Place * Words + piece * 4);
uint4 eights[PerRaw];
dequantize<Bits>(eights, packed, line[2 * Words + Place * Groups + piece * (128 / Bits) / Group], T());
uint4* const to = reinterpret_cast<uint4*>(out + entry * D) + piece * PerRaw;
#pragma unroll
for (int k = 0; k < PerRaw; ++k) to[k] = eights[k];
