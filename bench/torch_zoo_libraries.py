"""The models of bench/torch_models.py that torchvision, timm, transformers and torch-geometric build: random weights,
few layers, nothing is downloaded. A library that is missing leaves its models out and says so (MISSING)."""
import torch
import torch.nn.functional as F
from torch import nn

from torch_zoo import Returns, Work, entry, with_loss

MISSING: dict[str, str] = {}
half, bfloat = torch.float16, torch.bfloat16




# --- vision ------------------------------------------------------------------------------------------------------


def vision(name, suite, make, about, *, batch=1, size=224, dtype=half, launch_bound=True, channels_last=False):
    def build(device, dtype):
        model = make().to(device, dtype)
        n = batch if device.type == "cuda" else min(batch, 2)
        if channels_last:
            model = model.to(memory_format=torch.channels_last)

        def inputs(i):
            x = torch.randn(n, 3, size, size, device=device, dtype=dtype)
            return (x.to(memory_format=torch.channels_last) if channels_last else x,)
        return Work(model, inputs)
    entry(suite, about, dtype=dtype, launch_bound=launch_bound, name=name)(build)


def classify(m, x, wanted):
    return F.cross_entropy(m(x), wanted)


def vision_training(name, suite, make, about, batch, size, launch_bound):
    def build(device, dtype):
        n = batch if device.type == "cuda" else 2

        def inputs(i):
            return torch.randn(n, 3, size, size, device=device), torch.randint(100, (n,), device=device)
        return with_loss(make().to(device), inputs, classify)
    entry(suite, about, train=True, launch_bound=launch_bound, name=name)(build)


def torchvision_models():
    from torchvision import models

    vision("resnet18", "torchvision", models.resnet18, "batch 1")
    vision("shufflenet_v2", "torchvision", models.shufflenet_v2_x1_0, "x1.0, batch 1")
    vision("squeezenet", "torchvision", models.squeezenet1_1, "1.1, batch 1")
    vision("alexnet_b64", "torchvision", models.alexnet, "batch 64", batch=64, launch_bound=False)
    vision("resnet50_b64", "torchvision", models.resnet50, "batch 64, channels last", batch=64, launch_bound=False,
           channels_last=True)
    vision_training("resnet18_train", "torchvision", lambda: models.resnet18(num_classes=100), "batch 8, 96 x 96",
                    8, 96, True)


def timm_models():
    import timm

    def of(name, **more):
        return lambda: timm.create_model(name, pretrained=False, **more)

    for name in ("mobilenetv3_large_100", "efficientnet_b0", "lcnet_050", "ghostnet_100", "regnety_002", "levit_128"):
        vision(name.removesuffix("_100"), "timm", of(name), "batch 1")
    vision("deit_tiny", "timm", of("deit_tiny_patch16_224"), "batch 1")
    vision("convnextv2_atto", "timm", of("convnextv2_atto"), "batch 1")
    vision("swin_tiny", "timm", of("swin_tiny_patch4_window7_224", depths=(2, 2, 2, 2)), "2 blocks a stage, batch 1")
    vision("vit_base_b32", "timm", of("vit_base_patch16_224", depth=4), "4 blocks, batch 32", batch=32, dtype=bfloat,
           launch_bound=False)
    vision_training("vit_tiny_train", "timm", of("vit_tiny_patch16_224", depth=4, img_size=96, num_classes=100),
                    "4 blocks, batch 8, 96 x 96", 8, 96, True)


# --- language ----------------------------------------------------------------------------------------------------


def tokens(device, words, *size):
    return torch.randint(1, words, size, device=device)


def first(module, *inputs):
    return module(*inputs, return_dict=True)[0]


def language(name, model, config, about, *, batch=1, length=128, dtype=half, launch_bound=True):
    def build(device, dtype):
        n = batch if device.type == "cuda" else min(batch, 2)
        return Work(Returns(model(config).to(device, dtype), first),
                    lambda i: (tokens(device, 1000, n, length), torch.ones(n, length, dtype=torch.long, device=device)))
    entry("transformers", about, dtype=dtype, launch_bound=launch_bound, name=name)(build)


def lengths():
    """32 lengths between 16 and 512, in an order of their own."""
    return torch.randint(16, 513, (32,), generator=torch.Generator().manual_seed(7)).tolist()


class Step(nn.Module):
    """One decoding step of a causal model with transformers' StaticCache, which the step writes in place."""

    def __init__(self, model, cache):
        super().__init__()
        self.model, self.cache = model, cache

    def forward(self, word):
        return self.model(input_ids=word, past_key_values=self.cache, use_cache=True, return_dict=True).logits


