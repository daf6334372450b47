// What a block writes of its 16 lines: 16 outputs, or 8 of silu(gate) * up, each step rounded as MLX's kernels round it.
constexpr int Each = Gated ? 8 : 16;
auto finish = [](const auto& part, int m, int row, int output) {
    auto total = [&](int line) {
        float sum = 0.0f;
        for (int w = 0; w < Warps; ++w) sum += part[w][m][row][line];
        return T(sum);
    };
    if constexpr (Gated) {
        const T gate = total(output), up = total(8 + output);
        const T least = T(1.0f / float(T(1.0f + float(hexp(T(fabsf(float(gate))))))));
        const T sigmoid = float(gate) < 0.0f ? least : T(1.0f - float(least));
        return T(float(T(float(gate) * float(sigmoid))) * float(up));
    } else {
        return total(output);
    }
};
