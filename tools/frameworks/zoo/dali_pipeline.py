"""DALI: pictures made on the host go through two pipelines, one that overlaps its batches and one that does not."""

import numpy
from nvidia.dali import fn, pipeline_def, types

rng = numpy.random.default_rng(1)
PICTURES = [rng.integers(0, 255, (48, 64, 3), dtype=numpy.uint8) for _ in range(8)]


@pipeline_def(batch_size=4, num_threads=2, device_id=0, seed=1)
def pictures():
    x = fn.external_source(lambda info: PICTURES[info.idx_in_epoch % len(PICTURES)], batch=False, dtype=types.UINT8)
    x = fn.resize(x.gpu(), resize_x=32, resize_y=32)
    x = fn.rotate(x, angle=10.0, fill_value=0, keep_size=True)
    return fn.crop_mirror_normalize(x, dtype=types.FLOAT, output_layout="CHW", mean=[128.0] * 3, std=[64.0] * 3)


for overlap in False, True:
    pipe = pictures(exec_async=overlap, exec_pipelined=overlap, prefetch_queue_depth=2 if overlap else 1)
    pipe.build()
    shapes = [pipe.run()[0].as_cpu().as_array().shape for _ in range(5)]
    print("overlapping" if overlap else "one by one", shapes)
    del pipe
