"""Write types.gguf, a tensor of random blocks of every type of GGUF that is read, and types.safetensors, their values
as the Python package gguf decodes them.

    python3 -m pip install -r ../../testdata/requirements.txt
    python3 make.py
"""
import pathlib

import gguf
import numpy as np
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent
ROWS = 3
# Where the 16-bit floats of a block are, which must be finite.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}

rng = np.random.default_rng(7)
writer = gguf.GGUFWriter(HERE / "types.gguf", "none")
writer.add_string("text", "grüße")
writer.add_array("texts", ["", "a", "▁b"])
writer.add_array("numbers", [1, -2, 3])
writer.add_float32("small", 1e-6)
writer.add_bool("yes", True)
values = {}
for name, scales in SCALES.items():
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (ROWS, 512 // elements, size), dtype=np.uint8)
    for at in scales:
        halves = rng.normal(0, 0.02, blocks.shape[:2]).astype(np.float16)
        blocks[:, :, at:at + 2] = halves[..., None].view(np.uint8)
    if name == "MXFP4":
        blocks[:, :, 0] = rng.integers(100, 140, blocks.shape[:2])
    data = blocks.reshape(ROWS, -1)
    writer.add_tensor(name, data, raw_dtype=kind)
    values[name] = gguf.quants.dequantize(data, kind).astype(np.float32)
for name, data in {"F32": rng.normal(size=(2, 5)), "F16": rng.normal(size=7)}.items():
    data = data.astype(np.float32 if name == "F32" else np.float16)
    writer.add_tensor(name, data)
    values[name] = data.astype(np.float32)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
save_file(values, HERE / "types.safetensors")
