"""TensorFlow: a Keras model that is fitted, eager operations, and a step compiled by XLA."""

import ctypes
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
# The same kernels in every run.
os.environ.setdefault("TF_CUDNN_USE_AUTOTUNE", "0")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0")

# TensorFlow looks for all libraries of the toolkit but this one where pip puts them.
solver = next(pathlib.Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/cusolver/lib/libcusolver.so.*"))
ctypes.CDLL(solver)

import keras
import numpy
import tensorflow as tf

if not tf.config.list_physical_devices("GPU"):
    raise SystemExit("TensorFlow sees no GPU")
keras.utils.set_random_seed(1)


def fit():
    model = keras.Sequential([
        keras.layers.Input((16, 16, 3)), keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.MaxPooling2D(),
        keras.layers.Flatten(), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(), loss, jit_compile=False)
    x, y = numpy.ones((32, 16, 16, 3), numpy.float32), numpy.arange(32) % 10
    model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    return model.predict(x, batch_size=32, verbose=0).shape  # of several it asks the device whether they are alike


def eager():
    a = tf.ones((64, 64))
    for _ in range(10):
        a = tf.nn.relu(a @ a) + 1.0
    return a.numpy().shape


@tf.function(jit_compile=True)
def step(w, x):
    with tf.GradientTape() as tape:
        tape.watch(w)
        loss = tf.reduce_mean(tf.square(tf.tanh(x @ w)))
    return w - 0.1 * tape.gradient(loss, w)


def compiled():
    w, x = tf.ones((64, 64)), tf.ones((32, 64))
    for _ in range(5):
        w = step(w, x)
    return w.numpy().shape


for part in fit, eager, compiled:
    print(part.__name__, part(), flush=True)
