"""The model in PyTorch, with Hugging Face's names: a state dict of this is the exported checkpoint.

Weights are float32; products run in the type of the activations, which `Model.dtype` sets. Norm weights of the
language model are zero-centred, as in Qwen3.5's files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training import delta
from training.layers import COMPILED, SIZES, GatedNorm, Linear, Norm, Rotation, call, linear, lookup, norm
from training.shapes import Shape
from training.vision import Visual


def fuse(tokens: int) -> None:
    """Compiles what lies between attention and scans, for steps of so many tokens. Takes a minute on a GPU."""
    SIZES.add(tokens)
    for function in (_delta_in, _delta_out, _attention_in, _attention_out, _pair, norm):
        COMPILED[function.__name__] = torch.compile(function, dynamic=False)


@dataclass(frozen=True)
class Rows:
    """How the flat tokens of a step lie in rows."""

    count: int
    length: int

    def at(self, device: torch.device) -> Tensor:
        """Every token's place in its row."""
        return torch.arange(self.length, device=device, dtype=torch.int32).repeat(self.count)


# -- GatedDeltaNet


def _delta_in(
    x: Tensor,
    at: Tensor,
    before: Tensor,
    weights: tuple[Tensor, ...],
    conv: Tensor,
    a_log: Tensor,
    dt_bias: Tensor,
    heads: int,
    dims: int,
    eps: float,
) -> tuple[Tensor, ...]:
    """To the coefficients of every chunk, and the gate: norm, projections, convolution, normed queries and keys."""
    work = torch.promote_types(torch.float32, x.dtype)
    width = heads * dims
    mixed = linear(norm(x, before, eps), *weights)
    tokens = len(mixed)
    taps = conv.shape[-1]
    padded = F.pad(mixed[:, : 3 * width], (0, 0, taps - 1, 0))
    kernel = conv[:, 0].to(work)
    y = padded[taps - 1 :].to(work) * kernel[:, taps - 1]
    for back in range(1, taps):  # a row does not see the end of the row before it
        earlier = padded[taps - 1 - back : taps - 1 - back + tokens].to(work)
        y = y + torch.where((at >= back)[:, None], earlier, 0) * kernel[:, taps - 1 - back]
    q, k, v = (delta.split(part.reshape(tokens, heads, dims)) for part in F.silu(y).split(width, -1))
    q = q * (torch.rsqrt((q * q).sum(-1, keepdim=True) + 1e-6) * dims**-0.5)
    k = k * torch.rsqrt((k * k).sum(-1, keepdim=True) + 1e-6)
    beta = mixed[:, 4 * width : 4 * width + heads].to(work).sigmoid()
    decay = -a_log.to(work).exp() * F.softplus(mixed[:, 4 * width + heads :].to(work) + dt_bias.to(work))
    found = delta.coefficients(q, k, v, delta.split(decay), delta.split(beta), x.dtype)
    return (*found, mixed[:, 3 * width : 4 * width])


def _delta_out(
    x: Tensor, p: Tensor, r: Tensor, states: Tensor, z: Tensor, weight: Tensor, out: Tensor, eps: float, *mlp: Tensor
) -> Tensor:
    """Reads the states, norms and gates every head, and goes on through the rest of the layer."""
    work = torch.promote_types(torch.float32, x.dtype)
    y = delta.joined(r.to(work) + (p @ states.to(p.dtype)).to(work))
    y = y * torch.rsqrt((y * y).mean(-1, keepdim=True) + eps) * weight.to(work)
    y = y * F.silu(z.reshape(y.shape).to(work))
    return _rest(x, linear(y.flatten(1).to(x.dtype), out), eps, *mlp)


def _rest(x: Tensor, change: Tensor, eps: float, after: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """The end of any layer: the change that its mixer made, then the MLP's."""
    x = x + change
    opened, passed = linear(norm(x, after, eps), gate, up).chunk(2, -1)
    return x + linear(F.silu(opened) * passed, down)


class GatedDeltaNet(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.dims = shape.state_heads, shape.state_dim
        width = self.heads * self.dims
        self.in_proj_qkv = Linear(shape.hidden, 3 * width, bias=False)
        self.in_proj_z = Linear(shape.hidden, width, bias=False)
        self.in_proj_b = Linear(shape.hidden, self.heads, bias=False)
        self.in_proj_a = Linear(shape.hidden, self.heads, bias=False)
        self.conv1d = nn.Conv1d(3 * width, 3 * width, shape.conv, groups=3 * width, bias=False)
        self.dt_bias = nn.Parameter(torch.ones(self.heads))
        self.A_log = nn.Parameter(torch.zeros(self.heads))
        self.norm = GatedNorm(self.dims)
        self.out_proj = Linear(width, shape.hidden, bias=False)


# -- attention


def _turn(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float) -> Tensor:
    """Norms every head and rotates the first part of it. x is (tokens, heads, dims)."""
    work = torch.promote_types(torch.float32, x.dtype)
    y = norm(x.to(work), weight, eps)
    half = cos.shape[-1]
    first, second, rest = y[..., :half], y[..., half : 2 * half], y[..., 2 * half :]
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], -1).to(x.dtype)


