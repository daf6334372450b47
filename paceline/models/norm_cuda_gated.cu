// The gated norm of heads (norm_cuda.py, which puts norm_cuda_gated.cuh before this). A warp is a head of a token.
using Head = Pack<T, Size / 32>;
const int lane = threadIdx.x % 32;
const size_t warp = size_t(blockIdx.x) * (Threads / 32) + threadIdx.x / 32, place = warp * 32 + lane;
const T* gates_of_head = gates + warp / Heads * Line + First + warp % Heads * Size;
const Head given = reinterpret_cast<const Head*>(x)[place];
const Head gate = reinterpret_cast<const Head*>(gates_of_head)[lane];
const Head factor = reinterpret_cast<const Head*>(weight)[lane];
reinterpret_cast<Head*>(out)[place] = gated_norm(given, gate, factor, eps[0]);
