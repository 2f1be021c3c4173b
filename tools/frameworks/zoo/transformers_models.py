"""Transformers: a small BERT trained by Trainer, and a small Llama that generates, with weights made here."""

import sys
import tempfile

import torch
from transformers import (BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForCausalLM, Trainer,
                          TrainingArguments, set_seed)
from transformers.trainer_callback import PrinterCallback

SMALL = {"vocab_size": 128, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, at):
        return {"input_ids": torch.arange(at, at + 16), "labels": torch.tensor(at % 2)}


def train(**options):
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, max_steps=4, per_device_train_batch_size=4, save_strategy="no",
                                      logging_strategy="no", report_to=[], disable_tqdm=True,
                                      logging_nan_inf_filter=False, dataloader_pin_memory=True, **options)
        trainer = Trainer(BertForSequenceClassification(BertConfig(**SMALL)), arguments, train_dataset=Texts())
        trainer.remove_callback(PrinterCallback)  # it prints times
        trainer.train()
    return trainer.state.global_step


class Enough(Exception):
    pass


class Tokens:
    """Ends a text after so many tokens: whether it has ended is read from the device, where no kernel wrote it."""

    def __init__(self, most):
        self.left, self.seen = most + 1, []  # the prompt comes first

    def put(self, tokens):
        self.seen.append(tuple(tokens.shape))
        self.left -= 1
        if not self.left:
            raise Enough

    def end(self):
        pass


def generate(model, **options):
    prompt, tokens = torch.arange(6, device="cuda").reshape(1, 6), Tokens(8)
    try:
        model.generate(prompt, max_new_tokens=64, attention_mask=torch.ones_like(prompt), pad_token_id=0,
                       streamer=tokens, **options)
    except Enough:
        pass
    return tokens.seen


def main():
    set_seed(1)
    print("trained", train(), "steps")
    print("trained", train(bf16=True, gradient_accumulation_steps=2), "steps in bfloat16")
    model = LlamaForCausalLM(LlamaConfig(**SMALL, bos_token_id=None, eos_token_id=None)).cuda().eval()
    print("generated", generate(model, do_sample=False))
    print("sampled", generate(model, do_sample=True, top_k=10))
    return 0


sys.exit(main())
