"""The models of bench/torch_models.py: what a workload is, and those written by hand; torch_zoo_libraries.py has more.

Random weights, sizes chosen so that Inductor compiles each in seconds. A workload is an Entry; its `build(device,
dtype)` gives a Work: the module that is compiled, and a function that makes the inputs of call i. A module of a
training workload returns its loss; the backward pass is called outside of it, as users do.
"""
import dataclasses
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

ENTRIES: dict[str, "Entry"] = {}


@dataclasses.dataclass
class Work:
    module: nn.Module
    inputs: Callable  # inputs(i) -> tuple: values of call i, in tensors of its own
    distinct: int = 4  # inputs(i) differ in more than values for i below this: every mode sees all of them
    reset: Callable | None = None  # back to the first call's state, called now and then outside of what is timed
    most_calls: int = 1 << 30  # between two resets
    optimizer: torch.optim.Optimizer | None = None
    extra_state: tuple = ()  # tensors that a call changes, beside parameters and buffers


@dataclasses.dataclass
class Entry:
    name: str
    suite: str  # hand, torchvision, timm, transformers, pyg
    train: bool
    launch_bound: bool  # a guess: the GPU waits for its launches in plain Inductor
    dtype: torch.dtype  # on a GPU; float32 on a CPU
    dynamic: bool  # sizes change from call to call
    about: str
    build: Callable

    def make(self, device):
        torch.manual_seed(0)
        work = self.build(device, self.dtype if device.type == "cuda" else torch.float32)
        work.module.train(self.train)
        return work


def entry(suite, about, *, dtype=torch.float32, launch_bound=True, train=False, dynamic=False, name=None):
    def keep(build):
        label = name or build.__name__
        assert label not in ENTRIES, label
        ENTRIES[label] = Entry(label, suite, train, launch_bound, dtype, dynamic, about, build)
        return build
    return keep


def random_inputs(device, dtype, *sizes):
    """inputs(i) of normal numbers."""
    return lambda i: tuple(torch.randn(*size, device=device, dtype=dtype) for size in sizes)


class Returns(nn.Module):
    """A module whose result goes through `take`: what is compared and what a loss is made of is one tensor."""

    def __init__(self, module, take):
        super().__init__()
        self.module, self.take = module, take

    def forward(self, *inputs):
        return self.take(self.module, *inputs)


# --- inference ---------------------------------------------------------------------------------------------------


def deep_mlp():
    return nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.GELU())))


@entry("hand", "8 x (Linear 256 + GELU), batch 8", dtype=torch.float16)
def mlp(device, dtype):
    return Work(deep_mlp().to(device, dtype), random_inputs(device, dtype, (8, 256)))