def _attention_in(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    before: Tensor,
    weights: tuple[Tensor, ...],
    q_norm: Tensor,
    k_norm: Tensor,
    dims: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, values (tokens, heads, dims), and the gate (tokens, heads * dims)."""
    mixed = linear(norm(x, before, eps), *weights)
    q, k, v = mixed.split([len(weight) for weight in weights], -1)
    q, gate = q.reshape(len(x), -1, 2 * dims).chunk(2, -1)
    k, v = (part.reshape(len(x), -1, dims) for part in (k, v))
    q, k = _turn(q, q_norm, cos, sin, eps), _turn(k, k_norm, cos, sin, eps)
    return q, k, v, gate.flatten(1)


def _attention_out(x: Tensor, attended: Tensor, gate: Tensor, out: Tensor, eps: float, *mlp: Tensor) -> Tensor:
    return _rest(x, linear(attended * torch.sigmoid(gate), out), eps, *mlp)


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dims = shape.head_dim
        self.heads, self.kv_heads = shape.heads, shape.kv_heads
        self.q_proj = Linear(shape.hidden, 2 * self.heads * self.dims, bias=False)
        self.k_proj = Linear(shape.hidden, self.kv_heads * self.dims, bias=False)
        self.v_proj = Linear(shape.hidden, self.kv_heads * self.dims, bias=False)
        self.o_proj = Linear(self.heads * self.dims, shape.hidden, bias=False)
        self.q_norm = Norm(self.dims, shape.eps)
        self.k_norm = Norm(self.dims, shape.eps)


class MLP(nn.Module):
    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj = Linear(hidden, intermediate, bias=False)
        self.up_proj = Linear(hidden, intermediate, bias=False)
        self.down_proj = Linear(intermediate, hidden, bias=False)


class Layer(nn.Module):
    """Its parts only hold weights: what they compute crosses their borders, so that it can be fused."""

    def __init__(self, shape: Shape, attends: bool) -> None:
        super().__init__()
        if attends:
            self.self_attn = Attention(shape)
        else:
            self.linear_attn = GatedDeltaNet(shape)
        self.attends, self.eps = attends, shape.eps
        self.input_layernorm = Norm(shape.hidden, shape.eps)
        self.post_attention_layernorm = Norm(shape.hidden, shape.eps)
        self.mlp = MLP(shape.hidden, shape.intermediate)

    def forward(self, x: Tensor, rotation: Rotation, rows: Rows) -> Tensor:
        """x is (tokens, hidden)."""
        return self._attend(x, rotation, rows) if self.attends else self._remember(x, rows)

    def queries(self, x: Tensor, rotation: Rotation, rows: Rows) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries, keys and values (rows, heads, tokens, dims), and the flat gate."""
        attn = self.self_attn
        weights = (attn.q_proj.weight, attn.k_proj.weight, attn.v_proj.weight)
        norms = (attn.q_norm.weight, attn.k_norm.weight)
        found = call(_attention_in, x, *rotation, self.input_layernorm.weight, weights, *norms, attn.dims, self.eps)
        q, k, v = (y.reshape(rows.count, rows.length, -1, attn.dims).transpose(1, 2) for y in found[:3])
        return q, k, v, found[3]

    def attended(self, x: Tensor, attended: Tensor, gate: Tensor) -> Tensor:
        """The rest of the layer, from attention's output (rows, heads, tokens, dims)."""
        flat = attended.transpose(1, 2).reshape(gate.shape)
        out: Tensor = call(_attention_out, x, flat, gate, self.self_attn.o_proj.weight, self.eps, *self._mlp())
        return out

    def _attend(self, x: Tensor, rotation: Rotation, rows: Rows) -> Tensor:
        q, k, v, gate = self.queries(x, rotation, rows)
        return self.attended(x, F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), gate)

    def _remember(self, x: Tensor, rows: Rows) -> Tensor:
        net = self.linear_attn
        weights = tuple(part.weight for part in (net.in_proj_qkv, net.in_proj_z, net.in_proj_b, net.in_proj_a))
        sizes = (net.heads, net.dims, self.eps)
        given = (rows.at(x.device), self.input_layernorm.weight, weights, net.conv1d.weight, net.A_log, net.dt_bias)
        m, n, p, r, z = call(_delta_in, x, *given, *sizes)
        states = delta.scan(m, n, rows.count)
        out: Tensor = call(_delta_out, x, p, r, states, z, net.norm.weight, net.out_proj.weight, self.eps, *self._mlp())
        return out

    def _mlp(self) -> tuple[Tensor, ...]:
        mlp = self.mlp
        parts = (mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight)
        return (self.post_attention_layernorm.weight, *parts)