def decoding(name, model, config, about, batch, dtype=bfloat):
    def build(device, dtype):
        from transformers import StaticCache
        length = 256
        net = model(config).to(device, dtype)
        cache = StaticCache(config=config, max_cache_len=length)
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        cache.early_initialization(batch_size=batch, num_heads=heads, head_dim=size, dtype=dtype, device=device)
        state = tuple(t for layer in cache.layers for t in (layer.keys, layer.values, layer.cumulative_length))

        def reset():
            for layer in cache.layers:
                layer.cumulative_length.zero_()
        return Work(Step(net, cache), lambda i: (tokens(device, 1000, batch, 1),), reset=reset, most_calls=length - 16,
                    extra_state=state)
    entry("transformers", about, dtype=dtype, name=name)(build)


def transformers_models():
    import transformers as t
    t.logging.set_verbosity_error()

    words = 4000
    small = dict(vocab_size=words, hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048)
    language("bert_small", t.BertForMaskedLM, t.BertConfig(**small), "4 layers of 512, 128 tokens, batch 1")
    language("distilbert", t.DistilBertForMaskedLM, t.DistilBertConfig(vocab_size=words, n_layers=4),
             "4 layers of 768, 128 tokens, batch 1")
    language("electra", t.ElectraForMaskedLM, t.ElectraConfig(vocab_size=words, num_hidden_layers=6),
             "6 layers of 256, 128 tokens, batch 1")
    language("mobilebert", t.MobileBertForMaskedLM, t.MobileBertConfig(vocab_size=words, num_hidden_layers=6),
             "6 thin layers, 128 tokens, batch 1")
    language("albert", t.AlbertForMaskedLM, t.AlbertConfig(
        vocab_size=words, hidden_size=768, num_hidden_layers=6, num_attention_heads=12, intermediate_size=3072),
        "6 times the layer of 768, 128 tokens, batch 1")
    language("bert_b32", t.BertForMaskedLM, t.BertConfig(vocab_size=words, num_hidden_layers=4),
             "4 layers of 768, 128 tokens, batch 32", batch=32, launch_bound=False)

    @entry("transformers", "4 layers of 512, 128 tokens, batch 1", dtype=half)
    def xlnet(device, dtype):
        model = t.XLNetLMHeadModel(t.XLNetConfig(vocab_size=words, d_model=512, n_layer=4, n_head=8, d_inner=2048))
        return Work(Returns(model.to(device, dtype), lambda m, x: m(x, use_mems=False, return_dict=True)[0]),
                    lambda i: (tokens(device, words, 1, 128),))

    @entry("transformers", "T5, 3 + 3 layers of 512, 64 and 16 tokens, batch 1", dtype=bfloat)
    def t5(device, dtype):
        model = t.T5ForConditionalGeneration(t.T5Config(vocab_size=words, num_layers=3, num_decoder_layers=3))
        return Work(Returns(model.to(device, dtype), lambda m, x, y: m(
            input_ids=x, decoder_input_ids=y, use_cache=False, return_dict=True).logits),
            lambda i: (tokens(device, words, 1, 64), tokens(device, words, 1, 16)))

    @entry("transformers", "CLIP, 3 + 3 layers, 1 picture and 2 texts", dtype=half)
    def clip(device, dtype):
        config = t.CLIPConfig(text_config=dict(vocab_size=words, num_hidden_layers=3, eos_token_id=2),
                              vision_config=dict(num_hidden_layers=3))
        model = t.CLIPModel(config).to(device, dtype)

        def inputs(i):
            return tokens(device, words, 2, 32), torch.randn(1, 3, 224, 224, device=device, dtype=dtype)
        return Work(Returns(model, lambda m, x, y: m(input_ids=x, pixel_values=y, return_dict=True).logits_per_image),
                    inputs)

    decoding("gpt2_step", t.GPT2LMHeadModel, t.GPT2Config(
        vocab_size=words, n_embd=512, n_layer=6, n_head=8, n_positions=512),
        "GPT-2 decode step, 6 layers of 512, StaticCache of 256, batch 1", 1)
    decoding("hf_llama_step", t.LlamaForCausalLM, t.LlamaConfig(
        vocab_size=words, hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8,
        num_key_value_heads=4), "Llama decode step, 8 layers of 512, StaticCache of 256, batch 1", 1)
    decoding("qwen3_step_b4", t.Qwen3ForCausalLM, t.Qwen3Config(
        vocab_size=words, hidden_size=512, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=8,
        num_key_value_heads=4, head_dim=64), "Qwen3 decode step, 6 layers of 512, StaticCache of 256, batch 4", 4)

    @entry("transformers", "BERT, 4 layers of 256, batch 4, padded to 32 lengths in 16..512", dtype=half, dynamic=True)
    def bert_lengths(device, dtype):
        config = t.BertConfig(vocab_size=words, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                              intermediate_size=1024)
        sizes = lengths()

        def inputs(i):
            n = sizes[i % len(sizes)]
            return tokens(device, words, 4, n), torch.ones(4, n, dtype=torch.long, device=device)
        return Work(Returns(t.BertForMaskedLM(config).to(device, dtype), first), inputs, distinct=len(sizes))

    def masked(m, x, wanted):
        return F.cross_entropy(m(x, return_dict=True).logits.flatten(0, 1), wanted.flatten())

    @entry("transformers", "BERT, 4 layers of 256 with dropout, 64 tokens, batch 8", train=True)
    def bert_train(device, dtype):
        config = t.BertConfig(vocab_size=words, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                              intermediate_size=1024)
        return with_loss(t.BertForMaskedLM(config).to(device),
                         lambda i: (tokens(device, words, 8, 64), tokens(device, words, 8, 64)), masked)

    @entry("transformers", "GPT-2, 4 layers of 384 with dropout, 128 tokens, batch 4", train=True)
    def gpt2_train(device, dtype):
        config = t.GPT2Config(vocab_size=words, n_embd=384, n_layer=4, n_head=6, n_positions=256, use_cache=False)
        return with_loss(t.GPT2LMHeadModel(config).to(device),
                         lambda i: (tokens(device, words, 4, 128), tokens(device, words, 4, 128)), masked)