class LstmLoop(nn.Module):
    """The cell written out, in a Python loop over time, as research code has it."""

    def __init__(self, features, hidden):
        super().__init__()
        self.gates = nn.Linear(features + hidden, 4 * hidden)
        self.out = nn.Linear(hidden, features)
        self.hidden = hidden

    def forward(self, x):  # batch, time, features
        h = x.new_zeros(x.shape[0], self.hidden)
        c = x.new_zeros(x.shape[0], self.hidden)
        outs = []
        for t in range(x.shape[1]):
            i, f, g, o = self.gates(torch.cat((x[:, t], h), 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outs.append(self.out(h))
        return torch.stack(outs, 1)


@entry("hand", "LSTM cell in a Python loop, 24 steps, hidden 256, batch 1", dtype=torch.float16)
def lstm_loop(device, dtype):
    return Work(LstmLoop(128, 256).to(device, dtype), random_inputs(device, dtype, (1, 24, 128)))


class GreedyDecoder(nn.Module):
    def __init__(self, words=4000, hidden=256, steps=12):
        super().__init__()
        self.embed = nn.Embedding(words, hidden)
        self.cell = nn.GRUCell(2 * hidden, hidden)
        self.out = nn.Linear(hidden, words)
        self.steps = steps

    def forward(self, memory, first):  # batch, places, hidden; batch
        h, word, words = memory.mean(1), first, []
        for _ in range(self.steps):
            weight = torch.softmax((memory * h[:, None]).sum(2), 1)
            context = (weight[:, :, None] * memory).sum(1)
            h = self.cell(torch.cat((self.embed(word), context), 1), h)
            word = self.out(h).argmax(1)
            words.append(word)
        return torch.stack(words, 1), h


@entry("hand", "GRU with attention, 12 greedy steps, batch 2", dtype=torch.float16)
def greedy_decoder(device, dtype):
    def inputs(i):
        return torch.randn(2, 40, 256, device=device, dtype=dtype), torch.randint(4000, (2,), device=device)
    return Work(GreedyDecoder().to(device, dtype), inputs)


class Cached(nn.Module):
    """One layer of a decoder with its key and value cache, written in place at a position on the device."""

    def __init__(self, width, heads, kv_heads, batch, length):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(2 * width, width, bias=False)
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(batch, kv_heads, length, self.size))

    def forward(self, x, position, mask, cos, sin):
        batch = x.shape[0]
        q, k, v = self.qkv(self.norm1(x)).view(batch, 1, -1, self.size).transpose(1, 2).split(
            (self.heads, self.kv_heads, self.kv_heads), 1)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        a = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(batch, 1, -1))
        gate, up = self.up(self.norm2(x)).chunk(2, 2)
        return x + self.down(F.silu(gate) * up)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Decoder(nn.Module):
    def __init__(self, layers, width, heads, kv_heads, batch, length, words):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Cached(width, heads, kv_heads, batch, length) for _ in range(layers))
        self.norm, self.out = nn.RMSNorm(width), nn.Linear(width, words, bias=False)
        half = width // heads // 2
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("places", torch.arange(length))

    def forward(self, word, position):  # (batch, 1), (1,)
        angle = position * self.frequencies.float()
        x = self.embed(word)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        mask = (self.places <= position)[None, None, None]
        for layer in self.layers:
            x = layer(x, position, mask, cos, sin)
        return self.out(self.norm(x))


def decoder(device, dtype, batch):
    length = 256
    model = Decoder(8, 512, 8, 4, batch, length, 8000).to(device, dtype)

    def inputs(i):
        return torch.randint(8000, (batch, 1), device=device), torch.tensor([i % length], device=device)
    return Work(model, inputs, distinct=16)


@entry("hand", "Llama-like decode step: 8 layers of 512, cache of 256 written in place, batch 1", dtype=torch.bfloat16)
def llama_step(device, dtype):
    return decoder(device, dtype, 1)


@entry("hand", "the same, batch 16", dtype=torch.bfloat16)
def llama_step_b16(device, dtype):
    return decoder(device, dtype, 16)


class Experts(nn.Module):
    """Two of eight experts a token, chosen by topk, all of them computed by one product each."""

    def __init__(self, width=512, experts=8, layers=4):
        super().__init__()
        self.routes = nn.ModuleList(nn.Linear(width, experts) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.up = nn.ParameterList(torch.randn(experts, width, 2 * width) * width**-0.5 for _ in range(layers))
        self.down = nn.ParameterList(torch.randn(experts, 2 * width, width) * width**-0.5 for _ in range(layers))

    def forward(self, x):
        for route, norm, up, down in zip(self.routes, self.norms, self.up, self.down):
            y = norm(x)
            scores = route(y).softmax(1)
            weight, which = scores.topk(2, 1)
            gates = torch.zeros_like(scores).scatter(1, which, weight)
            each = torch.bmm(F.silu(torch.matmul(y, up)), down)  # expert, token, width
            x = x + torch.einsum("te,etw->tw", gates, each)
        return x


@entry("hand", "mixture of 8 experts, top 2, 4 layers of 512, 4 tokens", dtype=torch.bfloat16)
def experts(device, dtype):
    return Work(Experts().to(device, dtype), random_inputs(device, dtype, (4, 512)))


class UnetBlock(nn.Module):
    def __init__(self, inside, out, time, attention):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inside), nn.GroupNorm(8, out)
        self.conv1, self.conv2 = nn.Conv2d(inside, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.time, self.skip = nn.Linear(time, out), nn.Conv2d(inside, out, 1)
        self.attention = nn.Conv2d(out, 3 * out, 1) if attention else None

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        x = self.skip(x) + self.conv2(F.silu(self.norm2(y)))
        if self.attention is None:
            return x
        q, k, v = (part.flatten(2).transpose(1, 2).unflatten(2, (4, -1)).transpose(1, 2)
                   for part in self.attention(x).chunk(3, 1))
        return x + F.scaled_dot_product_attention(q, k, v).transpose(2, 3).flatten(1, 2).view_as(x)


class Unet(nn.Module):
    def __init__(self, width=64, time=128):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, time), nn.SiLU(), nn.Linear(time, time))
        self.first, self.last = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        self.down = nn.ModuleList((UnetBlock(width, width, time, False), UnetBlock(width, 2 * width, time, True)))
        self.middle = UnetBlock(2 * width, 2 * width, time, True)
        self.up = nn.ModuleList((UnetBlock(4 * width, width, time, True), UnetBlock(2 * width, width, time, False)))

    def forward(self, x, step):
        angle = step[:, None].float() * torch.exp(-torch.arange(16, device=x.device) / 2.0)
        time = self.time(torch.cat((angle.sin(), angle.cos()), 1).to(x.dtype))
        x, kept = self.first(x), []
        for block in self.down:
            x = block(x, time)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x, time)
        for block in self.up:
            x = block(torch.cat((F.interpolate(x, scale_factor=2.0), kept.pop()), 1), time)
        return self.last(x)


