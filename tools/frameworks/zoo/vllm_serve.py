"""vLLM, its engine in a process of its own, with CUDA graphs, on a tiny OPT with made-up weights: nothing is
downloaded.

    vllm_serve.py                        four requests, one after the other: together they would meet in the
                                         engine's batches as time has it, in every run otherwise
    vllm_serve.py --seconds S [--json]   one request at a time: how long 16 tokens take

Exit status 77 where there is no vLLM."""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

# Nothing else of these folders may be found: programs in them bear names of packages that vLLM looks for. The
# engine's process imports this file again.
HERE = pathlib.Path(__file__).resolve().parent
sys.path = [str(HERE.parent)] + [folder for folder in sys.path if folder != str(HERE)]
from programs import SKIPPED, percentiles_ms
del sys.path[0]

# The sampler and the runner that vLLM prefers take the number of tokens from what a kernel has written, and
# kernels of the simulated GPU write nothing: requests would never end.
os.environ.update(HF_HUB_OFFLINE="1", VLLM_USE_V2_MODEL_RUNNER="0", VLLM_USE_FLASHINFER_SAMPLER="0",
                  VLLM_NO_USAGE_STATS="1", VLLM_LOGGING_LEVEL="ERROR")

TOKENS = 16
PAUSE_S = 0.02
MODEL = {
    "architectures": ["OPTForCausalLM"], "model_type": "opt", "torch_dtype": "float16",
    "hidden_size": 128, "word_embed_proj_dim": 128, "ffn_dim": 256, "num_hidden_layers": 2,
    "num_attention_heads": 2, "vocab_size": 512, "max_position_embeddings": 256, "dropout": 0.0,
    "activation_function": "relu", "do_layer_norm_before": True, "bos_token_id": 2, "eos_token_id": 2,
    "pad_token_id": 1,
}


class Service:
    def __init__(self, folder):
        from vllm import LLM, SamplingParams
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(MODEL))
        # Without torch.compile, and without compiling beforehand what this model does not use: it starts sooner.
        self.engine = LLM(model=folder, load_format="dummy", skip_tokenizer_init=True, seed=1,
                          max_model_len=128, max_num_seqs=8, max_num_batched_tokens=128, gpu_memory_utilization=0.2,
                          num_gpu_blocks_override=64, enable_prefix_caching=False,
                          compilation_config={"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY",
                                              "cudagraph_capture_sizes": [1, 2, 4, 8]},
                          kernel_config={"enable_jit_warmup": False})
        self.wanted = SamplingParams(temperature=0.0, max_tokens=TOKENS, ignore_eos=True, detokenize=False)

    def answer(self, length=8):
        """The number of tokens in the answer to a prompt of that length."""
        prompt = {"prompt_token_ids": list(range(10, 10 + length))}
        answer, = self.engine.generate([prompt], self.wanted, use_tqdm=False)
        return len(answer.outputs[0].token_ids)


def serve(service, seconds):
    """Latencies in seconds, and answers that are not TOKENS long."""
    latencies, wrong, end = [], 0, time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.monotonic()
        wrong += service.answer() != TOKENS
        latencies.append(time.monotonic() - begin)
        time.sleep(PAUSE_S)
    return latencies, wrong


def main():
    parser = argparse.ArgumentParser(description="vLLM on a tiny model")
    parser.add_argument("--seconds", type=float, help="serve for so long")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            service = Service(folder)
        except ImportError as why:
            print(f"vllm_serve.py needs vLLM: {why}", file=sys.stderr)
            return SKIPPED
        if o.seconds is None:
            for length in 8, 8, 24, 60:
                print(length, "tokens:", service.answer(length), flush=True)
            return 0
        serve(service, min(3, o.seconds))  # warm
        latencies, wrong = serve(service, o.seconds)
    result = {**percentiles_ms(latencies), "requests": len(latencies), "wrong": wrong}
    print(json.dumps(result) if o.json else
          f"{result['requests']} requests of {TOKENS} tokens: p50 {result['p50_ms']} ms, p99 {result['p99_ms']} ms")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
