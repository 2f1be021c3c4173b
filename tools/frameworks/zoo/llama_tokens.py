"""llama.cpp, by cyllama's wheel: two small models made here, of floats of two bytes and quantised, all of their layers on
the GPU, each given a text and then tokens one by one, which makes graphs. What it would choose as next token is not
asked: no kernel wrote it."""

import ctypes
import pathlib
import sys
import tempfile

import gguf
import numpy

for name in "cuda_runtime/lib/libcudart.so.*", "cublas/lib/libcublasLt.so.*", "cublas/lib/libcublas.so.*":
    ctypes.CDLL(next(pathlib.Path(sys.prefix).glob(f"lib/python3*/site-packages/nvidia/{name}")))

from cyllama.llama import llama_cpp

WIDTH, INNER, HEADS, LAYERS, WORDS = 256, 512, 4, 2, 96


def write(path, kind):
    model = gguf.GGUFWriter(path, "llama")
    model.add_context_length(128)
    model.add_embedding_length(WIDTH)
    model.add_block_count(LAYERS)
    model.add_feed_forward_length(INNER)
    model.add_head_count(HEADS)
    model.add_layer_norm_rms_eps(1e-5)
    model.add_rope_dimension_count(WIDTH // HEADS)
    model.add_tokenizer_model("llama")
    model.add_token_list(["<unk>", "<s>", "</s>"] + [f"w{i}" for i in range(WORDS - 3)])
    model.add_token_scores([0.0] * WORDS)
    model.add_token_types([gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * (WORDS - 3))
    random = numpy.random.default_rng(1)

    def add(name, *shape):
        values = random.standard_normal(shape, dtype=numpy.float32)
        if len(shape) == 1:
            model.add_tensor(name + ".weight", values)
        else:
            model.add_tensor(name + ".weight", gguf.quants.quantize(values, kind), raw_dtype=kind)

    add("token_embd", WORDS, WIDTH)
    add("output_norm", WIDTH)
    add("output", WORDS, WIDTH)
    for layer in range(LAYERS):
        for name in "attn_q", "attn_k", "attn_v", "attn_output":
            add(f"blk.{layer}.{name}", WIDTH, WIDTH)
        for name, *shape in ("attn_norm", WIDTH), ("ffn_norm", WIDTH), ("ffn_gate", INNER, WIDTH), \
                ("ffn_up", INNER, WIDTH), ("ffn_down", WIDTH, INNER):
            add(f"blk.{layer}.{name}", *shape)
    model.write_header_to_file()
    model.write_kv_data_to_file()
    model.write_tensors_to_file()
    model.close()


def read(path):
    settings = llama_cpp.LlamaModelParams()
    settings.n_gpu_layers = 99
    model = llama_cpp.LlamaModel(path, settings)
    settings = llama_cpp.LlamaContextParams()
    settings.n_ctx, settings.n_batch = 128, 32
    context = llama_cpp.LlamaContext(model, settings)
    prompt = list(range(3, 19))
    context.decode(llama_cpp.llama_batch_get_one(prompt, 0))
    for place in range(8):
        context.decode(llama_cpp.llama_batch_get_one([20 + place], len(prompt) + place))
    return len(prompt) + 8


def main():
    llama_cpp.ggml_backend_load_all()
    for kind in gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.Q8_0:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/model.gguf"
            write(path, kind)
            print(kind.name, read(path), "tokens", flush=True)
    return 0


sys.exit(main())