@entry("hand", "a denoising step of a small diffusion U-net, 32 x 32, batch 1", dtype=torch.float16)
def unet(device, dtype):
    def inputs(i):
        return torch.randn(1, 4, 32, 32, device=device, dtype=dtype), torch.full((1,), i, device=device)
    return Work(Unet().to(device, dtype), inputs)


class SpeechMasks(nn.Module):
    """An encoder whose padding mask is made on the host, as speech code has it: a CPU tensor inside of the graph."""

    def __init__(self, width=256, layers=3):
        super().__init__()
        self.first = nn.Linear(80, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers))

    def forward(self, x, lengths):  # batch, time, 80; lengths on the CPU
        mask = torch.arange(x.shape[1])[None] >= lengths[:, None]
        bias = torch.zeros(mask.shape).masked_fill(mask, -1e4).to(x.device, x.dtype)
        x = self.first(x)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=bias)
        return x


@entry("hand", "speech encoder, masks made on the CPU in the middle of the model, 3 layers of 256", dtype=torch.float16)
def speech_masks(device, dtype):
    def inputs(i):
        return torch.randn(2, 100, 80, device=device, dtype=dtype), torch.randint(40, 101, (2,))
    return Work(SpeechMasks().to(device, dtype), inputs)


class EarlyExit(nn.Module):
    """A classifier that stops when it is sure: a branch on a value of the GPU, at which Dynamo splits the model."""

    def __init__(self, width=512, classes=100):
        super().__init__()
        def part():
            return nn.Sequential(*(m for _ in range(4)
                                   for m in (nn.Linear(width, width), nn.LayerNorm(width), nn.SiLU())))
        self.first, self.second = part(), part()
        self.out1, self.out2 = nn.Linear(width, classes), nn.Linear(width, classes)

    def forward(self, x):
        x = self.first(x)
        scores = self.out1(x).softmax(1)
        if scores.max() > 0.9:
            return scores
        return self.out2(self.second(x)).softmax(1)


@entry("hand", "two halves of 4 layers of 512 with a branch on a result between them, batch 4", dtype=torch.float16)
def early_exit(device, dtype):
    return Work(EarlyExit().to(device, dtype), random_inputs(device, dtype, (4, 512)))