class Language(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape, shape.attends(layer)) for layer in range(shape.layers))
        self.norm = Norm(shape.hidden, shape.eps)

    def forward(self, x: Tensor, rotation: Rotation, rows: Rows) -> Tensor:
        for layer in self.layers:
            x = layer(x, rotation, rows)
        normed: Tensor = self.norm(x)
        return normed


# -- the whole


def _pair(embeddings: Tensor, hidden: Tensor, first: Tensor, second: Tensor, fc: Tensor, eps: float) -> Tensor:
    return linear(torch.cat([norm(embeddings, first, eps), norm(hidden, second, eps)], -1), fc)


class MTP(nn.Module):
    """The head that guesses the token after the next, and further when fed with its own states."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.eps = shape.eps
        self.pre_fc_norm_embedding = Norm(shape.hidden, shape.eps)
        self.pre_fc_norm_hidden = Norm(shape.hidden, shape.eps)
        self.fc = Linear(2 * shape.hidden, shape.hidden, bias=False)
        self.layers = nn.ModuleList([Layer(shape, attends=True)])
        self.norm = Norm(shape.hidden, shape.eps)

    def pair(self, embeddings: Tensor, hidden: Tensor) -> Tensor:
        norms = (self.pre_fc_norm_embedding.weight, self.pre_fc_norm_hidden.weight)
        paired: Tensor = call(_pair, embeddings, hidden, *norms, self.fc.weight, self.eps)
        return paired

    def forward(self, embeddings: Tensor, hidden: Tensor, rotation: Rotation, rows: Rows) -> Tensor:
        """The head's states; embeddings[p] is of the token after position p."""
        state: Tensor = self.norm(self.layers[0](self.pair(embeddings, hidden), rotation, rows))
        return state

    def deeper(self, embeddings: Tensor, hidden: Tensor, rotation: Rotation, rows: Rows, depth: int) -> list[Tensor]:
        """The head's states at depths 1 to `depth`.

        As when it drafts: at depth d a position sees pairs made of the target's states up to d - 1 positions
        before it, then the head's own pairs of the depths between, one each.
        """
        layer = self.layers[0]
        shared = layer.self_attn.heads // layer.self_attn.kv_heads
        behind = torch.arange(rows.length, device=embeddings.device)
        behind = behind[:, None] - behind  # how far a key lies behind a query
        keys: list[Tensor] = []
        values: list[Tensor] = []
        states: list[Tensor] = []
        for step in range(depth):
            if step:  # the state guessed for the position before stands in for the target's
                hidden = states[-1].reshape(rows.count, rows.length, -1)
                hidden = F.pad(hidden, (0, 0, 1, 0))[:, :-1].flatten(0, 1)
            x = self.pair(embeddings, hidden)
            q, k, v, gate = layer.queries(x, rotation, rows)
            keys.append(k)
            values.append(v)
            # Keys of depth 1 + i are seen at exactly step - i behind, but those of depth 1 at all beyond that too.
            mask = torch.cat([behind >= step, *(behind == step - i for i in range(1, step + 1))], 1)
            k, v = (torch.cat(parts, 2).repeat_interleave(shared, 1) for parts in (keys, values))
            x = layer.attended(x, F.scaled_dot_product_attention(q, k, v, attn_mask=mask), gate)
            states.append(self.norm(x))
        return states


