"""The vision tower of the model, with Hugging Face's names."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.layers import Linear, Rotation
from training.shapes import Eye


class PatchEmbed(nn.Module):
    def __init__(self, eye: Eye) -> None:
        super().__init__()
        self.proj = nn.Conv3d(3, eye.hidden, (2, eye.patch, eye.patch), (2, eye.patch, eye.patch))

    def forward(self, patches: Tensor) -> Tensor:
        """`patches` hold one frame, (..., 3 * patch * patch); a still picture shows it twice."""
        weight = self.proj.weight.sum(2).flatten(1)
        return F.linear(patches, weight.to(patches.dtype), self.proj.bias.to(patches.dtype))


class LayerNorm(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.bias.to(x.dtype), self.eps)


class EyeAttention(nn.Module):
    def __init__(self, eye: Eye) -> None:
        super().__init__()
        self.heads = eye.heads
        self.qkv = Linear(eye.hidden, 3 * eye.hidden)
        self.proj = Linear(eye.hidden, eye.hidden)

    def forward(self, x: Tensor, rotation: Rotation) -> Tensor:
        pictures, patches, width = x.shape
        qkv = self.qkv(x).reshape(pictures, patches, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        cos, sin = rotation
        q, k = (y.to(cos.dtype) for y in (q, k))
        q, k = ((y * cos + torch.cat([-y.chunk(2, -1)[1], y.chunk(2, -1)[0]], -1) * sin).to(x.dtype) for y in (q, k))
        attended = F.scaled_dot_product_attention(q, k, v)
        return self.proj(attended.transpose(1, 2).reshape(x.shape))


class EyeMLP(nn.Module):
    def __init__(self, eye: Eye) -> None:
        super().__init__()
        self.linear_fc1 = Linear(eye.hidden, eye.intermediate)
        self.linear_fc2 = Linear(eye.intermediate, eye.hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_fc2(F.gelu(self.linear_fc1(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, eye: Eye) -> None:
        super().__init__()
        self.norm1 = LayerNorm(eye.hidden, eps=1e-6)
        self.norm2 = LayerNorm(eye.hidden, eps=1e-6)
        self.attn = EyeAttention(eye)
        self.mlp = EyeMLP(eye)

    def forward(self, x: Tensor, rotation: Rotation) -> Tensor:
        x = x + self.attn(self.norm1(x), rotation)
        return x + self.mlp(self.norm2(x))


class Merger(nn.Module):
    def __init__(self, eye: Eye, out: int) -> None:
        super().__init__()
        self.width = eye.hidden * eye.merge**2
        self.norm = LayerNorm(eye.hidden, eps=1e-6)
        self.linear_fc1 = Linear(self.width, self.width)
        self.linear_fc2 = Linear(self.width, out)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x).reshape(x.shape[0], -1, self.width)
        return self.linear_fc2(F.gelu(self.linear_fc1(x)))


class Visual(nn.Module):
    def __init__(self, eye: Eye, out: int) -> None:
        super().__init__()
        self.eye = eye
        self.patch_embed = PatchEmbed(eye)
        self.pos_embed = nn.Embedding(eye.side**2, eye.hidden)
        self.blocks = nn.ModuleList(Block(eye) for _ in range(eye.depth))
        self.merger = Merger(eye, out)

    def forward(self, pictures: Tensor, dtype: torch.dtype) -> Tensor:
        """Pictures (count, height, width, 3) of bytes, to (count, tokens, out)."""
        eye = self.eye
        count, *size = pictures.shape[:3]
        rows, columns = (pixels // eye.patch for pixels in size)
        x = pictures.to(dtype) / 127.5 - 1
        x = x.reshape(count, rows // eye.merge, eye.merge, eye.patch, columns // eye.merge, eye.merge, eye.patch, 3)
        x = x.permute(0, 1, 4, 2, 5, 7, 3, 6).reshape(count, rows * columns, 3 * eye.patch**2)
        x = self.patch_embed(x) + self._places(rows, columns).to(dtype)
        rotation = self._rotation(rows, columns, torch.promote_types(torch.float32, dtype))
        for block in self.blocks:
            x = block(x, rotation)
        return self.merger(x)

    def _order(self, x: Tensor) -> Tensor:
        """(rows, columns, ...) in the order of the patches: square by merged square."""
        merge = self.eye.merge
        rows, columns = x.shape[:2]
        x = x.reshape(rows // merge, merge, columns // merge, merge, *x.shape[2:]).transpose(1, 2)
        return x.reshape(rows * columns, *x.shape[4:])

    def _places(self, rows: int, columns: int) -> Tensor:
        """Learnt positions, interpolated to the grid with its corners on theirs."""
        side = self.eye.side
        device, dtype = self.pos_embed.weight.device, self.pos_embed.weight.dtype

        def weights(grid: int) -> Tensor:
            at = torch.arange(grid, device=device, dtype=dtype) * ((side - 1) / max(grid - 1, 1))
            near = torch.arange(side, device=device, dtype=dtype)
            return (1 - (at[:, None] - near).abs()).clamp(min=0)  # hat functions

        table = self.pos_embed.weight.reshape(side, side, -1)
        return self._order(torch.einsum("hi,wj,ijd->hwd", weights(rows), weights(columns), table))

    def _rotation(self, rows: int, columns: int, dtype: torch.dtype) -> Rotation:
        quarter = self.eye.hidden // self.eye.heads // 4
        device = self.pos_embed.weight.device
        steps = 10_000.0 ** (-torch.arange(quarter, device=device, dtype=dtype) / quarter)
        places = torch.arange(max(rows, columns), device=device, dtype=dtype)[:, None] * steps
        down, across = (y.expand(rows, columns, quarter) for y in (places[:rows, None], places[None, :columns]))
        angles = self._order(torch.cat([down, across, down, across], -1))
        return angles.cos(), angles.sin()