class StateEquation(nn.Module):
    """Density of sea water as a ratio of polynomials in salinity, temperature and pressure: elementwise, long."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.upper, self.lower = (torch.rand(5, 4, 3, generator=generator).tolist() for _ in range(2))

    def forward(self, s, t, p):
        root = torch.sqrt(s)

        def ratio_part(terms):
            total = 0.0
            for by_t in reversed(terms):
                of_s = 0.0
                for by_p in reversed(by_t):
                    of_s = of_s * root + ((by_p[2] * p + by_p[1]) * p + by_p[0])
                total = total * t + of_s
            return total
        return ratio_part(self.upper) / (1.0 + ratio_part(self.lower))


@entry("hand", "equation of state of sea water, 4 M cells, elementwise", launch_bound=False)
def state_equation(device, dtype):
    def inputs(i):
        return tuple(torch.rand(1 << 22, device=device, dtype=dtype) for _ in range(3))
    return Work(StateEquation().to(device), inputs)


class Dlrm(nn.Module):
    def __init__(self, rows, tables=8, width=64):
        super().__init__()
        def tower(*sizes):
            return nn.Sequential(*(m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.ReLU())))
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = tower(13, 512, 256, width)
        pairs = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("row", pairs[0])
        self.register_buffer("column", pairs[1])
        self.top = tower(width + pairs.shape[1], 512, 256)
        self.last = nn.Linear(256, 1)

    def forward(self, dense, indices):  # batch, 13; tables, batch, lookups
        first = self.bottom(dense)
        vectors = torch.stack([first] + [table(i) for table, i in zip(self.tables, indices.unbind(0))], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.row, self.column]
        return self.last(self.top(torch.cat((first, products), 1)))


def dlrm_inputs(device, rows, batch, lookups):
    return lambda i: (torch.rand(batch, 13, device=device), torch.randint(rows, (8, batch, lookups), device=device))


@entry("hand", "DLRM, 8 tables of 100,000 x 64, 20 lookups, batch 2048", launch_bound=False)
def dlrm(device, dtype):
    rows = 100_000 if device.type == "cuda" else 1000
    return Work(Dlrm(rows).to(device), dlrm_inputs(device, rows, 2048, 20))


class Recommender(nn.Module):
    def __init__(self, items, inside=512, middle=1024):
        super().__init__()
        sizes = (items, inside, inside, middle, inside, inside, items)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers:
            x = F.selu(layer(x))
        return x


@entry("hand", "deeprecommender, an autoencoder of 17,768 items, batch 2048", dtype=torch.float16, launch_bound=False)
def recommender(device, dtype):
    items, batch = (17768, 2048) if device.type == "cuda" else (1000, 8)
    return Work(Recommender(items).to(device, dtype), random_inputs(device, dtype, (batch, items)))


# --- training ----------------------------------------------------------------------------------------------------


def with_loss(module, inputs, loss, **more):
    """A module that returns loss(module, *inputs)."""
    return Work(Returns(module, loss), inputs, **more)


@entry("hand", "the MLP, batch 64, with fused Adam", train=True)
def mlp_adam_train(device, dtype):
    model = deep_mlp().to(device, dtype)
    work = with_loss(model, random_inputs(device, dtype, (64, 256), (64, 256)),
                     lambda m, x, y: F.mse_loss(m(x), y))
    work.optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    return work


@entry("hand", "deeprecommender, batch 256", train=True, launch_bound=False)
def recommender_train(device, dtype):
    items, batch = (17768, 256) if device.type == "cuda" else (1000, 8)
    return with_loss(Recommender(items).to(device, dtype), random_inputs(device, dtype, (batch, items)),
                     lambda m, x: F.mse_loss(m(x), x))


@entry("hand", "DLRM with small tables, batch 256", train=True)
def dlrm_train(device, dtype):
    def loss(m, dense, indices, clicked):
        return F.binary_cross_entropy_with_logits(m(dense, indices), clicked)
    make = dlrm_inputs(device, 2000, 256, 4)
    return with_loss(Dlrm(2000).to(device), lambda i: (*make(i), torch.rand(256, 1, device=device)), loss)


@entry("hand", "LSTM cell in a Python loop, 12 steps, batch 64", train=True)
def lstm_train(device, dtype):
    return with_loss(LstmLoop(64, 256).to(device, dtype), random_inputs(device, dtype, (64, 12, 64), (64, 12, 64)),
                     lambda m, x, y: F.mse_loss(m(x), y))


class Dcgan(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        def up(a, b, *how):
            return nn.ConvTranspose2d(a, b, 4, *how, bias=False), nn.BatchNorm2d(b), nn.ReLU()
        def down(a, b):
            return nn.Conv2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2)
        w = width
        self.draw = nn.Sequential(*up(100, 8 * w, 1, 0), *up(8 * w, 4 * w, 2, 1), *up(4 * w, 2 * w, 2, 1),
                                  *up(2 * w, w, 2, 1), nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Tanh())
        self.judge = nn.Sequential(nn.Conv2d(3, w, 4, 2, 1), nn.LeakyReLU(0.2), *down(w, 2 * w), *down(2 * w, 4 * w),
                                   *down(4 * w, 8 * w), nn.Conv2d(8 * w, 1, 4, 1, 0))

    def forward(self, noise, real):
        made = self.draw(noise)
        of_real, of_made, of_drawing = self.judge(real), self.judge(made.detach()), self.judge(made)
        return F.softplus(-of_real).mean() + F.softplus(of_made).mean() + F.softplus(-of_drawing).mean()


@entry("hand", "DCGAN, both networks, 64 x 64, batch 32", train=True, launch_bound=False)
def dcgan_train(device, dtype):
    return Work(Dcgan().to(device, dtype), random_inputs(device, dtype, (32, 100, 1, 1), (32, 3, 64, 64)))


class LennardJones(nn.Module):
    """Energy and force of pairs learned together: the force is the network's derivative by its input."""

    def __init__(self, width=16):
        super().__init__()
        sizes = (1, width, width, width, width, 1)
        self.net = nn.Sequential(*(m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.Tanh())))

    def forward(self, r, energy, force):
        of_one = torch.func.vmap(torch.func.jacrev(lambda x: self.net(x)))
        return F.mse_loss(self.net(r), energy) + F.mse_loss(of_one(r).squeeze(-1), force)