class Trunk(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.language_model = Language(shape)
        if shape.eye is not None:
            self.visual = Visual(shape.eye, shape.hidden)


class Model(nn.Module):
    def __init__(self, shape: Shape, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.shape, self.dtype = shape, dtype
        self.model = Trunk(shape)
        if shape.mtp:
            self.mtp = MTP(shape)
        _initialize(self)

    @property
    def table(self) -> Tensor:
        """Embeddings and output head."""
        return self.model.language_model.embed_tokens.weight

    def embed(self, tokens: Tensor) -> Tensor:
        return lookup(self.table, tokens, self.dtype)

    def rotation(self, positions: Tensor) -> Rotation:
        """Cosines and sines for positions (3, rows, tokens): pairs take time, height and width in turn."""
        pairs, sections = self.shape.rotated_pairs, self.shape.sections
        steps = torch.arange(pairs, device=positions.device, dtype=torch.float32) / pairs
        steps = self.shape.rope_theta**-steps
        axes = [0] * pairs
        for axis in (1, 2):
            for pair in range(axis, min(3 * sections[axis], pairs), 3):
                axes[pair] = axis
        chosen = torch.stack([positions[axis] for axis in axes], -1).flatten(0, 1)
        angles = chosen.to(torch.float32) * steps
        return angles.cos(), angles.sin()

    def forward(self, embeddings: Tensor, rotation: Rotation) -> Tensor:
        """Hidden states after the final norm, of embeddings (rows, tokens, hidden)."""
        rows = Rows(*embeddings.shape[:2])
        hidden: Tensor = self.model.language_model(embeddings.flatten(0, 1), rotation, rows)
        return hidden.reshape(embeddings.shape)

    def with_pictures(self, embeddings: Tensor, pictures: Tensor, places: Tensor) -> Tensor:
        """Puts picture i at flat position places[i] of the rows laid end to end; a place past the end is nowhere."""
        rows, tokens, width = embeddings.shape
        features = self.model.visual(pictures, self.dtype)
        each = features.shape[1]
        at = (places[:, None] + torch.arange(each, device=places.device)).clamp(max=rows * tokens)
        flat = torch.cat([embeddings.reshape(-1, width), embeddings.new_zeros(1, width)])
        flat = flat.index_copy(0, at.reshape(-1), features.reshape(-1, width))
        return flat[:-1].reshape(embeddings.shape)


def positions_of(tokens: Tensor, picture_token: int, side: int, columns: int = 0) -> Tensor:
    """M-RoPE's (3, rows, tokens) positions where every picture is `side` by `columns` tokens large, or a square."""
    inside = tokens == picture_token
    columns = columns or side
    each = side * columns
    count = inside.to(torch.int32).cumsum(1)
    index = (count - 1).remainder(each)  # of a token within its picture
    ends = inside & (index == each - 1)
    step = (~inside).to(torch.int32) + max(side, columns) * ends.to(torch.int32)
    start = step.cumsum(1) - step
    down = torch.where(inside, index // columns, 0)
    across = torch.where(inside, index % columns, 0)
    return torch.stack([start, start + down, start + across])


def counting(rows: int, tokens: int, device: torch.device) -> Tensor:
    """Positions of rows without pictures."""
    return torch.arange(tokens, device=device).expand(3, rows, tokens)


def _initialize(model: Model) -> None:
    zeroed: Sequence[str] = ("out_proj.weight", "o_proj.weight", "down_proj.weight", "attn.proj.weight")
    for name, weight in model.named_parameters():
        if name.endswith((*zeroed, "mlp.linear_fc2.weight", "bias")) and "dt_bias" not in name:
            nn.init.zeros_(weight)
        elif name.endswith("embed_tokens.weight") or name.endswith("merger.linear_fc2.weight"):
            nn.init.normal_(weight, std=0.02)
        elif name.endswith("pos_embed.weight"):
            nn.init.normal_(weight, std=0.2)
        elif name.endswith("conv1d.weight"):
            nn.init.uniform_(weight, -0.5, 0.5)
        elif name.endswith("A_log"):
            with torch.no_grad():
                weight.uniform_(1, 16).log_()
        elif name.endswith("dt_bias"):  # steps from a thousandth to a tenth, evenly in the logarithm
            with torch.no_grad():
                step = torch.empty_like(weight).uniform_(math.log(1e-3), math.log(0.1)).exp_()
                weight.copy_(step + torch.log(-torch.expm1(-step)))
        elif weight.ndim > 1:
            nn.init.normal_(weight, std=0.7 / math.sqrt(weight[0].numel()))