# --- graphs of nodes ---------------------------------------------------------------------------------------------


def graph_inputs(device, nodes, edges, features):
    return lambda i: (torch.randn(nodes, features, device=device), torch.randint(nodes, (2, edges), device=device))


class Convolutions(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, edges):
        return self.second(F.relu(self.first(x, edges)), edges)


def geometric_models():
    from torch_geometric import nn as g
    from torch_geometric.nn.models import schnet as s

    def two(make, features=64, hidden=64, out=41):
        return Convolutions(make(features, hidden), make(hidden, out))

    def perceptron(a, b):
        return nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, b))

    kinds = {
        "gcn": lambda a, b: g.GCNConv(a, b, add_self_loops=False),
        "sage": g.SAGEConv,
        "gin": lambda a, b: g.GINConv(perceptron(a, b)),
        "edge_cnn": lambda a, b: g.EdgeConv(perceptron(2 * a, b)),
    }
    for name, make in kinds.items():
        large = name == "gcn"

        def build(device, dtype, make=make, large=large):
            nodes, edges = (10_000, 200_000) if large and device.type == "cuda" else (1000, 8000)
            return Work(two(make).to(device), graph_inputs(device, nodes, edges, 64))
        entry("pyg", "2 layers of 64, " + ("10,000 nodes, 200,000 edges" if large else "1,000 nodes, 8,000 edges"),
              launch_bound=not large, name=name)(build)

    @entry("pyg", "GCN, 2 layers of 64, 1,000 nodes, 8,000 edges", train=True)
    def gcn_train(device, dtype):
        make = graph_inputs(device, 1000, 8000, 64)
        return with_loss(two(kinds["gcn"]).to(device), lambda i: (*make(i), torch.randint(41, (1000,), device=device)),
                         lambda m, x, edges, wanted: F.cross_entropy(m(x, edges), wanted))

    class Molecules(nn.Module):
        """SchNet's blocks over molecules whose pairs are given: its own forward asks the GPU how many there are."""

        def __init__(self, molecules, width=64, layers=3):
            super().__init__()
            self.molecules = molecules
            self.embed, self.spread = nn.Embedding(20, width), s.GaussianSmearing(0.0, 10.0, 50)
            self.blocks = nn.ModuleList(s.InteractionBlock(width, 50, width, 10.0) for _ in range(layers))
            self.out = nn.Sequential(nn.Linear(width, width // 2), s.ShiftedSoftplus(), nn.Linear(width // 2, 1))

        def forward(self, kind, place, pairs, molecule):
            distance = (place[pairs[0]] - place[pairs[1]]).norm(dim=1)
            h, spread = self.embed(kind), self.spread(distance)
            for block in self.blocks:
                h = h + block(h, pairs, distance, spread)
            return h.new_zeros(self.molecules, 1).index_add(0, molecule, self.out(h))

    def molecules(device, count=16, atoms=12):
        a, b = torch.meshgrid(torch.arange(atoms), torch.arange(atoms), indexing="ij")
        pair = torch.stack((a[a != b], b[a != b]))
        pairs = torch.cat([pair + i * atoms for i in range(count)], 1).to(device)
        molecule = torch.arange(count, device=device).repeat_interleave(atoms)

        def inputs(i):
            return (torch.randint(20, (count * atoms,), device=device),
                    4 * torch.rand(count * atoms, 3, device=device), pairs.clone(), molecule.clone())
        return Molecules(count).to(device), inputs

    @entry("pyg", "SchNet's blocks, 3 of 64, 16 molecules of 12 atoms")
    def schnet(device, dtype):
        return Work(*molecules(device))

    @entry("pyg", "the same, training", train=True)
    def schnet_train(device, dtype):
        model, make = molecules(device)
        return with_loss(model, lambda i: (*make(i), torch.randn(16, 1, device=device)),
                         lambda m, *inputs: F.mse_loss(m(*inputs[:-1]), inputs[-1]))


for suite, models in (("torchvision", torchvision_models), ("timm", timm_models),
                      ("transformers", transformers_models), ("pyg", geometric_models)):
    try:
        models()
    except ImportError as error:
        MISSING[suite] = str(error)