@entry("hand", "Lennard-Jones energies and forces, 5 layers of 16, 1000 pairs", train=True)
def lennard_jones_train(device, dtype):
    return Work(LennardJones().to(device, dtype), random_inputs(device, dtype, (1000, 1), (1000, 1), (1000, 1)))


class ActorCritic(nn.Module):
    """The losses of one soft actor-critic step: twin critics, a squashed Gaussian drawn inside of the graph."""

    def __init__(self, state=24, action=6, width=256):
        super().__init__()
        def tower(a, b):
            return nn.Sequential(nn.Linear(a, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                 nn.Linear(width, b))
        self.actor = tower(state, 2 * action)
        self.critics, self.targets = (nn.ModuleList(tower(state + action, 1) for _ in range(2)) for _ in range(2))
        self.targets.requires_grad_(False)

    def act(self, state):
        mean, scale = self.actor(state).chunk(2, 1)
        scale = scale.clamp(-5, 2).exp()
        noise = torch.randn_like(mean)
        action = torch.tanh(mean + scale * noise)
        log_p = -0.5 * noise**2 - scale.log() - 0.5 * math.log(2 * math.pi) - torch.log(1 - action**2 + 1e-6)
        return action, log_p.sum(1, keepdim=True)

    @staticmethod
    def least(critics, state, action):
        both = torch.cat((state, action), 1)
        return torch.minimum(*(critic(both) for critic in critics))

    def forward(self, state, action, reward, after):
        with torch.no_grad():
            next_action, log_p = self.act(after)
            goal = reward + 0.99 * (self.least(self.targets, after, next_action) - 0.2 * log_p)
        both = torch.cat((state, action), 1)
        of_critics = sum(F.mse_loss(critic(both), goal) for critic in self.critics)
        drawn, log_p = self.act(state)
        return of_critics + (0.2 * log_p - self.least(self.critics, state, drawn)).mean()


@entry("hand", "soft actor-critic, twin critics of 256, batch 256, random numbers inside", train=True)
def actor_critic_train(device, dtype):
    return Work(ActorCritic().to(device, dtype),
                random_inputs(device, dtype, (256, 24), (256, 6), (256, 1), (256, 24)))


class Masked(nn.Module):
    def __init__(self, words=2000, width=256, layers=3):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True) for _ in range(layers))
        self.out = nn.Linear(width, words)

    def forward(self, words, wanted):
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.out(x).flatten(0, 1), wanted.flatten())


@entry("hand", "3 nn.TransformerEncoderLayer of 256 with dropout, batch 8 x 64", train=True)
def encoder_train(device, dtype):
    return Work(Masked().to(device, dtype),
                lambda i: tuple(torch.randint(2000, (8, 64), device=device) for _ in range(2)))
